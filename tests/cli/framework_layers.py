"""Attention layers of the real libraries: made with random weights, saved as their users save them,
loaded from files that `headwise convert` wrote, and run.

Every layer is a function of (query, key, value), numpy arrays (batch, tokens, features), with an
attribute `sizes`. The libraries are imported where they are used: each takes seconds.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Callable

import numpy as np
import safetensors.numpy

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Arrays = dict[str, np.ndarray]
Function = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Sizes:
    heads: int = 4
    kv_heads: int = 0  # as many as heads
    key_dim: int = 6
    value_dim: int = 0  # key_dim
    query: int = 24  # features
    key: int = 0  # query's
    value: int = 0  # key's
    output: int = 0  # query's
    bias: bool = True
    gate: bool = False
    norm: bool = False  # of queries and keys
    extra: bool = False  # torch's add_bias_kv

    def __post_init__(self) -> None:
        for name, default in (
            ("kv_heads", self.heads),
            ("value_dim", self.key_dim),
            ("key", self.query),
            ("value", self.key or self.query),
            ("output", self.query),
        ):
            if getattr(self, name) == 0:
                object.__setattr__(self, name, default)

    def inputs(self, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        random = np.random.default_rng(seed)
        shapes = ((2, 7, self.query), (2, 9, self.key), (2, 9, self.value))
        return tuple(random.standard_normal(shape, dtype=np.float32) for shape in shapes)


def read_arrays(path: pathlib.Path) -> Arrays:
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file)
    return safetensors.numpy.load_file(path)


def below(arrays: Arrays, name: str, separator: str) -> Arrays:
    """What stands under a layer's name, without it."""
    front = name + separator if name else ""
    return {key.removeprefix(front): x for key, x in arrays.items() if key.startswith(front)}


def _nested(arrays: Arrays) -> dict:
    from flax.traverse_util import unflatten_dict

    return unflatten_dict(arrays, sep="/")


# ---- PyTorch and what is made of its Linear layers ------------------------------------------------


def _randomise(module) -> None:
    """Biases begin as zeros in most libraries, which would hide a mix-up."""
    import torch

    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)


def _load(module, arrays: Arrays) -> None:
    import torch

    module.load_state_dict({key: torch.from_numpy(x) for key, x in arrays.items()}, strict=True)


def _in_torch(call: Callable) -> Function:
    import torch

    def run(*inputs):
        with torch.no_grad():
            return call(*(torch.from_numpy(x) for x in inputs)).numpy()

    return run


def torch_module(sizes: Sizes):
    import torch

    assert sizes.heads * sizes.key_dim == sizes.query == sizes.output
    return torch.nn.MultiheadAttention(
        sizes.query,
        sizes.heads,
        bias=sizes.bias,
        kdim=sizes.key,
        vdim=sizes.value,
        add_bias_kv=sizes.extra,
        batch_first=True,
    ).eval()


def torch_function(module) -> Function:
    return _in_torch(lambda q, k, v: module(q, k, v, need_weights=False)[0])


def d2l_module(sizes: Sizes):
    """The module of the book's chapter 11.5, whose package does not install beside current libraries.

    As printed there, without valid lengths: transpose_qkv, scaled dot products, transpose_output.
    """
    import torch
    from torch import nn

    class MultiHeadAttention(nn.Module):
        def __init__(self, num_hiddens, num_heads, bias=False):
            super().__init__()
            self.num_heads = num_heads
            self.W_q = nn.LazyLinear(num_hiddens, bias=bias)
            self.W_k = nn.LazyLinear(num_hiddens, bias=bias)
            self.W_v = nn.LazyLinear(num_hiddens, bias=bias)
            self.W_o = nn.LazyLinear(num_hiddens, bias=bias)

        def transpose_qkv(self, X):
            X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1)
            X = X.permute(0, 2, 1, 3)
            return X.reshape(-1, X.shape[2], X.shape[3])

        def transpose_output(self, X):
            X = X.reshape(-1, self.num_heads, X.shape[1], X.shape[2])
            X = X.permute(0, 2, 1, 3)
            return X.reshape(X.shape[0], X.shape[1], -1)

        def forward(self, queries, keys, values):
            queries = self.transpose_qkv(self.W_q(queries))
            keys = self.transpose_qkv(self.W_k(keys))
            values = self.transpose_qkv(self.W_v(values))
            scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
            output = torch.bmm(torch.softmax(scores, dim=-1), values)
            return self.W_o(self.transpose_output(output))

    module = MultiHeadAttention(sizes.output, sizes.heads, sizes.bias)
    _in_torch(module)(*sizes.inputs())  # makes the lazy layers
    return module


# ---- Hugging Face ---------------------------------------------------------------------------------


def bert_module(sizes: Sizes):
    """Attention of a BERT layer: names as in a checkpoint, without the norm behind it."""
    import torch
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertSelfAttention

    config = BertConfig(hidden_size=sizes.query, num_attention_heads=sizes.heads)
    config._attn_implementation = "eager"
    module = torch.nn.Module()
    module.self = BertSelfAttention(config)
    module.output = torch.nn.Module()
    module.output.dense = torch.nn.Linear(sizes.query, sizes.query)
    return module.eval()


def bert_function(module) -> Function:
    return _in_torch(lambda q, k, v: module.output.dense(module.self(q)[0]))


def _unrotated(x):
    """Rotary positions that do not rotate: cosines and sines of angle 0."""
    import torch

    ones = torch.ones(x.shape[0], x.shape[1], 1)
    return ones, torch.zeros_like(ones)


def llama_module(sizes: Sizes):
    """Llama's attention; with norms, Qwen 3's."""
    import transformers
    from transformers.models.llama.modeling_llama import LlamaAttention
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

    kind = transformers.Qwen3Config if sizes.norm else transformers.LlamaConfig
    config = kind(
        hidden_size=sizes.query,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        head_dim=sizes.key_dim,
        attention_bias=sizes.bias,
    )
    config._attn_implementation = "eager"
    return (Qwen3Attention if sizes.norm else LlamaAttention)(config, layer_idx=0).eval()


def llama_function(module) -> Function:
    return _in_torch(lambda q, k, v: module(q, _unrotated(q), attention_mask=None)[0])


def gpt2_module(sizes: Sizes):
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    config = GPT2Config(n_embd=sizes.query, n_head=sizes.heads)
    config._attn_implementation = "eager"
    return GPT2Attention(config, layer_idx=0).eval()


def gpt2_function(module) -> Function:
    import torch

    def call(q, k, v):
        every_key = torch.zeros(1, 1, q.shape[1], q.shape[1])  # instead of the causal mask
        return module(q, attention_mask=every_key)[0]

    return _in_torch(call)


# What makes a module, and what runs it.
MODULES = {
    "torch": (torch_module, torch_function),
    "d2l": (d2l_module, _in_torch),
    "bert": (bert_module, bert_function),
    "llama": (llama_module, llama_function),
    "gpt2": (gpt2_module, gpt2_function),
}
# Modules whose keys and values are their queries.
SELF_ATTENTION = {"bert", "llama", "gpt2"}


def make_module(kind: str, sizes: Sizes):
    module = MODULES[kind][0](sizes)
    _randomise(module)
    return module


def save_module(module, name: str, path: pathlib.Path) -> None:
    front = name + "." if name else ""
    arrays = {front + key: x.numpy() for key, x in module.state_dict().items()}
    safetensors.numpy.save_file(arrays, path)


def load_module(kind: str, sizes: Sizes, path: pathlib.Path, name: str) -> Function:
    make, function = MODULES[kind]
    module = make(sizes)
    _load(module, below(read_arrays(path), name, "."))
    return function(module)


# ---- Flax -----------------------------------------------------------------------------------------


def linen_function(sizes: Sizes, params: dict) -> Function:
    import flax.linen as nn

    layer = nn.MultiHeadDotProductAttention(
        num_heads=sizes.heads,
        qkv_features=sizes.heads * sizes.key_dim,
        out_features=sizes.output,
        use_bias=sizes.bias,
        normalize_qk=sizes.norm,
    )
    return lambda q, k, v: np.asarray(layer.apply({"params": params}, q, k, v))


def make_linen(sizes: Sizes) -> tuple[Arrays, Function]:
    import flax.linen as nn
    import jax
    from flax.traverse_util import flatten_dict

    layer = nn.MultiHeadDotProductAttention(
        num_heads=sizes.heads,
        qkv_features=sizes.heads * sizes.key_dim,
        out_features=sizes.output,
        use_bias=sizes.bias,
        normalize_qk=sizes.norm,
    )
    params = layer.init(jax.random.key(0), *sizes.inputs())["params"]
    random = np.random.default_rng(3)
    arrays = {
        key: random.standard_normal(x.shape, dtype=np.float32) / 4
        for key, x in flatten_dict(params, sep="/").items()
    }
    return arrays, linen_function(sizes, _nested(arrays))


def load_linen(sizes: Sizes, path: pathlib.Path, name: str) -> Function:
    return linen_function(sizes, _nested(below(read_arrays(path), name, "/")))


def nnx_module(sizes: Sizes):
    from flax import nnx

    assert sizes.key == sizes.value
    return nnx.MultiHeadAttention(
        num_heads=sizes.heads,
        in_features=sizes.query,
        qkv_features=sizes.heads * sizes.key_dim,
        out_features=sizes.output,
        num_kv_heads=sizes.kv_heads,
        in_kv_features=sizes.key,
        use_bias=sizes.bias,
        normalize_qk=sizes.norm,
        decode=False,
        rngs=nnx.Rngs(0),
    )


def nnx_function(module) -> Function:
    return lambda q, k, v: np.asarray(module(q, k, v))


def set_nnx(module, arrays: Arrays, separator: str) -> None:
    from flax import nnx

    state = nnx.state(module)
    names = {separator.join(map(str, path)) for path, _ in nnx.to_flat_state(state)}
    assert names == set(arrays), "nothing missing, nothing left over"
    nnx.replace_by_pure_dict(state, _nested({key.replace(".", "/"): x for key, x in arrays.items()}))
    nnx.update(module, state)


def make_nnx(sizes: Sizes) -> tuple[Arrays, Function]:
    from flax import nnx

    module = nnx_module(sizes)
    random = np.random.default_rng(4)
    arrays = {
        ".".join(map(str, path)): random.standard_normal(x.shape, dtype=np.float32) / 4
        for path, x in nnx.to_flat_state(nnx.state(module))
    }
    set_nnx(module, arrays, ".")
    return arrays, nnx_function(module)


def load_nnx(sizes: Sizes, path: pathlib.Path, name: str) -> Function:
    module = nnx_module(sizes)
    set_nnx(module, below(read_arrays(path), name, "/"), "/")
    return nnx_function(module)


# ---- Keras ----------------------------------------------------------------------------------------


def keras_layer(sizes: Sizes, name: str | None = None):
    import keras

    if sizes.kv_heads != sizes.heads:
        assert sizes.key_dim == sizes.value_dim and sizes.output == sizes.query
        return keras.layers.GroupQueryAttention(
            sizes.key_dim,
            sizes.heads,
            sizes.kv_heads,
            use_bias=sizes.bias,
            use_gate=sizes.gate,
            name=name,
        )
    return keras.layers.MultiHeadAttention(
        sizes.heads,
        sizes.key_dim,
        value_dim=sizes.value_dim,
        use_bias=sizes.bias,
        use_gate=sizes.gate,
        output_shape=None if sizes.output == sizes.query else sizes.output,
        name=name,
    )


def keras_numpy(x) -> np.ndarray:
    import keras

    return np.asarray(keras.ops.convert_to_numpy(x))


def keras_model(*layers: tuple[Sizes, str]):
    """A functional model in which every layer has inputs of its own: query, value, key."""
    import keras

    inputs, outputs = [], []
    for sizes, name in layers:
        own = [keras.Input((None, n)) for n in (sizes.query, sizes.value, sizes.key)]
        inputs += own
        outputs.append(keras_layer(sizes, name)(*own))
    return keras.Model(inputs, outputs)


def randomise_keras(model) -> None:
    random = np.random.default_rng(9)
    for variable in model.weights:
        variable.assign(random.standard_normal(variable.shape, dtype=np.float32) / 4)


def keras_function(model, place: int = 0) -> Function:
    """One of a model's layers, by its place: the other inputs are of no importance to it."""

    def run(q, k, v):
        inputs = [np.zeros((len(q), 1, x.shape[-1]), np.float32) for x in model.inputs]
        inputs[3 * place : 3 * place + 3] = [q, v, k]
        outputs = model(inputs)
        return keras_numpy(outputs[place] if isinstance(outputs, list | tuple) else outputs)

    return run


def load_keras_variables(sizes: Sizes, path: pathlib.Path, name: str) -> Function:
    layer = keras_layer(sizes, "layer")
    layer.build((None, None, sizes.query), (None, None, sizes.value), (None, None, sizes.key))
    arrays = below(read_arrays(path), name, "/")
    assert {v.path.removeprefix("layer/") for v in layer.weights} == set(arrays)
    for variable in layer.weights:
        variable.assign(arrays[variable.path.removeprefix("layer/")])
    return lambda q, k, v: keras_numpy(layer(q, v, k))
