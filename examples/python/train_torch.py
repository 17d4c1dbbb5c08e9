"""Train one PyTorch layer twice from the same start: as torch computes it, and after headwise.torch.swap.

    python examples/python/train_torch.py
"""

import copy

import numpy as np
import torch
from recall import FEATURES, SYMBOLS, accuracy, questions

import headwise.torch


class Recall(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(FEATURES, num_heads=2, batch_first=True)
        self.answer = torch.nn.Linear(FEATURES, SYMBOLS)

    def forward(self, query: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return self.answer(self.attention(query, memory, memory)[0][:, 0])


def train(model: Recall) -> list[float]:
    rng, losses = np.random.default_rng(1), []
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(150):
        query, memory, answers = map(torch.from_numpy, questions(rng, 64))
        loss = torch.nn.functional.cross_entropy(model(query, memory), answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


torch.set_num_threads(1)  # the task is too small to share
torch.manual_seed(7)
theirs = Recall()
ours = headwise.torch.swap(copy.deepcopy(theirs))  # the one line
their_losses, our_losses = train(theirs), train(ours)
for step in (1, *range(25, 151, 25)):
    print(f"step {step:3}  loss {our_losses[step - 1]:.4f}  (torch: {their_losses[step - 1]:.4f})")

query, memory, answers = map(torch.from_numpy, questions(np.random.default_rng(2), 500))
with torch.no_grad():
    print(f"new questions: {accuracy(ours.eval()(query, memory).numpy(), answers.numpy()):.1%} right")
