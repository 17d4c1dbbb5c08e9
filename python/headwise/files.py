"""Files of tensors, and layers in them: safetensors, npy, npz, Keras's .weights.h5 and .keras.

All names stand in `headwise` as well; they are loaded when one of them is used first. safetensors and npy
always work. What lies in a zip needs libzip, and what Keras writes needs libhdf5 too: where one of
them is missing on the machine, such files raise a FileError that says so.

>>> import headwise, os, tempfile
>>> config = headwise.presets.torch(embed_dim=8, num_heads=2)
>>> layer = headwise.MultiHeadAttention(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
>>> headwise.save_layers(path, {"encoder.0": layer}, headwise.WeightLayout.Torch)
>>> headwise.load_layer(path).config == config
True
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Union

from numpy.typing import NDArray

from headwise._core import (
    ArgumentError,
    FoundLayer,
    LayerHints,
    LayerParts,
    MultiHeadAttention,
    WeightLayout,
    find_layers,
    hints_from_config,
    keras_model_of,
    read_layer,
    write_layer,
)
from headwise._types import FloatArray, PathLike

if TYPE_CHECKING:
    from headwise import _files as _module
else:
    try:
        from headwise import _files as _module
    except ImportError:  # without libzip or libhdf5
        from headwise import _files_plain as _module

FileError = _module.FileError
TensorFile = _module.TensorFile
TensorInfo = _module.TensorInfo
write_keras_model = _module.write_keras_model
write_keras_weights = _module.write_keras_weights
write_npy = _module.write_npy
write_npz = _module.write_npz
write_safetensors = _module.write_safetensors

__all__ = [
    "FileError",
    "load_layer",
    "load_tensors",
    "save_layers",
    "save_tensors",
    "TensorFile",
    "TensorInfo",
    "write_keras_model",
    "write_keras_weights",
    "write_npy",
    "write_npz",
    "write_safetensors",
]

Layer = Union[MultiHeadAttention, LayerParts]
_Writer = Callable[[str, Mapping[str, FloatArray], Mapping[str, str]], None]


def load_tensors(path: PathLike) -> dict[str, NDArray[Any]]:
    """Every tensor of a file by its name; floating-point numbers of any width become float32.

    For large files take TensorFile, which reads one at a time.

    >>> import headwise, numpy, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npz")
    >>> headwise.save_tensors(path, {"x": numpy.ones((2, 3), numpy.float32)})
    >>> {name: array.shape for name, array in headwise.load_tensors(path).items()}
    {'x': (2, 3)}
    """
    file = TensorFile.open(path)
    return {info.name: file.read_any(info.name) for info in file.tensors}


def save_tensors(path: PathLike, tensors: Mapping[str, FloatArray],
                 metadata: Mapping[str, str] | None = None) -> None:
    """Writes a file whose format its name tells: .safetensors, .npz, .weights.h5 or .keras.

    The file is put in place whole or not at all. An npz holds no metadata.

    >>> import headwise, numpy, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
    >>> headwise.save_tensors(path, {"x": numpy.ones((2, 3), numpy.float32)}, {"by": "me"})
    >>> headwise.TensorFile.open(path).metadata
    {'by': 'me'}
    """
    name = os.fspath(path)
    for ending, write in _WRITERS.items():
        if name.endswith(ending):
            return write(name, tensors, metadata or {})
    raise _bad_argument("save_tensors", "path", f"a name that ends in {', '.join(_WRITERS)}", repr(name))


def _save_npz(path: str, tensors: Mapping[str, FloatArray], metadata: Mapping[str, str]) -> None:
    if metadata:
        raise _bad_argument("save_tensors", "metadata", "none, since an npz holds no text",
                            ", ".join(metadata))
    write_npz(path, tensors)


_WRITERS: dict[str, _Writer] = {
    ".safetensors": write_safetensors,
    ".npz": _save_npz,
    ".weights.h5": write_keras_weights,
    ".keras": write_keras_model,
}


def load_layer(path: PathLike, name: str | None = None, hints: LayerHints | None = None) -> MultiHeadAttention:
    """The attention layer of a file, or of several the one with this name.

    hints: what the file does not tell, if no config.json of Hugging Face beside it does.

    >>> import headwise, numpy, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "d2l.safetensors")
    >>> headwise.save_tensors(path, {f"W_{x}.weight": numpy.ones((8, 8), numpy.float32) for x in "qkvo"})
    >>> headwise.load_layer(path, hints=headwise.LayerHints(num_heads=2)).config.key_dim
    4
    """
    file = TensorFile.open(path)
    layers = find_layers(file.tensors, file.metadata, hints or _hints_beside(path))
    found = _chosen(os.fspath(path), layers, name)
    if found.config is None:
        raise _bad_argument("load_layer", "hints", "what tells the layer's sizes", found.missing)
    parts = read_layer(found, file)
    return MultiHeadAttention(parts.config, parts.weights)


def save_layers(path: PathLike, layers: Layer | Mapping[str, Layer],
                layout: WeightLayout = WeightLayout.Headwise) -> None:
    """Writes a layer, or several by name, as a library stores them; the path's ending tells the format.

    Files ending in .weights.h5 and .keras hold a Keras model; their layout is Keras's. An npz holds no text,
    such as the number of heads: take .safetensors.

    >>> import headwise, os, tempfile
    >>> config = headwise.presets.keras(num_heads=2, key_dim=4, query_features=8)
    >>> layer = headwise.MultiHeadAttention(config, headwise.AttentionWeights.glorot(config, seed=1))
    >>> path = os.path.join(tempfile.mkdtemp(), "layer.safetensors")
    >>> headwise.save_layers(path, layer)
    >>> sorted(headwise.load_tensors(path))[0]
    'attention_output/bias'
    """
    name = os.fspath(path)
    is_keras = name.endswith((".weights.h5", ".keras"))
    if not isinstance(layers, Mapping):
        layers = {"attention" if is_keras else "": layers}
    for layer in layers.values():
        if not isinstance(layer, (MultiHeadAttention, LayerParts)):
            raise TypeError(_mistake("save_layers", "layers", "a MultiHeadAttention, LayerParts or a mapping to them",
                                     type(layer).__name__))
    parts = {key: LayerParts(layer.config, layer.weights) for key, layer in layers.items()}
    tensors: dict[str, NDArray[Any]] = {}
    metadata: dict[str, str] = {}
    if name.endswith(".npz"):
        raise _bad_argument("save_layers", "path", "a file that holds text: .safetensors, .weights.h5 or .keras",
                            repr(name))
    if is_keras and layout != WeightLayout.Keras:
        raise _bad_argument("save_layers", "layout", f"WeightLayout.Keras for {name}", str(layout))
    stored = [keras_model_of(parts)] if is_keras else [write_layer(p, layout, k) for k, p in parts.items()]
    for one in stored:
        tensors |= one.tensors
        metadata |= one.metadata
    if name.endswith(".weights.h5"):  # the documents are a .keras file's
        metadata = {key: text for key, text in metadata.items() if not key.endswith(".json")}
    save_tensors(path, tensors, metadata)


def _hints_beside(path: PathLike) -> LayerHints:
    """Of the config.json that Hugging Face keeps beside a model's weights."""
    folder = os.fspath(path) if os.path.isdir(path) else os.path.dirname(os.fspath(path))
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            return hints_from_config(file.read(1 << 20))
    except (OSError, UnicodeDecodeError, ArgumentError):  # none, or some other program's
        return LayerHints()


def _chosen(path: str, layers: list[FoundLayer], name: str | None) -> FoundLayer:
    names = ", ".join(repr(layer.name) for layer in layers)
    if not layers:
        raise _bad_argument("load_layer", "path", "a file with an attention layer", repr(path))
    if name is None:
        if len(layers) > 1:
            raise _bad_argument("load_layer", "name", f"one of {names}", "None")
        return layers[0]
    for layer in layers:
        if layer.name == name:
            return layer
    raise _bad_argument("load_layer", "name", f"one of {names}", repr(name))


def _mistake(function: str, argument: str, expected: str, got: str) -> str:
    return f"[{function}] {argument}: expected {expected}, got {got}"


def _bad_argument(function: str, argument: str, expected: str, got: str) -> ArgumentError:
    error = ArgumentError(_mistake(function, argument, expected, got))
    error.function, error.argument = function, argument
    return error
