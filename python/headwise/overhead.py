"""What a call from Python costs beyond the same call in C++: one token through a layer.

    python -m headwise.overhead [--features 512] [--threads 1] [--torch] [--limit MICROSECONDS]

Rounds in C++ and in Python take turns, so that a change of the machine's speed meets both; the table shows
the best round of each, since whatever else runs on the machine can only add. With --torch also through
headwise.torch.MultiheadAttention. With --limit the exit code is 1 if the overhead is larger: torch's with
--torch, else that of layer.forward(x).output.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy

import headwise
from headwise._core import time_forward

ROUNDS = 200
CALLS = 20  # of a round
WARM_UP = 5  # calls of a round that do not count: the ways before used the caches for themselves
TORCH = "headwise.torch: layer(x, x, x)"


def _seconds(call: Callable[[], object]) -> float:
    for _ in range(WARM_UP):
        call()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return time.perf_counter() - begin


def _torch_module(features: int, threads: int) -> Any:
    """The drop-in for torch, ready for inference."""
    import torch

    from headwise.torch import MultiheadAttention

    torch.set_num_threads(threads)
    return MultiheadAttention(features, 8, batch_first=True).eval().requires_grad_(False)


def _torch_way(module: Any, features: int) -> Callable[[], float]:
    import torch

    x = torch.ones(1, 1, features)

    def way() -> float:
        with torch.no_grad():
            return _seconds(lambda: module(x, x, x, need_weights=False))

    return way


def measure(features: int = 512, threads: int = 1, torch: bool = False) -> dict[str, float]:
    """Microseconds per call: "C++", and ways to call it from Python; torch: also from there.

    >>> import headwise.overhead
    >>> times = headwise.overhead.measure(features=64)
    >>> list(times)
    ['C++', 'layer.forward(x)', 'layer.forward(x).output', 'layer.forward(x, out=y, context=c)']
    """
    if torch:  # all ways use its weights, so that none finds the cache full of another's
        module = _torch_module(features, threads)
        layer = module.packed_layer(features)
    else:
        config = headwise.AttentionConfig(num_heads=8, key_dim=features // 8, query_features=features)
        layer = headwise.MultiHeadAttention(config, headwise.AttentionWeights.glorot(config, seed=1))
    context = headwise.Context(threads)
    x = numpy.ones((1, 1, features), numpy.float32)
    y = numpy.empty_like(x)
    before = headwise.default_context()
    headwise.set_default_context(context)  # the calls without one use the same
    ways: dict[str, Callable[[], float]] = {
        "C++": lambda: time_forward(layer, x, WARM_UP, context) and time_forward(layer, x, CALLS, context),
        "layer.forward(x)": lambda: _seconds(lambda: layer.forward(x)),
        "layer.forward(x).output": lambda: _seconds(lambda: layer.forward(x).output),
        "layer.forward(x, out=y, context=c)": lambda: _seconds(
            lambda: layer.forward(x, out=y, context=context)
        ),
    }
    if torch:
        ways[TORCH] = _torch_way(module, features)
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            rounds[name].append(way() / CALLS * 1e6)
    headwise.set_default_context(before)
    return {name: min(times) for name, times in rounds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m headwise.overhead", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=512, help="a multiple of 8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--limit", type=float, metavar="MICROSECONDS")
    options = parser.parse_args()
    times = measure(options.features, options.threads, options.torch)
    base = times["C++"]
    print(f"one token, {options.features} features, 8 heads: microseconds per call")
    for name, microseconds in times.items():
        print(f"  {name:36}{microseconds:8.2f}{microseconds - base:+8.2f}")
    overhead = times[TORCH if options.torch else "layer.forward(x).output"] - base
    return 1 if options.limit is not None and overhead > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
