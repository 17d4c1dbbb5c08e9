"""What a layer will cost on this machine: `headwise.plan`."""

from __future__ import annotations

import dataclasses
import functools

from headwise._core import (
    AttentionConfig,
    Context,
    LayerCall,
    LayerCost,
    LayerRun,
    LayerTiming,
    Machine,
    Mask,
    Pass,
    Prediction,
    Yardsticks,
    default_target,
    describe_machine,
    largest_read_bytes,
    layer_cost,
    measure_layers,
    predict,
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What plan() returns; str() of it is a table.

    >>> import headwise
    >>> plan = headwise.plan(headwise.presets.paper(), queries=128, threads=1)
    >>> print(plan)  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    parameters          1,048,576
    cache per token  ...
    """

    cost: LayerCost
    machine: Machine
    threads: int
    prediction: Prediction
    timing: LayerTiming | None

    def __str__(self) -> str:
        memory = self.cost.memory
        lines = [
            f"parameters       {self.cost.weights.total:12,}",
            f"cache per token  {memory.cache_per_token:12,} bytes",
            f"activations      {memory.activations:12,} bytes, and {memory.score_matrices:,} more if scores were stored",
            "",
            f"{'stage':28}{'MFLOP':>10}{'KB':>10}{'µs':>10}  bound by",
        ]
        for stage, time in zip(self.cost.stages, self.prediction.stages, strict=True):
            name = stage.stage.name + (" backward" if stage.pass_ == Pass.Backward else "")
            lines.append(f"{name:28}{stage.flops / 1e6:10.1f}{stage.bytes / 1e3:10.0f}"
                         f"{time.seconds * 1e6:10.1f}  {time.bound.name.lower()}")
        lines.append(f"{'overhead':48}{self.prediction.overhead * 1e6:10.1f}")
        predicted = f"predicted, {self.threads} thread{'' if self.threads == 1 else 's'}"
        lines.append(f"{predicted:48}{self.prediction.seconds * 1e6:10.1f}")
        if self.timing is not None:
            lines.append(f"{'measured':48}{self.timing.seconds * 1e6:10.1f}")
        return "\n".join(lines)


def plan(config: AttentionConfig, *, queries: int, keys: int | None = None, batch: int = 1,
         mask: Mask | None = None, training: bool = False, threads: int | None = None,
         machine: Machine | None = None, measure: bool = False) -> Plan:
    """Parameters, arithmetic, memory and time of one call of a layer, counted and predicted.

    threads: as many as the process may use CPUs. machine: this one, which takes half a second to measure,
    once. measure: time the call for real, too. layer_cost() and predict() are its parts.

    >>> import headwise
    >>> plan = headwise.plan(headwise.presets.paper(), queries=128, batch=32, training=True, threads=1)
    >>> plan.cost.weights.total, plan.prediction.seconds > 0
    (1048576, True)
    """
    call = LayerCall(queries=queries, keys=keys, batch=batch, mask=mask, training=training)
    cost = layer_cost(config, call)
    used = Context(threads).threads
    here = machine or _this_machine(used)
    timing = None
    if measure:
        timing, = measure_layers([LayerRun(config, call)], _yardsticks(), threads=used)
    return Plan(cost, here, used, predict(cost, here, used), timing)


@functools.cache
def _yardsticks() -> Yardsticks:
    return Yardsticks(default_target(), largest_read_bytes())


@functools.cache
def _this_machine(threads: int) -> Machine:
    return describe_machine(default_target(), [threads], _yardsticks())
