"""Threads, the GIL, fork and processes: the same bits everywhere, and nothing waits for ever."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time

import headwise as hw
import numpy as np
import pytest

# No module of this file is slow to import: spawned processes import it again.

# JAX, if another file's tests have imported it here, fears for its threads; the children use ours.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")

CONFIG = hw.AttentionConfig(num_heads=4, key_dim=16, query_features=64)
LAYER = hw.MultiHeadAttention(CONFIG, hw.AttentionWeights.glorot(CONFIG, seed=5))
X = np.random.default_rng(2).standard_normal((2, 64, 64), np.float32)  # enough work for threads


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def compute(seed: int = 0) -> bytes:
    """A forward and a backward on this thread's own context."""
    x = X + np.float32(seed)
    r = LAYER.forward(x, mask=hw.causal(), save_for_backward=True)
    g = LAYER.backward(x, None, None, r, x, mask=hw.causal())
    return r.output.tobytes() + g.query.tobytes() + g.weights["value/kernel"].tobytes()


EXPECTED = [compute(seed) for seed in range(8)]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_of_a_context_change_no_bit(threads):
    context = hw.Context(threads)
    r = LAYER.forward(X, context=context)
    assert same_bits(r.output, LAYER.forward(X).output)
    assert context.last_call.threads == threads


def test_pool_of_python_threads():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(compute, range(8))) == EXPECTED


def test_each_thread_has_a_context_of_its_own():
    mine = hw.default_context()
    others = []

    def work():
        others.append(hw.default_context())
        compute()
        assert hw.default_context() == others[-1]

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len({mine, *others}) == 3
    assert hw.default_context() == mine != "something else"
    LAYER.forward(X, context=others[0])  # it outlives its thread


def test_a_context_serves_one_call_at_a_time():
    context = hw.Context(threads=1)
    big = np.zeros((1, 2000, 64), np.float32)
    refused, done = [], []

    def work():
        try:
            done.append(LAYER.forward(big, context=context).output.shape)
        except hw.ArgumentError as error:
            refused.append(str(error))

    for _ in range(50):
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if refused:
            break
    assert refused and done
    assert "context: expected a context that no other call is using, got one that is in use" in refused[0]


def test_other_threads_run_meanwhile():
    """The interpreter would not switch by itself for an hour, so whoever runs was let in by the call."""
    big = np.zeros((1, 4000, 64), np.float32)
    context = hw.Context(threads=1)
    before = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        for _ in range(20):
            steps: list[str] = []

            def work():
                steps.append("begin")  # noqa: B023
                LAYER.forward(big, context=context)
                steps.append("end")  # noqa: B023

            thread = threading.Thread(target=work)
            thread.start()
            while not steps:
                time.sleep(0)
            seen = list(steps)
            thread.join()
            if seen == ["begin"]:
                return
    finally:
        sys.setswitchinterval(before)
    pytest.fail("no other thread ran during 20 calls")


def in_child(work) -> int:
    """Exit code of a child that os.fork() makes; 0 if `work` was true there."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_after_a_fork():
    hw.set_default_context(hw.Context(threads=3))
    try:
        assert compute() == EXPECTED[0]  # its threads are there
        for _ in range(5):
            assert in_child(lambda: compute(1) == EXPECTED[1]) == 0
            assert compute(2) == EXPECTED[2]
        assert in_child(lambda: in_child(lambda: compute(3) == EXPECTED[3]) == 0) == 0
    finally:
        hw.set_default_context(None)


def test_fork_while_another_thread_computes():
    stop = threading.Event()

    def work():
        hw.set_default_context(hw.Context(threads=2))
        while not stop.is_set():
            compute()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        codes = [in_child(lambda: compute(4) == EXPECTED[4]) for _ in range(10)]
    finally:
        stop.set()
        thread.join()
    assert codes == [0] * 10


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(compute, range(4)) == EXPECTED[:4]
        results = pool.map(forward_of, [(LAYER, X + np.float32(i)) for i in range(2)])
    for i, output in enumerate(results):
        assert same_bits(output, LAYER.forward(X + np.float32(i)).output)


def forward_of(pair) -> np.ndarray:
    layer, x = pair
    return layer.forward(x).output


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "threading.Thread(target=work).start()",
                                    "threading.Thread(target=for_ever, daemon=True).start()",
                                    "import os; os.fork()"])
def test_programs_end(ending):
    """Quietly, with contexts alive on several threads."""
    program = textwrap.dedent("""
        import threading, numpy, headwise
        kept = headwise.Context(threads=3)
        x = numpy.ones((1, 300, 4, 64), numpy.float32)
        def work():
            headwise.set_default_context(headwise.Context(threads=2))
            for _ in range(3):
                headwise.attention(x, x, x)
        def for_ever():
            while True:
                headwise.attention(x, x, x)
        work()
        headwise.attention(x, x, x, context=kept)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """) + ending
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True,
                          timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
