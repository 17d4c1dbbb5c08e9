"""The library's functions as XLA sees them: foreign functions, without Python when they run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
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


def foreign_call(name: str, result_shapes: list[Shape]) -> Callable[..., Sequence[jax.Array]]:
    """A function of float32 results. Under vmap its operands get axes in front, of extent 1 where they
    are not mapped: the handlers see which lanes share what."""
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in result_shapes]
    call = jax.ffi.ffi_call(name, results, vmap_method="expand_dims")

    def run(*operands: Any, **attributes: Any) -> Sequence[jax.Array]:
        differentiable = jax.custom_jvp(lambda *operands: call(*operands, **attributes))
        differentiable.defjvp(_refuse_to_differentiate)
        return differentiable(*operands)

    return run


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
    try:
        count = 0 if threads is None else operator.index(threads)
    except TypeError:
        raise TypeError(f"[set_threads] threads: expected 1 … 1024, or None, got {threads!r}") from None
    if count == 0 and threads is not None:
        raise ValueError("[set_threads] threads: expected 1 … 1024, or None, got 0")
    _handlers.set_threads(count)
