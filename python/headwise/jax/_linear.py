"""A linear map over the last axis as an operator of JAX."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from headwise.jax._ffi import check_dtype, foreign_call, of_each_shard


def _call(rows: Any, kernel: Any, bias: Any) -> Any:
    operands = (rows, kernel) if bias is None else (rows, kernel, bias)
    shape = (rows.shape[0], kernel.shape[1])
    return foreign_call("headwise_linear", [shape])(*operands)[0]


_linear = jax.custom_vjp(_call)


def _forward(rows: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
    # A residual's structure is static: () says that there is a bias, whose numbers are not needed.
    return _call(rows, kernel, bias), (rows, kernel, None if bias is None else ())


def _backward(residuals: Any, gradient: Any) -> tuple[Any, Any, Any]:
    rows, kernel, has_bias = residuals
    shapes = [rows.shape, kernel.shape, (kernel.shape[1],)]
    of_rows, of_kernel, of_bias = foreign_call("headwise_linear_backward", shapes)(
        rows, kernel, gradient
    )
    return of_rows, of_kernel, None if has_bias is None else of_bias


_linear.defvjp(_forward, _backward)


@jax.jit
def _run(x: Any, kernel: Any, bias: Any) -> Any:
    given = [x, kernel] if bias is None else [x, kernel, bias]
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).astype(jnp.float32)
    made = _linear(*of_each_shard(
        (rows, kernel.astype(jnp.float32), None if bias is None else bias.astype(jnp.float32))
    ))
    return made.reshape(*x.shape[:-1], kernel.shape[1]).astype(jnp.result_type(*given))


def linear(x: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None = None) -> jax.Array:
    """x (…, in) · kernel (in, out) + bias (out), as every projection of a layer computes it, with
    gradients of all three. float32, bfloat16 or float16 in and out, computed in float32.

    >>> import headwise.jax
    >>> import jax.numpy as jnp
    >>> headwise.jax.linear(jnp.ones((2, 3, 4)), jnp.ones((4, 5)), jnp.ones(5)).shape
    (2, 3, 5)
    """
    x, kernel = jnp.asarray(x), jnp.asarray(kernel)
    bias = None if bias is None else jnp.asarray(bias)
    for name, array in (("x", x), ("kernel", kernel), ("bias", bias)):
        if array is not None:
            check_dtype("linear", name, array)
    if kernel.ndim != 2:
        raise ValueError(f"[linear] kernel: expected shape (in, out), got {kernel.shape}")
    if x.ndim < 1 or x.shape[-1] != kernel.shape[0]:
        raise ValueError(f"[linear] x: expected a last axis of {kernel.shape[0]}, got {x.shape}")
    if bias is not None and bias.shape != kernel.shape[1:]:
        raise ValueError(f"[linear] bias: expected shape {kernel.shape[1:]}, got {bias.shape}")
    return _run(x, kernel, bias)
