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
        check_tensor("Linear", "input", input)
        if input.dim() == 0 or input.shape[-1] != self.in_features:
            raise RuntimeError(expected("Linear", "input", f"a last axis of {self.in_features}",
                                        f"shape {tuple(input.shape)}"))
        weight, bias = self.weight, self.bias
        if not is_traced() and is_plain(input):
            packed = self.packed([weight, bias], lambda: headwise.PackedLinear(weight.t(), bias))
            if packed is not None:
                return torch.from_numpy(packed(input, context=context()))
        tensors = {"input": input, "weight": weight} | ({} if bias is None else {"bias": bias})
        dtype = common_dtype("Linear", tensors)
        return project(input, weight, bias).to(dtype)
