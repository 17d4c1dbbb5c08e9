"""The whole program with real processes, as a user runs it."""

from __future__ import annotations

import doctest
import errno
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys

import pytest
from headwise import peers
from headwise.peers.__main__ import main
from headwise.peers.frameworks import FRAMEWORKS, load, versions
from headwise.peers.measure import QUICK, REFERENCE, RowRun, measure, working
from headwise.peers.rows import find
from headwise.peers.worker import TOLERANCE
from headwise.peers.workers import WorkerError, WorkerProcess
from peers_cases import measurement


def test_all_frameworks(tmp_path):
    """One tiny row. What is not installed must be told; all that is must have computed the same."""
    command = [sys.executable, "-m", "headwise.peers", "--quick", "--rounds", "2", "--rows", "^tiny-8-256$",
               "--threads", "1", "--json", tmp_path / "peers.json", "--svg", tmp_path / "peers.svg",
               "--markdown", tmp_path / "peers.md"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "peers.md").read_text(encoding="utf-8") == done.stdout
    assert (tmp_path / "peers.svg").read_text(encoding="utf-8").startswith("<svg")
    document = json.loads((tmp_path / "peers.json").read_text(encoding="utf-8"))
    results = {result["framework"]: result for result in document["results"]}
    for key in FRAMEWORKS:
        missing = versions(load(key))[1]
        if missing:
            assert f"{load(key).name}: **not measured**: not installed: {', '.join(missing)}" in done.stdout
            continue
        assert not results[key]["why_not"], results[key]
        assert results[key]["difference"] <= TOLERANCE
        assert results[key]["ratio"]["median"] > 0.0
        assert not [t for t in results[key]["tried"] if t["failure"]], results[key]["tried"]


def test_a_worker_has_its_cpus_alone_and_sleeps():
    with working([REFERENCE], 1) as (workers, failures):
        assert not failures
        worker = workers[REFERENCE]
        assert len(os.sched_getaffinity(worker._process.pid)) == 1
        worker.settle()
        before = worker.cpu_seconds()
        row = find("tiny-8-256")
        texts: list[str] = []
        measurements = RowRun(row, 1, workers, QUICK, texts.append).run()
        assert worker.cpu_seconds() > before
        assert [len(m.samples) for m in measurements] == [QUICK.rounds]
        assert texts[0] == "headwise prepares"


def test_an_interrupt_leaves_what_is_complete():
    def progress(done: int, total: int, text: str) -> None:
        if text == "tiny-32-256: round 1":
            raise KeyboardInterrupt

    rows = [find("tiny-8-256"), find("tiny-32-256")]
    measurements, failures = measure(rows, [REFERENCE], [1], QUICK, progress)
    assert [m.row.id for m in measurements] == ["tiny-8-256"]
    assert not failures


def test_a_process_that_ends_is_told(tmp_path):
    worker = WorkerProcess(REFERENCE, 1, tmp_path / "log")
    worker.wait_until_ready()
    worker._process.kill()
    with pytest.raises(WorkerError, match=r"its process ended \(Killed\)"):
        worker.order("release")
    worker.stop()


def test_a_process_that_hangs_is_ended(tmp_path):
    worker = WorkerProcess(REFERENCE, 1, tmp_path / "log")
    worker.wait_until_ready()
    with pytest.raises(WorkerError, match="no answer within 0 s"):
        worker.order("prepare", find("layer-llama-512"), tmp_path / "outputs.npz", 1.0, timeout=0.0)
    with pytest.raises(WorkerError, match=r"its process ended \(Killed\)"):
        worker.order("release")
    worker.stop()


@pytest.mark.parametrize("name", sorted(module.name for module in pkgutil.iter_modules(peers.__path__)))
def test_examples(name):
    module = importlib.import_module(f"headwise.peers.{name}")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["--rows", "nothing-like-it"], "no row matches 'nothing-like-it'"),
    (["--rows", "("], "expected a regular expression"),
    (["--threads", "two"], "expected numbers like 1,2, got 'two'"),
    (["--threads", "4096"], "the CPUs there are, got '4096'"),
    (["--frameworks", "torch,caffe"], "expected some of headwise, torch, .* got 'caffe'"),
    (["--rounds", "0"], "expected a number from 1 on, got '0'"),
    (["--rounds", "-3"], "expected a number from 1 on, got '-3'"),
    (["--json", "/no/such/folder/peers.json"], "expected a file in a folder that exists, got '/no/such"),
    (["--svg", "/"], "expected a file that can be written, got '/'"),
])
def test_wrong_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_file_that_fails_takes_no_other_with_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("headwise.peers.__main__.measure", lambda *_: ([measurement("headwise", [1.0])], {}))
    files = {name: tmp_path / name for name in ("json", "markdown", "svg")}
    arguments = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    monkeypatch.setattr(type(tmp_path), "write_text", failing_for(files["json"], type(tmp_path).write_text))
    assert main(["--rows", "^attention-128$", "--frameworks", "headwise", *arguments]) == 1
    assert capsys.readouterr().err == f"cannot write {files['json']}: No space left on device\n"
    assert files["markdown"].exists() and files["svg"].read_text(encoding="utf-8").startswith("<svg")


def failing_for(full, write):
    def write_text(path, *arguments, **options):
        if path == full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *arguments, **options)

    return write_text


def test_list(capsys):
    assert main(["--list", "--rows", "^decode"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "decode-512", "decode-4096", "decode-32768"]
