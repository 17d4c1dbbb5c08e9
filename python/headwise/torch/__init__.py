"""Headwise in PyTorch: the layer and the function that models already use, with bits that do not change.

>>> import headwise.torch, torch
>>> model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 8, batch_first=True), 2)
>>> model = headwise.torch.swap(model)  # that is all
>>> model(torch.randn(2, 5, 64)).shape
torch.Size([2, 5, 64])
"""

from headwise.torch._swap import swap, swap_back
from headwise.torch.functional import scaled_dot_product_attention
from headwise.torch.linear import Linear
from headwise.torch.multihead_attention import MultiheadAttention

__all__ = ["Linear", "MultiheadAttention", "scaled_dot_product_attention", "swap", "swap_back"]
