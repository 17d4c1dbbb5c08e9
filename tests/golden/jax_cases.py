"""jax.nn.dot_product_attention."""

import jax
import numpy as np

from golden_file import GoldenFile, Numbers, prefixed

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 3, 5, 6
attend = jax.nn.dot_product_attention


def numpy_tree(tree):
    return {name: np.asarray(array) for name, array in tree.items()}


def with_gradient(loss, **more):
    """Compiled as a whole: one by one, JAX compiles every operation of every shape."""
    return jax.jit(jax.value_and_grad(loss, has_aux=True, **more))


def _inputs(numbers, batched=True, queries=QUERIES, keys=KEYS, key_heads=HEADS, value_size=SIZE):
    batch = (BATCH,) if batched else ()
    return {"query": numbers.normal(*batch, queries, HEADS, SIZE),
            "key": numbers.normal(*batch, keys, key_heads, SIZE),
            "value": numbers.normal(*batch, keys, key_heads, value_size)}


def _case(golden, name, arrays=None, sizes=None, **arguments):
    """`arrays` makes bias, mask and lengths: everything that is stored as a tensor."""
    numbers = Numbers("jax " + name)
    leaves = _inputs(numbers, **(sizes or {}))
    constants = arrays(numbers) if arrays else {}
    if "bias" in constants:
        leaves["bias"] = constants.pop("bias")

    cotangent = numbers.normal(*leaves["query"].shape)

    def loss(given):
        output, residual = attend(**given, **constants, **arguments, return_residual=True)
        return (output * cotangent).sum(), (output, residual)

    (_, (output, residual)), gradients = with_gradient(loss)(leaves)
    tensors = {**leaves, **constants, "output": output, "cotangent": cotangent,
               "log_sum_exp": residual, **prefixed("gradient/", gradients)}
    options = {key: [value, value] if key == "local_window_size" and isinstance(value, int)
               else value for key, value in arguments.items()}
    golden.add(name, options, numpy_tree(tensors))


def _differences(golden):
    name = "value_size"
    inputs = _inputs(Numbers("jax " + name), value_size=3)
    try:
        attend(**inputs)
    except Exception as error:  # whatever it is: the file says what it was
        golden.add(name, {"raises": type(error).__name__}, inputs)

    name = "empty_row"
    inputs = _inputs(Numbers("jax " + name))
    mask = Numbers(name).keep_mask(BATCH, 1, QUERIES, KEYS)
    mask[1, 0, 2] = False
    golden.add(name, {"differs": "mean_of_value"},
               {**inputs, "mask": mask, "output": np.asarray(attend(**inputs, mask=mask)),
                "differing_rows": ~mask[:, 0].any(-1)})

    name = "nan_in_masked_value"
    inputs = _inputs(Numbers("jax " + name))
    mask = np.ones((BATCH, 1, QUERIES, KEYS), dtype=bool)
    mask[1, :, :, 2] = False
    clean = np.asarray(attend(**inputs, mask=mask))
    inputs["value"][1, 2] = np.nan
    golden.add(name, {"differs": "leak"},
               {**inputs, "mask": mask, "output": np.asarray(attend(**inputs, mask=mask)),
                "clean_output": clean})


def _lengths(**lengths):
    return lambda _: {name: np.array(values, dtype=np.int64) for name, values in lengths.items()}


def _everything(numbers):
    mask = numbers.keep_mask(BATCH, HEADS, 5, 5)
    mask |= np.eye(5, dtype=bool)  # a causal row keeps its own position
    return {"bias": numbers.normal(1, HEADS, 5, 5), "mask": mask}


def make():
    golden, square = GoldenFile(), {"queries": 5}
    _case(golden, "plain")
    _case(golden, "unbatched", sizes={"batched": False})
    _case(golden, "scale", scale=0.3)
    _case(golden, "bias", lambda n: {"bias": n.normal(BATCH, HEADS, QUERIES, KEYS)})
    _case(golden, "bias_per_head", lambda n: {"bias": n.normal(1, HEADS, QUERIES, KEYS)})
    _case(golden, "bias_per_batch", lambda n: {"bias": n.normal(BATCH, 1, QUERIES, KEYS)})
    _case(golden, "mask", lambda n: {"mask": n.keep_mask(BATCH, HEADS, QUERIES, KEYS)})
    _case(golden, "mask_per_batch", lambda n: {"mask": n.keep_mask(BATCH, 1, QUERIES, KEYS)})
    _case(golden, "causal", sizes=square, is_causal=True)
    _case(golden, "causal_more_keys", is_causal=True)
    _case(golden, "causal_fewer_keys", sizes={"queries": 6, "keys": 4}, is_causal=True)
    _case(golden, "key_lengths", _lengths(key_value_seq_lengths=[5, 2]))
    _case(golden, "query_lengths", _lengths(query_seq_lengths=[1, 3]))
    _case(golden, "both_lengths",
          _lengths(query_seq_lengths=[2, 3], key_value_seq_lengths=[4, 1]))
    _case(golden, "window", sizes=square, local_window_size=1)
    _case(golden, "window_two_sides", sizes=square, local_window_size=(2, 0))
    _case(golden, "window_more_keys", local_window_size=(1, 2))
    _case(golden, "grouped_heads", sizes={"key_heads": 2})
    _case(golden, "one_key_head", sizes={"key_heads": 1})
    _case(golden, "all_together", _everything, sizes={**square, "key_heads": 2}, is_causal=True,
          local_window_size=(3, 1), scale=0.6)
    _differences(golden)
    return golden
