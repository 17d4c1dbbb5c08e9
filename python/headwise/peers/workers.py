"""The other end of the pipes: starting workers on their CPUs, giving orders, seeing that they sleep again."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Pipe
from typing import Any

from headwise.peers.frameworks import load
from headwise.peers.timing import cpu_and_waiting_seconds

# Before any import: numpy's own threads are of no use, and nobody logs what is no error.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"}


class WorkerError(Exception):
    """The process ended or did not answer in time."""


class WorkerProcess:
    """A framework in a process that may use exactly as many CPUs as it has threads."""

    def __init__(self, key: str, threads: int, log: pathlib.Path) -> None:
        self.key = key
        self._log = log
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        if len(cpus) < threads:
            raise WorkerError(f"{threads} threads need as many CPUs, and there are {len(cpus)}")
        self._pipe, theirs = Pipe()
        environment = os.environ | ENVIRONMENT | load(key).environment(threads)
        # Not -m: what it sends has to be of headwise.peers.worker, not of its __main__.
        program = "from headwise.peers import worker; worker.main()"
        command = [sys.executable, "-c", program, key, str(threads), str(theirs.fileno())]
        with log.open("wb") as file:
            # The CPUs are set before the interpreter starts: libraries count them when they are loaded.
            self._process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdout=file,
                                             stderr=file, stdin=subprocess.DEVNULL,
                                             preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        theirs.close()

    def wait_until_ready(self, timeout: float = 300.0) -> None:
        if failure := self._answer(timeout):
            raise WorkerError(failure)

    def order(self, name: str, *arguments: Any, timeout: float = 1800.0) -> Any:
        try:
            self._pipe.send((name, arguments))
        except OSError as error:
            raise WorkerError(self._last_words()) from error
        return self._answer(timeout)

    def _answer(self, timeout: float) -> Any:
        if not self._pipe.poll(timeout):
            self._process.kill()  # an answer that came later would be taken for the next one
            raise WorkerError(f"no answer within {timeout:.0f} s")
        try:
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerError(self._last_words()) from error

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "its process closed the pipe"
        how = signal.strsignal(-code) if code < 0 else f"exit code {code}"
        return f"its process ended ({how}){': ' + lines[-1] if lines else ''}"[:200]

    def cpu_seconds(self) -> float:
        return cpu_and_waiting_seconds(self._process.pid)[0]

    def settle(self, most: float = 0.5) -> None:
        """Waits until its threads sleep: many libraries let them spin for some time after the work."""
        end = time.perf_counter() + most
        before = self.cpu_seconds()
        while time.perf_counter() < end:
            time.sleep(0.003)
            now = self.cpu_seconds()
            if now - before < 0.0001:
                return
            before = now

    def stop(self) -> None:
        """Closing the pipe ends it; if it is busy, it is killed."""
        self._pipe.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
