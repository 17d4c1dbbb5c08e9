"""A line that shows how far it is, where somebody looks."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 24


class Progress:
    """On a terminal a bar that is drawn again and again; elsewhere nothing."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty()
        self._start = time.monotonic()

    def show(self, done: int, total: int, text: str) -> None:
        if not self._shown:
            return
        filled = WIDTH * done // max(total, 1)
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        bar = "█" * filled + "·" * (WIDTH - filled)
        self._stream.write(f"\r\x1b[K{bar} {done}/{total}  {minutes}:{seconds:02}  {text[:70]}")
        if done == total:
            self._stream.write("\r\x1b[K")
        self._stream.flush()
