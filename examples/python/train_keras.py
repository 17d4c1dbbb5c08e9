"""Train one Keras model twice from the same weights with fit: Keras's layer, and after headwise.keras.swap.

    KERAS_BACKEND=torch python examples/python/train_keras.py       # or jax, or tensorflow
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from recall import FEATURES, PAIRS, SYMBOLS, accuracy, questions

import headwise.keras


def build() -> keras.Model:
    keras.utils.set_random_seed(7)
    query, memory = keras.Input((1, FEATURES)), keras.Input((PAIRS, FEATURES))
    found = keras.layers.MultiHeadAttention(num_heads=2, key_dim=8)(query, memory)
    return keras.Model([query, memory], keras.layers.Dense(SYMBOLS)(keras.layers.Flatten()(found)))


def train(model: keras.Model) -> list[float]:
    """→ the mean loss of each epoch."""
    query, memory, answers = questions(np.random.default_rng(1), 1280)
    model.compile(keras.optimizers.Adam(0.005), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model.fit([query, memory], answers, batch_size=64, epochs=8, shuffle=False, verbose=0).history["loss"]


theirs = build()
ours = headwise.keras.swap(build())  # the one line
their_losses, our_losses = train(theirs), train(ours)
for epoch in range(8):
    print(f"epoch {epoch + 1:2}  loss {our_losses[epoch]:.4f}  (Keras: {their_losses[epoch]:.4f})")

query, memory, answers = questions(np.random.default_rng(2), 500)
print(f"new questions: {accuracy(ours.predict([query, memory], verbose=0), answers):.1%} right")
