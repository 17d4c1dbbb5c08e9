"""torch.nn.Linear, by Headwise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import headwise
from headwise.torch._calls import check_tensor, common_dtype, context, expected, is_plain, is_traced
from headwise.torch._packed import Packs
from headwise.torch.functional import project


class Linear(Packs, nn.Linear):
    """torch.nn.Linear whose rows do not depend, bit for bit, on the rows beside them.

    >>> import headwise.torch, torch
    >>> layer = headwise.torch.Linear(64, 32)
    >>> x = torch.randn(10, 64)
    >>> torch.equal(layer(x)[3:4], layer(x[3:4]))
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return rows_of("Linear", self, input, by_columns=False)

    def row_size(self) -> int:
        return self.in_features


def rows_of(name: str, layer: Packs, input: Tensor, by_columns: bool) -> Tensor:
    """input (…,features) times the layer's weight, plus its bias.

    by_columns: whether the weight is (features,out), not (out,features) as torch has it.
    """
    check_tensor(name, "input", input)
    features = layer.row_size()
    if input.dim() == 0 or input.shape[-1] != features:
        raise RuntimeError(expected(name, "input", f"a last axis of {features}", f"shape {tuple(input.shape)}"))
    weight, bias = layer.weight, layer.bias
    if not is_traced() and is_plain(input):
        packed = layer.packed([weight, bias], input.numel(), lambda: headwise.PackedLinear(
            weight.detach() if by_columns else weight.detach().t(), None if bias is None else bias.detach()))
        if packed is not None:
            return torch.from_numpy(packed(input, context=context()))
    tensors = {"input": input, "weight": weight} | ({} if bias is None else {"bias": bias})
    dtype = common_dtype(name, tensors)
    return project(input, weight.t() if by_columns else weight, bias).to(dtype)
