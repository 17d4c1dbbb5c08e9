"""How torch's tensors reach the library: whether directly, by which threads, with which masks."""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, get_num_threads, is_grad_enabled
from torch._C import _get_tracing_state, _len_torch_dispatch_stack
from torch._C._functorch import TransformType, get_interpreter_stack, peek_interpreter_stack
from torch.autograd import forward_ad
from torch.compiler import is_compiling

import headwise

# Of fewer bits than float32: made float32 without loss, and rounded once at the end.
NARROW = (torch.bfloat16, torch.float16)
_PLAIN = (Tensor, torch.nn.Parameter)
_FLOAT32 = torch.float32


class _Contexts(threading.local):
    context: headwise.Context | None = None
    threads = 0


_contexts = _Contexts()


def context() -> headwise.Context:
    """This thread's, with as many threads as torch itself would use: torch.set_num_threads counts here, too."""
    threads = get_num_threads()
    if _contexts.threads != threads:
        _contexts.context, _contexts.threads = headwise.Context(threads), threads
    return _contexts.context


def is_traced() -> bool:
    """Whether somebody wants to see operators: a compiler, a tracer, vmap."""
    return (
        is_compiling()
        or _len_torch_dispatch_stack() > 0
        or peek_interpreter_stack() is not None
        or _get_tracing_state() is not None
        or forward_ad._current_level >= 0
    )


def is_plain(tensor: Tensor) -> bool:
    """Whether the library can look at it as it is, unknown to autograd."""
    return (
        type(tensor) in _PLAIN
        and tensor.dtype is _FLOAT32
        and tensor.is_cpu
        and not tensor.is_neg()
        and not (tensor.requires_grad and is_grad_enabled())
    )


@dataclass
class Masks:
    """What hides keys or shifts scores, in the words of the library.

    keep: of bool, True = attend. bias: of float32, added; −∞ hides. Both of rank 4, (B,H,T,S) with 1
    where they are broadcast. causal: no key after the query, counted from the first of each.
    """

    keep: list[Tensor] = field(default_factory=list)
    bias: list[Tensor] = field(default_factory=list)
    causal: bool = False

    def add(self, mask: Tensor, keeps: bool) -> None:
        """A mask of rank 4; `keeps`: whether its True means attend."""
        if mask.dtype == torch.bool:
            self.keep.append(mask if keeps else ~mask)
        else:
            self.bias.append(mask.float())

    def is_plain(self) -> bool:
        return all(map(is_plain, self.bias)) and all(type(keep) is Tensor for keep in self.keep)

    def options(self) -> dict[str, Any]:
        """Arguments of headwise.attention and headwise.MultiHeadAttention.forward."""
        if not (self.keep or self.bias or self.causal):
            return {}
        parts = [headwise.keep(keep.detach()) for keep in self.keep]
        if self.causal:
            parts.append(headwise.causal(headwise.Alignment.TopLeft))
        return {
            "mask": functools.reduce(operator.and_, parts, headwise.Mask()),
            "bias": [headwise.Bias(bias.detach()) for bias in self.bias],
        }


NO_MASKS = Masks()


def refuse_transforms(tensors: Sequence[Tensor | None]) -> None:
    """NotImplementedError for tangents, which operators of torch.library would silently drop, and for
    torch.func's gradients, of which torch would speak in words of its own inside."""
    if is_compiling():
        return
    if any(level.key() == TransformType.Grad for level in get_interpreter_stack() or ()):
        raise NotImplementedError("headwise.torch has no derivatives by torch.func; use torch.autograd.grad")
    if forward_ad._current_level < 0:
        return
    for tensor in tensors:
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError("headwise.torch has no forward-mode derivatives; use torch.autograd.grad")


def expected(function: str, argument: str, wanted: str, got: object) -> str:
    """The text of every error, as the library itself has it."""
    return f"[{function}] {argument}: expected {wanted}, got {got}"


def check_tensor(function: str, name: str, tensor: object) -> None:
    """TypeError, as torch has it, for arrays, lists and None."""
    if not isinstance(tensor, Tensor):
        raise TypeError(expected(function, name, "a torch.Tensor", type(tensor).__name__))


def check_device(function: str, name: str, tensor: Tensor, device: torch.device) -> None:
    """RuntimeError unless the tensor is on the device, and that is the CPU, or meta, where only shapes count."""
    if not (tensor.is_cpu or tensor.is_meta):
        raise RuntimeError(expected(function, name, "a tensor on the CPU", f"one on {tensor.device}"))
    if tensor.device != device:
        raise RuntimeError(expected(function, name, f"the same device as before, {device}", tensor.device))


def common_dtype(function: str, tensors: dict[str, Tensor]) -> torch.dtype:
    """The dtype of the result; RuntimeError for what the library cannot compute.

    Autocast counts attention among the functions that it runs in float32.
    """
    autocast = torch.is_autocast_enabled("cpu")
    first = None
    for name, tensor in tensors.items():
        check_tensor(function, name, tensor)
        if tensor.dtype is not torch.float32 and tensor.dtype not in NARROW:
            raise RuntimeError(expected(function, name, "float32 (or bfloat16 or float16, which become float32)",
                                        f"{tensor.dtype} (convert it first: numbers are not rounded unasked)"))
        if first is None:
            first = tensor
        check_device(function, name, tensor, first.device)
        if tensor.dtype is not first.dtype and not autocast:
            raise RuntimeError(expected(function, name, f"the same dtype as before, {first.dtype}", tensor.dtype))
    return torch.float32 if autocast else first.dtype


def check_mask(
    function: str, name: str, mask: Tensor, device: torch.device, no_mask: type[Exception] = RuntimeError
) -> None:
    """Raises for a mask that is elsewhere, or neither of bool nor of a float that becomes float32 without loss.

    no_mask: what torch raises for integers.
    """
    check_tensor(function, name, mask)
    if mask.dtype not in (torch.bool, torch.float32, *NARROW):
        kind = RuntimeError if mask.is_floating_point() else no_mask
        raise kind(expected(function, name, "bool or float32", mask.dtype))
    check_device(function, name, mask, device)


def _number(function: str, name: str, value: Any) -> float:
    """What torch takes for a number: numpy's and tensors without axes or gradient, too. Else TypeError."""
    if isinstance(value, (int, float, torch.SymFloat)):
        return value
    if not hasattr(value, "__float__") or getattr(value, "requires_grad", False):
        raise TypeError(expected(function, name, "a number", type(value).__name__))
    return float(value)


def checked_dropout(function: str, name: str, value: Any, mistake: type[Exception] = RuntimeError) -> float:
    """The probability; mistake for a number that is none to drop with."""
    probability = _number(function, name, value)
    if not 0 <= probability < 1:
        raise mistake(expected(function, name, "a number in [0, 1)", probability))
    return probability


def checked_scale(function: str, name: str, value: Any) -> float | None:
    """The factor, or None; RuntimeError for one that is not finite."""
    if value is None:
        return None
    scale = _number(function, name, value)
    if not -math.inf < scale < math.inf:
        raise RuntimeError(expected(function, name, "a finite number", scale))
    return scale
