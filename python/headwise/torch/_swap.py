"""Models of torch's layers become models of ours, and back."""

from __future__ import annotations

import collections
import warnings
from typing import TypeVar

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from headwise.torch._calls import expected
from headwise.torch.linear import Linear
from headwise.torch.multihead_attention import MultiheadAttention

Model = TypeVar("Model", bound=nn.Module)

# Linear layers of others → ours; headwise.transformers adds its own.
LINEAR: dict[type[nn.Module], type[nn.Module]] = {nn.Linear: Linear}


def _check_model(function: str, model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(expected(function, "model", "a torch.nn.Module", type(model).__name__))


def swap(model: Model, *, linear: bool = False) -> Model:
    """Makes every torch.nn.MultiheadAttention in the model ours, in place; linear: every torch.nn.Linear, too.

    The modules stay the same objects with the same parameters, hooks and names, so optimisers, state_dicts
    and references go on as before. Subclasses of torch's layers are left alone, and a warning says which. With
    headwise.transformers imported, its Conv1D (GPT-2) counts as linear. Returns the model.

    >>> import headwise.torch, torch
    >>> model = headwise.torch.swap(torch.nn.TransformerEncoderLayer(64, 8))
    >>> type(model.self_attn)
    <class 'headwise.torch.multihead_attention.MultiheadAttention'>
    """
    _check_model("swap", model)
    wanted = (nn.MultiheadAttention, *(LINEAR if linear else ()))
    # The last is torch's own, inside nn.MultiheadAttention, and serves its layer.
    known = (MultiheadAttention, *LINEAR.values(), NonDynamicallyQuantizableLinear)
    left = collections.Counter()
    for module in model.modules():
        if type(module) is nn.MultiheadAttention:
            module.__class__ = MultiheadAttention
            module.avoid_fused_encoder()
        elif linear and type(module) in LINEAR:
            module.__class__ = LINEAR[type(module)]
        elif isinstance(module, wanted) and not isinstance(module, known):
            left[type(module).__name__] += 1
    if left:
        names = ", ".join(f"{count} {name}" for name, count in left.items())
        warnings.warn(f"[swap] subclasses are left alone: {names}", stacklevel=2)
    return model


def swap_back(model: Model) -> Model:
    """Undoes swap(): every layer of ours in the model becomes torch's. Returns the model.

    >>> import headwise.torch, torch
    >>> model = headwise.torch.swap(torch.nn.TransformerEncoderLayer(64, 8))
    >>> type(headwise.torch.swap_back(model).self_attn)
    <class 'torch.nn.modules.activation.MultiheadAttention'>
    """
    _check_model("swap_back", model)
    theirs = {ours: other for other, ours in LINEAR.items()}
    for module in model.modules():
        if type(module) is MultiheadAttention:
            module.forget_packed()
            module._qkv_same_embed_dim = module.in_proj_weight is not None
            module.__class__ = nn.MultiheadAttention
        elif type(module) in theirs:
            module.forget_packed()
            module.__class__ = theirs[type(module)]
    return model
