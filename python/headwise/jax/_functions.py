"""attention(), and dot_product_attention() with the signature of jax.nn's."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal, NoReturn

import jax
import jax.numpy as jnp
import numpy
from jax.typing import ArrayLike

from headwise.jax._attention import Operands, Options, Results, run
from headwise.jax._ffi import check_dtype

Window = int | tuple[int, int] | None

_MOST_KEYS = 2**62  # of a window: the library adds positions in 64 bits


def _fail(function: str, argument: str, expected: str, got: object) -> NoReturn:
    raise ValueError(f"[{function}] {argument}: expected {expected}, got {got}")


def _arrays(function: str, **given: Any) -> list[jax.Array]:
    arrays = []
    for name, array in given.items():
        try:
            arrays.append(jnp.asarray(array))
        except (TypeError, ValueError):
            raise TypeError(f"[{function}] {name}: expected an array, got {array!r}") from None
    return arrays


def _check_inputs(function: str, query: jax.Array, key: jax.Array, value: jax.Array) -> None:
    arrays = {"query": query, "key": key, "value": value}
    for name, array in arrays.items():
        check_dtype(function, name, array)
        if array.dtype != key.dtype:
            _fail(function, name, f"key's dtype {key.dtype}", array.dtype)
        if array.ndim < 3:
            _fail(function, name, "shape (batch…, length, heads, size)", array.shape)
        if array.ndim != key.ndim or array.shape[:-3] != key.shape[:-3]:
            _fail(function, name, f"key's batch axes {key.shape[:-3]}", f"shape {array.shape}")
    if value.shape[:-1] != key.shape[:-1]:
        _fail(function, "value", f"shape {(*key.shape[:-1], 'any')}", value.shape)
    if query.shape[-1] != key.shape[-1]:
        _fail(function, "query", f"a last axis of {key.shape[-1]}, as key has", query.shape)
    heads, kv_heads = query.shape[-2], key.shape[-2]
    if kv_heads == 0 or heads % kv_heads != 0:
        _fail(function, "query", f"a multiple of key's {kv_heads} heads", f"{heads} heads")


def _check_scores(function: str, name: str, array: jax.Array, query: jax.Array,
                  key: jax.Array) -> None:
    """That the array broadcasts to (batch…, heads, queries, keys)."""
    scores = (*query.shape[:-3], query.shape[-2], query.shape[-3], key.shape[-3])
    ends = zip(reversed(array.shape), reversed(scores))
    if array.ndim > len(scores) or any(extent not in (1, whole) for extent, whole in ends):
        _fail(function, name, f"a shape that broadcasts to {scores}", array.shape)


def _as_many_axes(scores: ArrayLike | None, query: ArrayLike) -> Any:
    """Without the batch axis of a mask or a bias, of extent 1, if the query has none: jax.nn accepts both."""
    if scores is None or not (jnp.ndim(scores) == 4 > jnp.ndim(query)) or jnp.shape(scores)[0] != 1:
        return scores
    return jnp.squeeze(jnp.asarray(scores), 0)


def _lengths(function: str, name: str, lengths: ArrayLike | None, key: ArrayLike) -> Any:
    if lengths is None:
        return None
    # Not by JAX if it need not be: without its x64 mode 64 bits would lose their upper half.
    known = not any(isinstance(part, jax.Array) for part in jax.tree.leaves(lengths))
    lengths = numpy.asarray(lengths) if known else jnp.asarray(lengths)
    if not jnp.issubdtype(lengths.dtype, jnp.integer):
        _fail(function, name, "integers", lengths.dtype)
    batch = jnp.shape(key)[:-3] or (1,)
    if lengths.shape != batch:
        _fail(function, name, f"shape {batch}", lengths.shape)
    most = min(jnp.iinfo(lengths.dtype).max, jnp.iinfo(jnp.int32).max)  # more than there can be: all
    return lengths.clip(0, most).astype(jnp.int32)


def _window(function: str, name: str, size: Window, is_causal: bool) -> tuple[Any, Any]:
    """Keys to the left and to the right of each query's position; None: all."""
    sides = size if isinstance(size, (tuple, list)) else (size, size)
    try:
        left, right = (None if count is None else operator.index(count) for count in sides)
    except (TypeError, ValueError):
        _fail(function, name, "counts ≥ 0: a whole number, two of them, or None", repr(size))
    if min(left or 0, right or 0) < 0:
        _fail(function, name, "counts ≥ 0", size)
    left, right = (None if count is None or count > _MOST_KEYS else count for count in (left, right))
    return left, 0 if is_causal else right


def _number(function: str, name: str, given: Any, least: float = -math.inf) -> float | None:
    """A finite number that is known while tracing, and larger than `least`, as float32 has it."""
    if given is None:
        return None
    wanted = "a finite number" if least == -math.inf else f"a finite number > {least:g}"
    try:
        with numpy.errstate(over="ignore"):
            number = float(numpy.float32(float(given)))
    except (TypeError, ValueError, OverflowError):
        _fail(function, name, wanted, repr(given))
    if not (math.isfinite(number) and number > least):
        _fail(function, name, wanted, given if float(given) == number else f"{given}, in float32 {number}")
    return number


def _scale(function: str, scale: Any) -> tuple[float | None, Any]:
    """What is known while tracing, and what is not."""
    if not isinstance(scale, jax.core.Tracer):
        return _number(function, "scale", scale), None
    if scale.ndim != 0 or jnp.issubdtype(scale.dtype, jnp.complexfloating):
        _fail(function, "scale", "one real number", f"{scale.dtype} of shape {scale.shape}")
    return None, scale


def _seed(function: str, seed: Any) -> jax.Array:
    """64 bits in two halves, from a number, a random key, or an array of them."""
    if isinstance(seed, (int, numpy.integer)):
        return jnp.asarray([int(seed) >> 32 & 0xFFFFFFFF, int(seed) & 0xFFFFFFFF], jnp.uint32)
    seed = jnp.asarray(seed)
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        return jax.random.bits(seed, (2,), "uint32")
    if seed.dtype != jnp.uint32 or seed.shape != (2,):
        _fail(function, "dropout_seed", "a number, a key of jax.random, or 2 numbers of uint32",
              f"{seed.dtype} of shape {seed.shape}")
    return seed


def _attend(function: str, query: jax.Array, key: jax.Array, value: jax.Array, *,
            bias: ArrayLike | None, mask: ArrayLike | None, scale: Any, lengths: tuple[Any, Any],
            dropout_seed: Any = None, **options: Any) -> Results:
    _check_inputs(function, query, key, value)
    if bias is not None:
        bias = jnp.asarray(bias)
        check_dtype(function, "bias", bias)
        _check_scores(function, "bias", bias, query, key)
    if mask is not None:
        mask = jnp.asarray(mask)
        if mask.dtype != jnp.bool_:
            _fail(function, "mask", "bool, true to attend (numbers to add are a bias)", mask.dtype)
        _check_scores(function, "mask", mask, query, key)
    known_scale, traced_scale = _scale(function, scale)
    return run(Options(scale=known_scale, **options),
               Operands(query, key, value, bias, mask, *lengths, dropout_seed), traced_scale)


def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    scale: float | jax.Array | None = None,
    softcap: float | None = None,
    is_causal: bool = False,
    window: Window = None,
    query_lengths: ArrayLike | None = None,
    key_lengths: ArrayLike | None = None,
    dropout_rate: float = 0.0,
    dropout_seed: int | ArrayLike | None = None,
    same_dropout_in_batch: bool = False,
    return_weights: bool = False,
) -> Any:
    """Attention without projections: headwise.attention() as an operator of JAX.

    query (batch…, T, N, dk), key (batch…, S, K, dk) and value (batch…, S, K, dv), with any number of
    batch axes; N is a multiple of K. bias and mask (bool, true to attend) broadcast to
    (batch…, N, T, S). window: keys to the left and to the right of each query, or one number for both;
    positions are counted from the first query and the first key. Lengths: (batch…).

    dropout_seed: a number of 64 bits, two uint32 (its high half first), or a key of jax.random,
    needed if dropout_rate is not 0. same_dropout_in_batch: every sequence drops the same.

    return_weights: (output, weights), the weights (batch…, N, T, S) before dropout. Gradients: of
    query, key, value and bias, through the output and the weights.

    >>> import headwise.jax
    >>> import jax.numpy as jnp
    >>> q, kv = jnp.ones((2, 3, 8, 64)), jnp.ones((2, 5, 2, 64))
    >>> headwise.jax.attention(q, kv, kv, window=(1, 0)).shape
    (2, 3, 8, 64)
    """
    function = "attention"
    query, key, value = _arrays(function, query=query, key=key, value=value)
    rate = _number(function, "dropout_rate", dropout_rate) or 0.0
    if not 0.0 <= rate < 1.0:
        _fail(function, "dropout_rate", "at least 0 and less than 1", dropout_rate)
    if rate == 0.0:
        dropout_seed = None
    elif dropout_seed is None:
        _fail(function, "dropout_seed", f"a seed, since dropout_rate is {dropout_rate}", None)
    left, right = _window(function, "window", window, is_causal)
    made = _attend(
        function, query, key, value, bias=bias, mask=mask, scale=scale,
        lengths=(_lengths(function, "query_lengths", query_lengths, key),
                 _lengths(function, "key_lengths", key_lengths, key)),
        dropout_seed=None if dropout_seed is None else _seed(function, dropout_seed),
        dropout=rate if dropout_seed is not None else 0.0,
        same_dropout_in_batch=same_dropout_in_batch,
        softcap=_number(function, "softcap", softcap, 0.0), left=left, right=right, weights=return_weights,
    )
    return (made.output, made.weights) if return_weights else made.output


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn", "headwise"] | None = None,
    return_residual: bool = False,
) -> Any:
    """jax.nn.dot_product_attention, with value heads of any size.

    query (B,T,N,H) or (T,N,H), key (B,S,K,H), value (B,S,K,any). Differs where a row has nothing to
    attend to: its output is 0, its residual −∞, and no gradient passes it; jax.nn gives the mean of
    the values. Masked keys and values are never read into a result, be they NaN.

    implementation: None or "headwise" for this library, another name for jax.nn's.

    >>> import headwise.jax
    >>> import jax.numpy as jnp
    >>> x = jnp.ones((2, 3, 8, 64))
    >>> headwise.jax.dot_product_attention(x, x, x, is_causal=True).shape
    (2, 3, 8, 64)
    """
    function = "dot_product_attention"
    if implementation not in (None, "headwise"):
        others: Any = jax.nn.dot_product_attention
        return others(
            query, key, value, bias, mask, scale=scale, is_causal=is_causal,
            query_seq_lengths=query_seq_lengths, key_value_seq_lengths=key_value_seq_lengths,
            local_window_size=local_window_size, implementation=implementation,
            return_residual=return_residual,
        )
    query, key, value = _arrays(function, query=query, key=key, value=value)
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim not in (3, 4):
            _fail(function, name, "shape (batch, length, heads, size) or (length, heads, size)", array.shape)
    left, right = _window(function, "local_window_size", local_window_size, is_causal)
    made = _attend(
        function, query, key, value, bias=_as_many_axes(bias, query), mask=_as_many_axes(mask, query),
        scale=scale,
        lengths=(_lengths(function, "query_seq_lengths", query_seq_lengths, key),
                 _lengths(function, "key_value_seq_lengths", key_value_seq_lengths, key)),
        left=left, right=right,
    )
    if not return_residual:
        return made.output
    return made.output, jnp.swapaxes(made.log_sum_exp, -1, -2)
