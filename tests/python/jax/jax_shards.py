"""Run by a test, in a process of its own: how many devices JAX has is decided before its first use."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import headwise.jax
import headwise.jax.linen
import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax_cases import assert_close, assert_same_bits

MESH = Mesh(numpy.array(jax.devices()), ("batch",))
SPLIT, WHOLE = PartitionSpec("batch"), PartitionSpec()
B, T, N, K, H = 4, 6, 4, 2, 8
GENERATOR = numpy.random.default_rng(0)


def normal(*shape):
    return GENERATOR.standard_normal(shape, numpy.float32)


QUERY, KEY, BIAS, SCALE = normal(B, T, N, H), normal(T, K, H), normal(N, T, T), jnp.float32(0.3)


def of_shared_keys(query, key, bias, scale):
    """Every sequence of the batch attends the same keys, which all shards share, as bias and scale."""
    keys = jnp.broadcast_to(key, (query.shape[0], *key.shape))
    output, weights = headwise.jax.attention(query, keys, keys, bias=bias, scale=scale, return_weights=True)
    return output, weights


def total(function):
    def run(*given):
        output, weights = function(*given)
        return (output**2).sum() + (weights**3).sum()

    return run


def test_attention():
    given = QUERY, KEY, BIAS, SCALE
    sharded = jax.shard_map(of_shared_keys, mesh=MESH, in_specs=(SPLIT, WHOLE, WHOLE, WHOLE), out_specs=SPLIT)
    traced = jax.jit(of_shared_keys)  # so that the scale is, as in shard_map
    assert_same_bits(sharded(*given), traced(*given))
    slopes = [jax.jit(jax.grad(total(f), (0, 1, 2, 3)))(*given) for f in (sharded, traced)]
    assert_same_bits(slopes[0][0], slopes[1][0])
    assert_close(slopes[0][1:], slopes[1][1:])  # sums over the shards


def test_a_result_is_each_shard_s_own():
    whole = jax.shard_map(lambda q: headwise.jax.attention(q, q, q), mesh=MESH, in_specs=SPLIT, out_specs=WHOLE)
    try:
        whole(QUERY)
    except ValueError as error:
        assert "out_specs" in str(error), error
    else:
        raise AssertionError("one shard was taken for the whole")


def test_a_layer():
    x = normal(B, T, 16)
    layer = headwise.jax.linen.MultiHeadAttention(N)
    variables = layer.init(jax.random.key(0), x)
    sharded = jax.shard_map(layer.apply, mesh=MESH, in_specs=(WHOLE, SPLIT), out_specs=SPLIT)
    assert_same_bits(sharded(variables, x), layer.apply(variables, x))
    slopes = [jax.grad(lambda v, f=f: (f(v, x) ** 2).sum())(variables) for f in (sharded, layer.apply)]
    assert_close(*slopes)


def test_sharded_inputs_without_shard_map_are_gathered():
    query = jax.device_put(QUERY, NamedSharding(MESH, SPLIT))
    made = jax.jit(lambda q: headwise.jax.attention(q, q, q))(query)
    assert made.sharding.spec == WHOLE
    assert_same_bits(made, headwise.jax.attention(QUERY, QUERY, QUERY))


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
    print("done")
