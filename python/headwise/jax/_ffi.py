"""The library's functions as XLA sees them: foreign functions, without Python when they run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

try:
    from headwise.jax import _handlers
except ImportError as error:
    raise ImportError(
        "headwise.jax: expected the extension headwise.jax._handlers, which is built where jaxlib is "
        f"installed. Install jax, then headwise again from its sources. ({error})"
    ) from error

for _name, _handler in _handlers.handlers().items():
    jax.ffi.register_ffi_target(_name, _handler, platform="cpu")

Shape = tuple[int, ...]

_MOST_THREADS = 1024


def foreign_call(name: str, result_shapes: list[Shape]) -> Callable[..., Sequence[jax.Array]]:
    """A function of float32 results. Under vmap its operands get axes in front, of extent 1 where they
    are not mapped: the handlers see which lanes share what."""

    def run(*operands: Any, **attributes: Any) -> Sequence[jax.Array]:
        operands = tuple(of_each_shard(operands))
        results = [jax.ShapeDtypeStruct(shape, jnp.float32, **_shards(operands)) for shape in result_shapes]
        call = jax.ffi.ffi_call(name, results, vmap_method="expand_dims")
        differentiable = jax.custom_jvp(lambda *operands: call(*operands, **attributes))
        differentiable.defjvp(_refuse_to_differentiate)
        return differentiable(*operands)

    return run


def of_each_shard(operands: Iterable[Any]) -> list[Any]:
    """Within jax.shard_map: operands that all shards share as each shard's own, like those beside them.
    An operator's operands are of one kind, and the gradient of a shared one is the sum over the shards."""
    operands = list(operands)
    axes = _axes(operands)
    return [operand if operand is None or axes <= (own := _axes([operand]))
            else jax.lax.pcast(operand, tuple(sorted(axes - own)), to="varying") for operand in operands]


def _shards(operands: Sequence[Any]) -> dict[str, Any]:
    """That results are each shard's own, if the operands are."""
    if not _axes(operands):
        return {}
    kind = jax.typeof(operands[0])
    on_its_mesh = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec())
    return {"manual_axis_type": kind.manual_axis_type, "sharding": on_its_mesh}


def _axes(operands: Iterable[Any]) -> frozenset[str]:
    """Of the mesh, along which shards have numbers of their own; none outside of jax.shard_map."""
    kinds = [getattr(jax.typeof(operand), "manual_axis_type", None) for operand in operands if operand is not None]
    return frozenset().union(*(kind.varying for kind in kinds if kind is not None))


def _refuse_to_differentiate(primals: Any, tangents: Any) -> Any:
    """The operators have gradients of their own, so that JAX asks a call itself only for what these lack."""
    raise NotImplementedError(
        "headwise.jax: expected first derivatives (jax.grad, jax.vjp, jax.jacrev), got a second one "
        "(grad of grad, jax.hessian), which headwise does not compute"
    )


def check_dtype(function: str, argument: str, array: jax.Array) -> None:
    """That float32 can hold the array's numbers without losing digits."""
    if array.dtype not in (jnp.float32, jnp.bfloat16, jnp.float16):
        raise TypeError(
            f"[{function}] {argument}: expected float32, bfloat16 or float16, got {array.dtype}; "
            "headwise computes in float32, so convert by astype(jnp.float32)"
        )


def set_threads(threads: int | None) -> None:
    """How many threads the calls of JAX share from now on: 1 … 1024; None: as many as the process may
    use CPUs. Results do not depend on it, bit for bit.

    >>> import headwise.jax
    >>> headwise.jax.set_threads(1)
    >>> headwise.jax.set_threads(None)
    """
    wrong = f"[set_threads] threads: expected 1 … {_MOST_THREADS}, or None, got {threads!r}"
    if isinstance(threads, bool):
        raise TypeError(wrong)
    try:
        count = None if threads is None else operator.index(threads)
    except TypeError:
        raise TypeError(wrong) from None
    if count is not None and not 1 <= count <= _MOST_THREADS:
        raise ValueError(wrong)
    _handlers.set_threads(count or 0)
