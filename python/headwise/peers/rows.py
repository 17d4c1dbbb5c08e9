"""The rows: names and work as in the C++ benchmark (bench/*_cases.cc), numbers made from a fixed seed."""

from __future__ import annotations

import dataclasses
import math
import zlib

import numpy as np

Arrays = dict[str, np.ndarray]

ATTENTION = "attention forward"
MASKS = "attention forward, masks and biases"
ODD = "attention forward, causal, grouped and odd shapes"
ATTENTION_TRAINING = "attention forward + backward"
LAYER = "layer forward"
LAYER_TRAINING = "layer forward + backward"
TINY = "tiny layers"
FEW_QUERIES = "few queries"


@dataclasses.dataclass(frozen=True)
class Row:
    """One computation: attention alone, or with features > 0 a layer of self-attention.

    >>> from headwise.peers.rows import Row
    >>> row = Row("mine", "attention forward", "S 128", batch=32, queries=128, keys=128, heads=8, kv_heads=8)
    >>> row.shape, row.flops
    ('32 × 8 heads, 128, d 64', 1073741824.0)
    """

    id: str
    group: str
    label: str
    batch: int
    queries: int
    keys: int
    heads: int
    kv_heads: int
    size: int = 64  # of a head
    features: int = 0
    causal: bool = False
    window: int = 0  # keys a query attends, itself the last of them; 0: no window
    lengths: tuple[int, ...] = ()  # of keys, one a sequence; empty: all there
    keep: bool = False  # a dense mask (T,S)
    bias: bool = False  # numbers to add, (H,T,S)
    training: bool = False

    @property
    def is_layer(self) -> bool:
        return self.features > 0

    @property
    def is_grouped(self) -> bool:
        return self.heads != self.kv_heads

    @property
    def shape(self) -> str:
        heads = f"{self.heads}/{self.kv_heads}" if self.is_grouped else str(self.heads)
        if self.is_layer:
            return f"({self.batch}, {self.queries}, {self.features}) {heads}×{self.size}"
        batch = "" if self.batch == 1 else f"{self.batch} × "
        length = str(self.keys) if self.queries == self.keys else f"{self.queries}→{self.keys}"
        return f"{batch}{heads} heads, {length}, d {self.size}"

    @property
    def pairs(self) -> float:
        """Of a query and a key it attends, over all heads and sequences."""
        if self.causal or self.window:
            attended = sum(min(i + 1, self.window or i + 1) for i in range(self.queries))
            return float(self.batch * self.heads * attended)
        if self.lengths:
            return float(self.heads * self.queries * sum(self.lengths))
        if self.keep:
            return float(self.batch * self.heads * int(dense_keep(self.queries, self.keys).sum()))
        return float(self.batch * self.heads * self.queries * self.keys)

    @property
    def flops(self) -> float:
        """Useful ones: hidden pairs do not count. Backward is 2½ times forward for pairs, twice for projections."""
        attention = self.pairs * self.size * (14.0 if self.training else 4.0)
        width = 2 * (self.heads + self.kv_heads) * self.size  # of the four kernels together
        projections = 2.0 * self.batch * self.queries * self.features * width
        return attention + projections * (3.0 if self.training else 1.0)


def dense_keep(queries: int, keys: int) -> np.ndarray:
    """(T,S), a scattered few per cent hidden, so that no tile is free of them."""
    i, j = np.ogrid[:queries, :keys]
    return (7 * i + 13 * j) % 61 != 0


def dense_mask(row: Row) -> np.ndarray | None:
    """Which pairs are attended, as a framework wants to know it: bool, broadcast to (B,H,T,S); None: all.

    >>> from headwise.peers.rows import dense_mask, find
    >>> dense_mask(find("layer-bert-512-lengths")).shape
    (8, 1, 1, 512)
    """
    if row.keep:
        return dense_keep(row.queries, row.keys)[None, None]
    if row.lengths:
        return np.arange(row.keys)[None, None, None] < np.array(row.lengths)[:, None, None, None]
    if row.causal or row.window:
        distance = np.arange(row.queries)[:, None] - np.arange(row.keys)[None]
        return ((distance >= 0) & (distance < (row.window or row.keys)))[None, None]
    return None


def make_arrays(row: Row) -> Arrays:
    """The row's numbers, the same in every process. Heads are (B,H,T,d), kernels (in, out) over all heads.

    >>> from headwise.peers.rows import find, make_arrays
    >>> {name: array.shape for name, array in make_arrays(find("tiny-8-256")).items() if "bias" not in name}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'input': (1, 8, 256), 'query/kernel': (256, 256), 'key/kernel': (256, 256), 'value/kernel': (256, 256),
     'attention_output/kernel': (256, 256)}
    """
    generator = np.random.default_rng(zlib.crc32(row.id.encode()))

    def uniform(*shape: int, limit: float = 1.0) -> np.ndarray:
        return (generator.random(shape, np.float32) - np.float32(0.5)) * np.float32(2.0 * limit)

    if row.is_layer:
        arrays = {"input": uniform(row.batch, row.queries, row.features)} | _weights(row, uniform)
        output_shape: tuple[int, ...] = (row.batch, row.queries, row.features)
    else:
        output_shape = (row.batch, row.heads, row.queries, row.size)
        keys_shape = (row.batch, row.kv_heads, row.keys, row.size)
        arrays = {"query": uniform(*output_shape), "key": uniform(*keys_shape), "value": uniform(*keys_shape)}
    if row.bias:
        arrays["bias"] = uniform(row.heads, row.queries, row.keys)
    if row.training:
        arrays["output_gradient"] = uniform(*output_shape)
    return arrays


def _weights(row: Row, uniform) -> Arrays:
    inner, kv = row.heads * row.size, row.kv_heads * row.size
    sizes = {"query": (row.features, inner), "key": (row.features, kv), "value": (row.features, kv),
             "attention_output": (inner, row.features)}
    weights = {}
    for name, (rows, columns) in sizes.items():
        weights[f"{name}/kernel"] = uniform(rows, columns, limit=math.sqrt(6.0 / (rows + columns)))
        weights[f"{name}/bias"] = uniform(columns, limit=0.1)
    return weights


WEIGHTS = tuple(f"{name}/{part}" for name in ("query", "key", "value", "attention_output")
                for part in ("kernel", "bias"))


def _heads(id: str, group: str, label: str, batch: int, heads: int, length: int, size: int = 64, **more) -> Row:
    shape = {"queries": length, "keys": length, "kv_heads": heads} | more
    return Row(id, group, label, batch=batch, heads=heads, size=size, **shape)


def _layer(id: str, group: str, label: str, batch: int, length: int, features: int, heads: int, **more) -> Row:
    shape = {"kv_heads": heads, "size": features // heads} | more
    return Row(id, group, label, batch=batch, queries=length, keys=length, features=features, heads=heads, **shape)


def _eighths(length: int) -> tuple[int, ...]:
    return tuple(length * b // 8 for b in range(1, 9))


def _attention_rows() -> list[Row]:
    variant = {"batch": 8, "heads": 8, "length": 512}
    return [
        _heads("attention-128", ATTENTION, "S 128", 32, 8, 128),
        _heads("attention-197", ATTENTION, "S 197", 32, 8, 197),
        _heads("attention-384", ATTENTION, "S 384", 8, 8, 384),
        _heads("attention-512", ATTENTION, "S 512", 8, 8, 512),
        _heads("attention-1500", ATTENTION, "S 1500", 1, 8, 1500),
        _heads("attention-2048", ATTENTION, "S 2048", 1, 8, 2048),
        _heads("attention-2048-d128", ATTENTION, "S 2048, d 128", 1, 8, 2048, 128),
        _heads("variant-keep", MASKS, "dense keep mask (T,S)", **variant, keep=True),
        _heads("variant-bias", MASKS, "additive bias (H,T,S)", **variant, bias=True),
        _heads("variant-lengths", MASKS, "valid lengths 64 … 512", **variant,
               lengths=(512, 460, 400, 333, 290, 200, 120, 64)),
        _heads("variant-causal", MASKS, "causal", **variant, causal=True),
        _heads("variant-window", MASKS, "causal window of 256", **variant, window=256),
        _heads("causal-1024", ODD, "causal, GPT-2", 4, 12, 1024, causal=True),
        _heads("causal-grouped", ODD, "causal, grouped heads, Llama", 1, 32, 2048, 128, kv_heads=8, causal=True),
        _heads("window-256", ODD, "window 256, causal", 1, 8, 4096, window=256),
        _heads("t5-cross", ODD, "T5 cross with bias", 8, 12, 512, queries=64, bias=True),
        _heads("odd-1023", ODD, "S 1023", 2, 8, 1023),
        _heads("odd-d40", ODD, "d 40", 8, 8, 512, 40),
        _heads("odd-d80", ODD, "d 80", 8, 8, 512, 80),
        _heads("odd-d96", ODD, "d 96", 8, 8, 512, 96),
        _heads("backward-512", ATTENTION_TRAINING, "S 512", 8, 8, 512, training=True),
        _heads("backward-512-causal", ATTENTION_TRAINING, "S 512, causal", 8, 8, 512, causal=True, training=True),
        _heads("backward-2048", ATTENTION_TRAINING, "S 2048", 1, 8, 2048, training=True),
    ]


def _layer_rows() -> list[Row]:
    llama = {"heads": 32, "kv_heads": 8, "causal": True}
    rows = [_layer("layer-keras", LAYER, "Keras example", 32, 128, 512, 8)]
    rows += [_layer(f"layer-bert-{s}", LAYER, f"BERT {s}", 8, s, 768, 12) for s in (128, 384, 512)]
    rows += [_layer(f"layer-bert-{s}-lengths", LAYER, f"BERT {s}, lengths", 8, s, 768, 12, lengths=_eighths(s))
             for s in (128, 384, 512)]
    return rows + [
        _layer("layer-vit", LAYER, "ViT-B/16", 8, 197, 768, 12),
        _layer("layer-whisper", LAYER, "Whisper encoder", 1, 1500, 512, 8),
        _layer("layer-gpt2", LAYER, "GPT-2, causal", 4, 1024, 768, 12, causal=True),
        _layer("layer-llama-512", LAYER, "Llama 3 8B, prefill 512", 1, 512, 4096, **llama),
        _layer("layer-llama-2048", LAYER, "Llama 3 8B, prefill 2048", 1, 2048, 4096, **llama),
        _layer("training-keras", LAYER_TRAINING, "Keras example", 32, 128, 512, 8, training=True),
        _layer("training-bert-512", LAYER_TRAINING, "BERT 512", 8, 512, 768, 12, training=True),
        _layer("training-gpt2", LAYER_TRAINING, "GPT-2 1024, causal", 4, 1024, 768, 12, causal=True, training=True),
        _layer("tiny-1-512", TINY, "1 token, D 512", 1, 1, 512, 8),
        _layer("tiny-16-512", TINY, "16 tokens, D 512", 1, 16, 512, 8),
        _layer("tiny-32-512", TINY, "32 tokens, D 512", 1, 32, 512, 8),
        _layer("tiny-8-256", TINY, "8 tokens, D 256", 1, 8, 256, 4),
        _layer("tiny-32-256", TINY, "32 tokens, D 256", 1, 32, 256, 4),
    ]


def _few_query_rows() -> list[Row]:
    rows = [_heads("cross-1500", FEW_QUERIES, "Whisper cross, 1500 keys", 1, 8, 1500, queries=1)]
    return rows + [_heads(f"decode-{s}", FEW_QUERIES, f"decode, context {s}", 1, 32, s, 128, kv_heads=8, queries=1)
                   for s in (512, 4096, 32768)]


ROWS = (*_attention_rows(), *_layer_rows(), *_few_query_rows())


def find(id: str) -> Row:
    """The row of that name.

    >>> from headwise.peers import rows
    >>> rows.find("layer-llama-512").shape
    '(1, 512, 4096) 32/8×128'
    """
    return next(row for row in ROWS if row.id == id)
