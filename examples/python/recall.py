"""The task that the train_*.py scripts learn: associative recall, the smallest thing that needs attention.

    python examples/python/recall.py

A sequence holds 4 pairs of a letter and a digit, in any order. Asked for one of its letters, answer with the digit beside it.
"""

import numpy as np

SYMBOLS = 8              # letters a to h, digits 0 to 7
FEATURES = 2 * SYMBOLS   # one-hot: the letter, then the digit
PAIRS = 4


def questions(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """→ query (count, 1, FEATURES), a letter without a digit; memory (count, PAIRS, FEATURES); answers (count,)."""
    one_hot = np.eye(SYMBOLS, dtype=np.float32)
    letters = rng.permuted(np.tile(np.arange(SYMBOLS), (count, 1)), axis=1)[:, :PAIRS]  # no letter twice
    digits = rng.integers(SYMBOLS, size=(count, PAIRS))
    memory = np.concatenate([one_hot[letters], one_hot[digits]], axis=-1)
    asked = rng.integers(PAIRS, size=count)
    rows = np.arange(count)
    query = np.concatenate([one_hot[letters[rows, asked]], np.zeros((count, SYMBOLS), np.float32)], axis=-1)
    return query[:, None], memory, digits[rows, asked]


def accuracy(logits: np.ndarray, answers: np.ndarray) -> float:
    return float((logits.argmax(-1) == answers).mean())


if __name__ == "__main__":
    query, memory, answers = questions(np.random.default_rng(1), 3)
    for asked, pairs, answer in zip(query[:, 0], memory, answers, strict=True):
        shown = " ".join(f"{'abcdefgh'[pair[:SYMBOLS].argmax()]}{pair[SYMBOLS:].argmax()}" for pair in pairs)
        print(f"{shown}   {'abcdefgh'[asked.argmax()]}? {answer}")
    print(f"guessing: loss {np.log(SYMBOLS):.3f}, {1 / SYMBOLS:.0%} right")
