"""flax.linen.MultiHeadDotProductAttention and flax.nnx.MultiHeadAttention."""

import jax
import numpy as np
from flax import linen, nnx, traverse_util

from golden_file import GoldenFile, Numbers, prefixed
from jax_cases import numpy_tree, with_gradient

BATCH, HEADS, QUERIES, KEYS = 2, 2, 3, 5


def _randomised(flat, numbers):
    return {name: numbers.normal(*flat[name].shape, deviation=0.5) for name in sorted(flat)}


class Linen:
    """A linen module as a function of a flat dictionary of parameters."""

    def __init__(self, arguments, inputs, numbers):
        self.module = linen.MultiHeadDotProductAttention(num_heads=HEADS, **arguments)
        # Shapes are enough: every number is replaced.
        start = jax.eval_shape(self.module.init, jax.random.key(0), *inputs)["params"]
        self.parameters = _randomised(traverse_util.flatten_dict(start, sep="/"), numbers)

    def __call__(self, parameters, inputs, mask):
        variables = {"params": traverse_util.unflatten_dict(parameters, sep="/")}
        output, sown = self.module.apply(variables, *inputs, mask=mask, sow_weights=True,
                                         mutable=["intermediates"])
        return output, sown["intermediates"]["attention_weights"][0]


class Nnx:
    """An nnx module, likewise. Weights are not asked for: that turns its fused path off."""

    def __init__(self, arguments, inputs, numbers):
        module = nnx.eval_shape(lambda: nnx.MultiHeadAttention(
            HEADS, inputs[0].shape[-1], decode=False, rngs=nnx.Rngs(0), **arguments))
        self.graph, state, self.rest = nnx.split(module, nnx.Param, ...)
        pure = {"/".join(path): value for path, value in
                traverse_util.flatten_dict(nnx.to_pure_dict(state)).items()}
        self.parameters, self.state = _randomised(pure, numbers), state

    def __call__(self, parameters, inputs, mask):
        state = jax.tree.map(lambda x: x, self.state)
        nnx.replace_by_pure_dict(state, traverse_util.unflatten_dict(parameters, sep="/"))
        return nnx.merge(self.graph, state, self.rest)(*inputs, mask=mask), None


def _setup(name, kind, arguments, sizes, mask):
    numbers = Numbers("flax " + name)
    queries, keys, features, key_features, value_features = sizes
    inputs = [numbers.normal(BATCH, *size) for size in
              ((queries, features), (keys, key_features), (keys, value_features))]
    model = kind(arguments, inputs, numbers)
    options = {"num_heads": HEADS, "normalize_qk": False, "use_bias": True, **arguments}
    return numbers, model, inputs, options, mask(numbers) if mask else None


def _stored(inputs, mask, parameters):
    tensors = {**dict(zip(("query", "key", "value"), inputs)), **prefixed("weight/", parameters)}
    return tensors if mask is None else {**tensors, "mask": mask}


def _case(golden, name, kind, arguments=None, sizes=(QUERIES, KEYS, 6, 6, 6), mask=None):
    numbers, model, inputs, options, mask = _setup(name, kind, arguments or {}, sizes, mask)
    cotangent = numbers.normal(*inputs[0].shape[:-1], options.get("out_features", sizes[2]))

    def loss(parameters, given):
        output, attention = model(parameters, given, mask)
        return (output * cotangent).sum(), (output, attention)

    (_, (output, attention)), (weights, given) = with_gradient(loss, argnums=(0, 1))(
        model.parameters, inputs)
    tensors = {**_stored(inputs, mask, model.parameters), "output": output,
               "cotangent": cotangent,
               **prefixed("gradient/", _stored(given, None, weights))}
    if attention is not None:
        tensors["attention"] = attention
    golden.add(name, options, numpy_tree(tensors))


def _forward_case(golden, name, kind, differs):
    """The last query of the second sequence has nothing to attend; or a hidden value is NaN."""
    sizes = (QUERIES, KEYS, 6, 6, 6)
    _, model, inputs, options, _ = _setup(name, kind, {}, sizes, None)
    mask = np.ones((BATCH, 1, QUERIES, KEYS), dtype=bool)
    extra = {}
    if differs == "leak":
        mask[1, :, :, 2] = False
        extra["clean_output"] = model(model.parameters, inputs, mask)[0]
        inputs[2][1, 2] = np.nan
    else:
        mask[1, :, 2] = False
        extra["differing_rows"] = ~mask[:, 0].any(-1)
    output, _ = model(model.parameters, inputs, mask)
    golden.add(name, {**options, "differs": differs},
               numpy_tree({**_stored(inputs, mask, model.parameters), "output": output, **extra}))


def _keep(*shape):
    return lambda numbers: numbers.keep_mask(*shape)


def _causal(numbers):
    return np.asarray(linen.make_causal_mask(np.ones((BATCH, KEYS)), dtype=bool))


def make():
    golden, square = GoldenFile(), (KEYS, KEYS, 6, 6, 6)
    for label, kind in (("linen", Linen), ("nnx", Nnx)):
        case = lambda name, *rest, **more: _case(golden, f"{label}_{name}", kind, *rest, **more)
        case("plain")
        case("no_bias", {"use_bias": False})
        case("sizes", {"qkv_features": 8, "out_features": 5})
        case("mask", mask=_keep(BATCH, 1, QUERIES, KEYS))
        case("mask_per_head", mask=_keep(BATCH, HEADS, QUERIES, KEYS))
        case("causal", sizes=square, mask=_causal)
        case("normalize_qk", {"normalize_qk": True, "qkv_features": 8})
        case("normalize_qk_masked", {"normalize_qk": True, "use_bias": False},
             mask=_keep(BATCH, 1, QUERIES, KEYS))
        _forward_case(golden, f"{label}_empty_row", kind, "mean_of_value")
        _forward_case(golden, f"{label}_nan_in_masked_value", kind, "leak")
    _case(golden, "linen_features", Linen, sizes=(QUERIES, KEYS, 6, 5, 7))
    _case(golden, "nnx_features", Nnx, {"in_kv_features": 5}, sizes=(QUERIES, KEYS, 6, 5, 5))
    _case(golden, "nnx_grouped_heads", Nnx, {"num_kv_heads": 1})
    return golden
