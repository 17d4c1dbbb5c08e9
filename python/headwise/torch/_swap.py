"""Models of torch's layers become models of ours, and back."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from headwise.torch._calls import expected
from headwise.torch.linear import Linear
from headwise.torch.multihead_attention import MultiheadAttention

Model = TypeVar("Model", bound=nn.Module)


def _check_model(function: str, model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(expected(function, "model", "a torch.nn.Module", type(model).__name__))


def swap(model: Model, *, linear: bool = False) -> Model:
    """Makes every torch.nn.MultiheadAttention in the model ours, in place; linear: every torch.nn.Linear, too.

    The modules stay the same objects with the same parameters, hooks and names, so optimisers, state_dicts
    and references go on as before. Subclasses of torch's layers are left alone. Returns the model.

    >>> import headwise.torch, torch
    >>> model = headwise.torch.swap(torch.nn.TransformerEncoderLayer(64, 8))
    >>> type(model.self_attn)
    <class 'headwise.torch.multihead_attention.MultiheadAttention'>
    """
    _check_model("swap", model)
    for module in model.modules():
        if type(module) is nn.MultiheadAttention:
            module.__class__ = MultiheadAttention
            module.avoid_fused_encoder()
        elif linear and type(module) is nn.Linear:
            module.__class__ = Linear
    return model


def swap_back(model: Model) -> Model:
    """Undoes swap(): every layer of ours in the model becomes torch's. Returns the model.

    >>> import headwise.torch, torch
    >>> model = headwise.torch.swap(torch.nn.TransformerEncoderLayer(64, 8))
    >>> type(headwise.torch.swap_back(model).self_attn)
    <class 'torch.nn.modules.activation.MultiheadAttention'>
    """
    _check_model("swap_back", model)
    for module in model.modules():
        if type(module) is MultiheadAttention:
            module.forget_packed()
            module._qkv_same_embed_dim = module.in_proj_weight is not None
            module.__class__ = nn.MultiheadAttention
        elif type(module) is Linear:
            module.forget_packed()
            module.__class__ = nn.Linear
    return model
