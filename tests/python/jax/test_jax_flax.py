"""Flax's modules with Headwise inside, against Flax itself: linen and nnx."""

from __future__ import annotations

import flax.linen
import flax.nnx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import assert_close, assert_same_bits

import headwise
import headwise.jax as hj
import headwise.jax.linen
import headwise.jax.nnx

B, T, S, D, HEADS = 2, 5, 7, 16, 4

CONFIGS = [
    {},
    {"qkv_features": 24, "out_features": 10},
    {"use_bias": False},
    {"normalize_qk": True},
    {"bias_init": flax.linen.initializers.normal(), "dropout_rate": 0.5, "deterministic": True},
]
CALLS = ["self", "cross", "masked"]
# Every call of the simplest module, and every other one called in one way.
CASES = [*(({}, call) for call in CALLS),
         *((config, CALLS[i % 3]) for i, config in enumerate(CONFIGS[1:]))]


def arguments(normal, call):
    """Inputs of a call, and its mask."""
    if call == "self":
        return (normal(B, T, D),), None
    mask = np.random.default_rng(1).random((B, 1, T, S)) < 0.7
    mask[..., 0] = True
    return (normal(B, T, D), normal(B, S, D), normal(B, S, D)), mask if call == "masked" else None


def same_parameters(ours, theirs):
    """Flax's parameters with some numbers in every bias."""
    assert_same_bits(ours, theirs)
    keys = iter(jax.random.split(jax.random.key(3), 100))
    return jax.tree.map(lambda array: array + 0.1 * jax.random.normal(next(keys), array.shape), theirs)


# ---- linen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("config, call", CASES, ids=lambda part: str(part)[:30])
def test_linen_output_and_gradients(normal, config, call):
    ours = hj.linen.MultiHeadDotProductAttention(HEADS, **config)
    theirs = flax.linen.MultiHeadDotProductAttention(HEADS, **config)
    given, mask = arguments(normal, call)
    variables = same_parameters(*(layer.init(jax.random.key(0), *given) for layer in (ours, theirs)))

    def run(layer):
        def total(variables, given):
            made = layer.apply(variables, *given, mask=mask)
            return (made**2).sum(), made

        return jax.jit(jax.grad(total, (0, 1), has_aux=True))(variables, given)

    (our_slopes, made), (slopes, expected) = run(ours), run(theirs)
    assert_close(made, expected)
    assert_close(our_slopes, slopes)


def test_linen_computes_nothing_of_it_by_xla(normal):
    x = normal(B, T, D)
    for layer in (hj.linen.MultiHeadDotProductAttention(HEADS), hj.linen.MultiHeadAttention(HEADS)):
        variables = layer.init(jax.random.key(0), x)
        slopes = jax.grad(lambda v, layer=layer: layer.apply(v, x)[0, 0, 0])
        text = jax.jit(slopes).lower(variables).as_text()
        for target in ("attention", "attention_backward", "linear", "linear_backward"):
            assert f"@headwise_{target}(" in text
        assert "dot_general" not in text and "stablehlo.reduce(" not in text


def test_linen_has_the_bits_of_the_layer(normal):
    x = normal(B, T, D)
    layer = hj.linen.MultiHeadAttention(HEADS)
    variables = layer.init(jax.random.key(0), x)
    weights = {f"{part}/{name}": np.asarray(array) for part, parameters in variables["params"].items()
               for name, array in parameters.items()}
    config = headwise.AttentionConfig(num_heads=HEADS, key_dim=D // HEADS, query_features=D)
    exact = headwise.MultiHeadAttention(config, headwise.presets.flax_weights(config, weights))
    expected = exact.forward(x, mask=headwise.causal()).output
    mask = flax.linen.make_causal_mask(x[..., 0])
    assert_same_bits(layer.apply(variables, x, mask=mask), jnp.asarray(expected))
    for i in range(B):
        alone = jax.jit(layer.apply)(variables, x[i : i + 1], mask=mask[i : i + 1])
        assert_same_bits(alone, jnp.asarray(expected[i : i + 1]))


def test_linen_decodes_from_its_cache(normal):
    x = normal(B, T, D)
    layers = [kind(HEADS, decode=True) for kind in (
        hj.linen.MultiHeadDotProductAttention, flax.linen.MultiHeadDotProductAttention)]
    whole = layers[0].clone(decode=False)
    states = [layer.init(jax.random.key(0), x) for layer in layers]
    params = states[0]["params"]
    caches = [state["cache"] for state in states]
    expected = whole.apply({"params": params}, x, mask=flax.linen.make_causal_mask(x[..., 0]))
    for t in range(T):
        made = []
        for i, layer in enumerate(layers):
            output, changed = layer.apply({"params": params, "cache": caches[i]}, x[:, t : t + 1],
                                          mutable=["cache"])
            caches[i] = changed["cache"]
            made.append(output)
        assert_close(made[0], made[1])
        assert_same_bits(made[0], expected[:, t : t + 1])  # a token, or the whole sequence


def test_linen_within_other_transformations(normal):
    x = normal(3, B, T, D)
    plain = hj.linen.MultiHeadDotProductAttention(HEADS)
    variables = plain.init(jax.random.key(0), x[0])
    remat = flax.linen.remat(hj.linen.MultiHeadDotProductAttention)(HEADS)
    mapped = flax.linen.vmap(hj.linen.MultiHeadDotProductAttention, in_axes=0, out_axes=0,
                             variable_axes={"params": None}, split_rngs={"params": False})(HEADS)

    def slopes(layer):
        return jax.grad(lambda v: (layer.apply(v, x[0]) ** 2).sum())(variables)

    assert_same_bits(slopes(remat), slopes(plain))
    assert_same_bits(mapped.apply(variables, x), jnp.stack([plain.apply(variables, one) for one in x]))


# ---- nnx -----------------------------------------------------------------------------------------


def nnx_layers(**config):
    """Ours with theirs' parameters, and theirs."""
    config = {"decode": False, **config}
    theirs = flax.nnx.MultiHeadAttention(HEADS, D, **config, rngs=flax.nnx.Rngs(0))
    ours = hj.nnx.MultiHeadAttention(HEADS, D, **config, rngs=flax.nnx.Rngs(0))
    state = flax.nnx.state(theirs, flax.nnx.Param)
    state = same_parameters(flax.nnx.state(ours, flax.nnx.Param), state)
    for layer in (ours, theirs):
        flax.nnx.update(layer, state)
    return ours, theirs


@pytest.mark.parametrize("config, call", [*CASES, ({"num_kv_heads": 2}, "self")],
                         ids=lambda part: str(part)[:30])
def test_nnx_output_and_gradients(normal, config, call):
    given, mask = arguments(normal, call)

    @flax.nnx.jit
    def run(layer, given):
        def total(layer, given):
            made = layer(*given, mask=mask)
            return (made**2).sum(), made

        (of_layer, of_given), made = flax.nnx.grad(total, argnums=(0, 1), has_aux=True)(layer, given)
        return made, (flax.nnx.to_pure_dict(of_layer), of_given)

    (made, our_slopes), (expected, slopes) = (run(layer, given) for layer in nnx_layers(**config))
    assert_close(made, expected)
    assert_close(our_slopes, slopes)


def test_nnx_causal_and_decoding(normal):
    x = normal(B, T, D)
    ours, theirs = nnx_layers(num_kv_heads=2)
    whole = ours(x, is_causal=True)
    assert_close(whole, theirs(x, is_causal=True))
    for layer in (ours, theirs):
        layer.init_cache(x.shape)
    for t in range(T):
        made = ours(x[:, t : t + 1], decode=True)
        assert_close(made, theirs(x[:, t : t + 1], decode=True))
        assert_same_bits(made, whole[:, t : t + 1])


def test_nnx_gives_linens_bits(normal):
    x = normal(B, T, D)
    ours, _ = nnx_layers()
    variables = {"params": flax.nnx.to_pure_dict(flax.nnx.state(ours, flax.nnx.Param))}
    assert_same_bits(ours(x), hj.linen.MultiHeadDotProductAttention(HEADS).apply(variables, x))


# ---- attention_fn --------------------------------------------------------------------------------


def test_attention_fn_in_flaxs_own_modules(normal):
    given, mask = arguments(normal, "masked")
    ours = flax.linen.MultiHeadDotProductAttention(HEADS, attention_fn=hj.attention_fn)
    theirs = flax.linen.MultiHeadDotProductAttention(HEADS)
    variables = theirs.init(jax.random.key(0), *given)
    assert_close(ours.apply(variables, *given, mask=mask), theirs.apply(variables, *given, mask=mask))
    text = jax.jit(ours.apply).lower(variables, *given).as_text()
    assert "headwise_attention" in text and "headwise_linear" not in text
    nnx = [flax.nnx.MultiHeadAttention(HEADS, D, decode=False, rngs=flax.nnx.Rngs(0), **how)
           for how in ({"attention_fn": hj.attention_fn}, {})]
    assert_close(nnx[0](*given, mask=mask), nnx[1](*given, mask=mask))


@pytest.mark.parametrize("dtype", [None, jnp.bfloat16])
def test_attention_fn_as_flaxs_functions(normal, dtype):
    """Any number of batch axes, masks that are numbers, a bias."""
    query, key, value = (normal(2, 3, length, HEADS, 8) for length in (T, S, S))
    mask = np.tri(T, S, dtype=np.float32)
    bias = normal(2, 3, HEADS, T, S)
    ours = hj.attention_fn(query, key, value, bias, mask, dtype=dtype)
    error = 5e-6 if dtype is None else 0.03
    expected = flax.linen.dot_product_attention(query, key, value, bias, mask, dtype=dtype)
    assert_close(ours, expected, error)
    assert ours.dtype == (dtype or jnp.float32)


def test_weights_that_flax_shows(normal):
    given, mask = arguments(normal, "masked")
    ours = hj.linen.MultiHeadDotProductAttention(HEADS)
    theirs = flax.linen.MultiHeadDotProductAttention(HEADS)
    variables = theirs.init(jax.random.key(0), *given)
    assert_close(*(layer.apply(variables, *given, mask=mask, sow_weights=True,
                               mutable=["intermediates"]) for layer in (ours, theirs)))
    made = []
    for layer in nnx_layers():
        output = layer(*given, mask=mask, sow_weights=True)
        made.append((output, flax.nnx.to_pure_dict(flax.nnx.state(layer, flax.nnx.Intermediate))))
    assert made[0][1]
    assert_close(made[0], made[1])


def test_losses_on_the_weights_have_gradients(normal):
    given, mask = arguments(normal, "masked")
    layers = hj.linen.MultiHeadDotProductAttention(HEADS), flax.linen.MultiHeadDotProductAttention(HEADS)
    variables = layers[1].init(jax.random.key(0), *given)

    def slopes(layer):
        def loss(variables):
            _, sown = layer.apply(variables, *given, mask=mask, sow_weights=True, mutable=["intermediates"])
            return (sown["intermediates"]["attention_weights"][0] ** 2).sum()

        return jax.jit(jax.grad(loss))(variables)

    ours, theirs = slopes(layers[0]), slopes(layers[1])
    assert np.abs(ours["params"]["query"]["kernel"]).max() > 0.01
    assert_close(ours, theirs)


def test_the_x64_mode_changes_no_bit_of_the_modules(normal):
    given, mask = arguments(normal, "masked")
    linen, nnx = hj.linen.MultiHeadDotProductAttention(HEADS), nnx_layers()[0]
    variables = linen.init(jax.random.key(0), *given)

    def linen_loss(variables):
        made, sown = linen.apply(variables, *given, mask=mask, sow_weights=True, mutable=["intermediates"])
        return (made**2).sum() + (sown["intermediates"]["attention_weights"][0] ** 2).sum()

    def nnx_loss(layer):
        made = layer(*given, mask=mask, sow_weights=True)
        sown = flax.nnx.pop(layer, flax.nnx.Intermediate)
        return (made**2).sum() + (sown["attention_weights"].get_value()[0] ** 2).sum()

    def slopes():
        return jax.grad(linen_loss)(variables), flax.nnx.to_pure_dict(flax.nnx.grad(nnx_loss)(nnx))

    expected = slopes()
    with jax.enable_x64(True):
        assert_same_bits(slopes(), expected)


def test_dropout_is_seeded_by_flaxs_keys(normal):
    query, key, value = (normal(B, length, HEADS, 8) for length in (64, 64, 64))
    rng = jax.random.key(7)

    def run(rng, **how):
        return hj.attention_fn(query, key, value, dropout_rng=rng, dropout_rate=0.25, **how)

    high, low = (int(word) for word in jax.random.bits(rng, (2,), "uint32"))
    exact = headwise.Dropout(0.25, high << 32 | low)
    expected = headwise.attention(query, key, value, dropout=exact).output
    assert_same_bits(run(rng, broadcast_dropout=False), jnp.asarray(expected))
    assert_same_bits(jax.jit(run)(rng), run(rng))
    assert not np.array_equal(run(rng), run(jax.random.key(8)))
    assert_same_bits(run(rng, deterministic=True), hj.attention_fn(query, key, value))
    # On average nothing changes.
    many = jax.vmap(run)(jax.random.split(rng, 400)).mean(axis=0)
    assert np.abs(many - hj.attention_fn(query, key, value)).max() < 0.1
    with pytest.raises(ValueError, match="dropout_rng: expected a key"):
        run(None)


def test_dropout_in_the_modules(normal):
    x = normal(B, T, D)
    layer = hj.linen.MultiHeadDotProductAttention(HEADS, dropout_rate=0.5)
    variables = layer.init(jax.random.key(0), x, deterministic=True)
    first, again, other = (layer.apply(variables, x, deterministic=False, rngs={"dropout": jax.random.key(i)})
                           for i in (1, 1, 2))
    assert_same_bits(first, again)
    assert not np.array_equal(first, other)
    nnx = hj.nnx.MultiHeadAttention(HEADS, D, dropout_rate=0.5, decode=False, deterministic=False,
                                    rngs=flax.nnx.Rngs(0))
    assert not np.array_equal(nnx(x), nnx(x))
    assert_same_bits(nnx(x, deterministic=True), nnx(x, deterministic=True))


def test_hooks_that_cannot_be_are_refused(normal):
    layer = hj.linen.MultiHeadDotProductAttention(
        HEADS, qk_attn_weights_einsum_cls=lambda: jnp.einsum,
        attn_weights_value_einsum_cls=lambda: jnp.einsum)
    with pytest.raises(ValueError, match="headwise has no einsum that they could replace"):
        layer.init(jax.random.key(0), normal(B, T, D))


# ---- training ------------------------------------------------------------------------------------


def losses(attention, steps=40):
    """Of a small model that learns to repeat the token before."""

    class Model(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, tokens):
            x = flax.linen.Embed(7, D)(tokens) + flax.linen.Embed(12, D)(jnp.arange(12))
            mask = flax.linen.make_causal_mask(tokens)
            for _ in range(2):
                x = x + attention(num_heads=HEADS)(flax.linen.LayerNorm()(x), mask=mask)
            return flax.linen.Dense(7)(x)

    tokens = jax.random.randint(jax.random.key(1), (8, 12), 0, 7)
    model = Model()
    parameters = model.init(jax.random.key(0), tokens)

    def loss(parameters):
        logits = jax.nn.log_softmax(model.apply(parameters, tokens)[:, 1:])
        return -jnp.take_along_axis(logits, tokens[:, :-1, None], 2).mean()

    @jax.jit
    def step(parameters):
        value, slopes = jax.value_and_grad(loss)(parameters)
        return jax.tree.map(lambda p, g: p - 0.5 * g, parameters, slopes), value

    values = []
    for _ in range(steps):
        parameters, value = step(parameters)
        values.append(float(value))
    return np.asarray(values)


def test_training_goes_as_with_flax():
    # The names of unnamed layers, and so their first numbers, follow the class: it is the same.
    ours = losses(hj.linen.MultiHeadDotProductAttention)
    theirs = losses(flax.linen.MultiHeadDotProductAttention)
    assert ours[-1] < 0.5 * ours[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)
