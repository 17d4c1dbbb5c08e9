"""Train one attention layer with numpy alone: forward, backward, and Adam in five lines.

    python examples/python/train_numpy.py
"""

import numpy as np
from recall import FEATURES, SYMBOLS, accuracy, questions

import headwise as hw

config = hw.AttentionConfig(num_heads=2, key_dim=16, query_features=FEATURES, output_features=SYMBOLS)
weights = hw.AttentionWeights.glorot(config, seed=7)
first_moment = {name: np.zeros_like(weight) for name, weight in weights.items()}
second_moment = {name: np.zeros_like(weight) for name, weight in weights.items()}


def loss_and_gradient(logits: np.ndarray, answers: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean cross-entropy, and its gradient with respect to the logits."""
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = exponentials / exponentials.sum(-1, keepdims=True)
    rows = np.arange(len(answers))
    loss = -np.log(probabilities[rows, answers]).mean()
    probabilities[rows, answers] -= 1
    return float(loss), probabilities / len(answers)


def adam(gradients: dict[str, np.ndarray], step: int, rate: float = 0.005) -> None:
    for name, gradient in gradients.items():
        first_moment[name] += 0.1 * (gradient - first_moment[name])
        second_moment[name] += 0.001 * (gradient**2 - second_moment[name])
        mean, square = first_moment[name] / (1 - 0.9**step), second_moment[name] / (1 - 0.999**step)
        weights[name] -= rate * mean / (np.sqrt(square) + 1e-8)


rng = np.random.default_rng(1)
for step in range(1, 151):
    query, memory, answers = questions(rng, 64)
    layer = hw.MultiHeadAttention(config, weights)  # layers never change: each step makes one
    result = layer.forward(query, memory, memory, save_for_backward=True)
    loss, gradient = loss_and_gradient(result.output[:, 0], answers)
    adam(layer.backward(query, memory, memory, result, gradient[:, None]).weights, step)
    if step == 1 or step % 25 == 0:
        print(f"step {step:3}  loss {loss:.4f}")

query, memory, answers = questions(np.random.default_rng(2), 500)
result = hw.MultiHeadAttention(config, weights).forward(query, memory, memory, weights=hw.all_weights())
asked = (query[..., :SYMBOLS] * memory[..., :SYMBOLS]).sum(-1)  # (500, 4): 1 for the pair with the letter
looks = (result.weights[:, :, 0] * asked[:, None]).sum(-1).mean(0)
print("weight on the pair asked for, by head:", looks.round(2))
print(f"new questions: {accuracy(result.output[:, 0], answers):.1%} right")
