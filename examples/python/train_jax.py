"""Train one Flax module twice from the same parameters: Flax's own, and headwise.jax.linen's, under jit.

    python examples/python/train_jax.py
"""

import flax.linen
import jax
import numpy as np
import optax
from recall import SYMBOLS, accuracy, questions

import headwise.jax.linen


class Recall(flax.linen.Module):
    attention: type[flax.linen.Module]

    @flax.linen.compact
    def __call__(self, query: jax.Array, memory: jax.Array) -> jax.Array:
        found = self.attention(num_heads=2, name="attention")(query, memory)
        return flax.linen.Dense(SYMBOLS, name="answer")(found[:, 0])


def train(model: Recall, parameters: dict) -> tuple[list[float], dict]:
    optimiser = optax.adam(0.005)

    def loss_of(parameters, query, memory, answers):
        logits = model.apply(parameters, query, memory)
        return optax.softmax_cross_entropy_with_integer_labels(logits, answers).mean()

    @jax.jit
    def step(parameters, state, *batch):
        loss, gradient = jax.value_and_grad(loss_of)(parameters, *batch)
        change, state = optimiser.update(gradient, state)
        return loss, optax.apply_updates(parameters, change), state

    rng, losses, state = np.random.default_rng(1), [], optimiser.init(parameters)
    for _ in range(150):
        loss, parameters, state = step(parameters, state, *questions(rng, 64))
        losses.append(float(loss))
    return losses, parameters


theirs = Recall(flax.linen.MultiHeadDotProductAttention)
ours = Recall(headwise.jax.linen.MultiHeadDotProductAttention)  # the one line
start = theirs.init(jax.random.key(7), *questions(np.random.default_rng(1), 1)[:2])
(their_losses, _), (our_losses, trained) = train(theirs, start), train(ours, start)
for step in (1, *range(25, 151, 25)):
    print(f"step {step:3}  loss {our_losses[step - 1]:.4f}  (Flax: {their_losses[step - 1]:.4f})")

query, memory, answers = questions(np.random.default_rng(2), 500)
print(f"new questions: {accuracy(np.asarray(ours.apply(trained, query, memory)), answers):.1%} right")
