#!/ usr / bin / env python3
"""Makes files with the real Keras and with h5py, and beside each what h5py reads from it.

    make_keras_files.py    writes data/keras_*.{weights.h5,keras} and data/keras_*.safetensors

The safetensors files hold every tensor under its path in the HDF5 file, floats as float32 (integers and
truth values as they are), and the texts as metadata "path@attribute".
"""

import io
import os
import zipfile
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import h5py  # noqa: E402
import keras  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

DATA = Path(__file__).resolve().parent / "data"


def nested_model():
    """Layers with names of their own, twice the same kind, and a model within the model."""
    inner_input = keras.Input((4, 6))
    inner = layers.MultiHeadAttention(2, 3, name="inner attention")(inner_input, inner_input)
    block = keras.Model(inner_input, inner, name="block")

    tokens = keras.Input((4, 6))
    x = layers.MultiHeadAttention(2, 4, value_dim=3, name="erste Aufmerksamkeit ä")(tokens, tokens)
    x = layers.MultiHeadAttention(3, 2, use_bias=False)(x, x)
    x = layers.GroupQueryAttention(4, 2, 1, name="grouped")(x, x)
    x = layers.Dropout(0.5)(block(x))
    return keras.Model(tokens, layers.Dense(2)(x), name="whole")


class Counter(layers.Layer):
    """Variables that are no floats."""

    def build(self, shape):
        self.count = self.add_weight(shape=(3,), dtype="int64", trainable=False, name="count")
        self.seen = self.add_weight(shape=(2, 2), dtype="bool", trainable=False, name="seen",
                                    initializer="zeros")
        self.count.assign([1, -2, 2**40])
        self.seen.assign([[True, False], [False, True]])

    def call(self, x):
        return x


def mixed_model():
    """The same layer in every precision, and integers."""
    tokens = keras.Input((4, 6))
    x = Counter()(tokens)
    for dtype in ("float16", "bfloat16", "float64"):
        x = layers.Dense(6, dtype=dtype, name=dtype, bias_initializer="random_normal")(x)
    return keras.Model(tokens, x, name="mixed")


def every_kind(file):
    """All ways to store numbers that are accepted; Keras itself uses few of them."""
    rng = np.random.default_rng(3)
    numbers = rng.standard_normal((37, 5)).astype("f4")
    packed = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    file.create_dataset("storage/chunked", data=numbers, chunks=(8, 5))
    file.create_dataset("storage/packed", data=numbers, chunks=(10, 2), **packed)
    file.create_dataset("storage/growing", data=numbers, maxshape=(None, None), **packed)
    file.create_dataset("storage/holes", (300, 4), "f4", chunks=(100, 4), fillvalue=2.5)
    file["storage/holes"][150] = 1
    file.create_dataset("storage/never_written", (5,), "f4")
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(numbers.shape)
    h5py.h5d.create(file["storage"].id, b"compact", h5py.h5t.IEEE_F32LE, space, compact).write(
        h5py.h5s.ALL, h5py.h5s.ALL, numbers)
    for kind in ("f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"):
        values = rng.integers(0, 100, (3, 4)) if kind[0] in "iu?" else numbers[:3, :4]
        for order in "<>":
            name = f"types/{kind.replace('?', 'bool')}{'_big' if order == '>' else ''}"
            if name not in file:  # single bytes have no order
                file.create_dataset(name, data=(values % 2 if kind == "?" else values).astype(order + kind))
            file.create_dataset(name + "_packed", data=file[name][()], dtype=file[name].dtype,
                                chunks=(2, 2), **packed)
    file["shapes/scalar"] = np.float32(1.5)
    file["shapes/empty"] = np.zeros((3, 0, 2), "f4")
    file["shapes/rank_8"] = rng.standard_normal((1, 2, 1, 2, 1, 2, 1, 3)).astype("f4")
    file["texts"] = ["no", "numbers"]
    file["shapes"].attrs["fixed"] = np.bytes_(b"fixed length")
    file["shapes"].attrs["long"] = "ä" * 5000
    file["shapes"].attrs["empty"] = ""
    file["shapes"].attrs["number"] = 3
    file["shapes"].attrs["list"] = ["a", "b"]
    file["shapes/scalar"].attrs["unit"] = "m/s"
    file.attrs["title"] = "every kind"


def expect(name, weights):
    """What h5py finds in an HDF5 file, as safetensors."""
    tensors, texts = {}, {}

    def visit(path, thing):
        for key, text in thing.attrs.items():
            text = text.decode() if isinstance(text, bytes) else text
            if isinstance(text, str) and key != "dtype":
                texts[f"{path}@{key}"] = text
        if isinstance(thing, h5py.Dataset) and thing.dtype != object:
            value = np.array(thing)
            if thing.attrs.get("dtype") == "bfloat16":
                value = value.view(ml_dtypes.bfloat16)
            is_float = value.dtype == ml_dtypes.bfloat16 or value.dtype.kind == "f"
            value = value.astype(np.float32 if is_float else value.dtype.newbyteorder("<"))
            tensors[path] = value.copy(order="C")

    with h5py.File(weights) as file:
        visit("", file)
        file.visititems(visit)
    path = DATA / f"keras_{name}.safetensors"
    save_file(tensors, path, metadata=texts)
    path.chmod(0o644)


def main():
    DATA.mkdir(exist_ok=True)
    keras.utils.set_random_seed(1)
    for name, model in (("nested", nested_model()), ("mixed", mixed_model())):
        path = DATA / f"keras_{name}.weights.h5"
        model.save_weights(path)
        expect(name, path)

    for name, libver in (("kinds", "earliest"), ("kinds_v110", ("v110", "v110"))):
        path = DATA / f"keras_{name}.weights.h5"
        with h5py.File(path, "w", libver=libver) as file:
            every_kind(file)
        expect(name, path)

#A model that can be made from its configuration, with the state of an optimizer.
    tokens = keras.Input((4, 6))
    x = layers.MultiHeadAttention(2, 3, name="attention")(tokens, tokens)
    model = keras.Model(tokens, x, name="small")
    model.compile("sgd", "mse")
    model.fit(np.ones((1, 4, 6)), np.ones((1, 4, 6)), verbose=0)
    model.save(DATA / "keras_model.keras")
    with zipfile.ZipFile(DATA / "keras_model.keras") as archive:
        expect("model", io.BytesIO(archive.read("model.weights.h5")))


if __name__ == "__main__":
    main()
