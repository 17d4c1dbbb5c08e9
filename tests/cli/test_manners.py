"""How the program behaves towards people and shells: help, errors, exit codes, pipes, interrupts."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy
import pytest
from system_calls import without_unnamed_files

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMANDS = ["run", "plan", "inspect", "convert", "view", "completion"]


def test_help_lists_every_command_and_the_exit_codes(succeed):
    text = succeed("--help")
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", text, re.MULTILINE), command
    for section, first in (("Environment", "NO_COLOR"), ("Exit codes", "0  done")):
        assert f"{section}:\n  {first}" in text
    assert "Ctrl-C" in text and "headwise help COMMAND" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_usage_options_and_examples(succeed, command):
    text = succeed(command, "--help")
    assert f"Usage: headwise {command}" in text
    examples = text.split("Examples:\n")[1].splitlines()
    assert len(examples) >= 3
    assert all("headwise " in line for line in examples)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_its_terminal(run, command):
    for width in (60, 100):
        text = run(command, "--help", env={"COLUMNS": str(width)}).out
        options = text.split("Examples:\n")[0]
        assert max(map(len, options.splitlines())) <= width


def test_examples_in_help_use_options_that_exist(succeed):
    for command in COMMANDS:
        text = succeed(command, "--help")
        options, examples = text.split("Examples:\n")
        for option in re.findall(r"(--[a-z-]+)", examples):
            assert option in options, f"{command}: {option}"


def test_version(succeed):
    numbers = re.findall(r"#define HEADWISE_VERSION_\w+ (\d+)",
                         (ROOT / "include/headwise/version.h").read_text())
    assert succeed("--version") == "headwise " + ".".join(numbers) + "\n"


def test_a_type_may_have_a_colon(succeed):
    assert "--rows FIRST:END " in succeed("view", "--help")
    assert "--theme NAME " in succeed("view", "--help")  # and not its words


def test_docs_say_what_holds_for_every_command():
    text = (ROOT / "docs/cli.md").read_text()
    for word in ("--version", "headwise help COMMAND", "NO_COLOR", "COLORTERM", "Ctrl-C", "pipe",
                 '{"tokens": […]}'):
        assert word in text, word


def test_docs_are_what_help_says(succeed):
    assert (ROOT / "docs/cli.md").read_text() == succeed("reference"), "run `make reference`"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "a command is missing; 'headwise --help' lists them"),
        (["plam"], "unknown command 'plam'; did you mean plan?"),
        (["xyzzy"], "unknown command 'xyzzy'; see 'headwise --help'"),
        (["--helq"], "unknown option '--helq'; did you mean --help?"),
        (["plan", "--keydim", "64"], "unknown option '--keydim'; did you mean --key-dim?"),
        (["plan", "--key_dim=64"], "unknown option '--key_dim'; did you mean --key-dim?"),
        (["run", "--num-heads", "8"], "unknown option '--num-heads'; did you mean --heads?"),
        (["run", "--xyzzy"], "unknown option '--xyzzy'; see 'headwise run --help'"),
        (["run", "--heads", "many"], "--heads: expected a whole number, 1 or more, got 'many'"),
        (["run"], "an input is missing"),
        (["run", "--shape", "1,2"], "--shape: expected BATCH,LENGTH,FEATURES"),
        (["run", "--shape", "a,b"], "--shape: expected whole numbers with commas between them"),
        (["run", "--shape", "1,4,10", "--heads", "3"], "--key-dim: say the size of a head"),
        (["run", "--shape", "1,4,8", "--heads", "0"], "--heads: expected a whole number, 1 or more"),
        (["run", "--shape", "1,4,8", "--heads", "-2"], "--heads: expected a whole number, 1 or more"),
        (["run", "--shape", "1,4,8", "--heads", "2.5"], "--heads: expected a whole number"),
        (["run", "--shape", "1,4,8", "--heads", "4", "--kv-heads", "3"], "--kv-heads: expected a divisor"),
        (["run", "--heads"], "--heads: a value is missing; see 'headwise run --help'"),
        (["run", "--input", "a", "--input", "b"], "--input: given more than once"),
        (["run", "--shape", "1,4,8", "--seed", "-1"], "--seed: expected a whole number, 0 or more"),
        (["run", "--shape", "1,4,8", "--seed", str(2**64)], "--seed: expected a whole number"),
        (["inspect", "x", "--threads", "0"], "--threads: expected a whole number, 1 … 1024, got '0'"),
        (["inspect", "x", "--alike", "2"], "--alike: expected a number, -1 … 1, got '2'"),
        (["convert", "a", "b.npz"], "--to: missing; see 'headwise convert --help'"),
        (["run", "--shape", "1,4,8", "--window", "3"], "--window: expected LEFT,RIGHT"),
        (["run", "--shape", "1,4,8", "--threads", "0"], "threads"),
        (["run", "--shape", "1,4,8", "--target", "mmx"], "target"),
        (["run", "--shape", "2,4,8", "--valid-lens", "3,9"], "length"),
        (["run", "--shape", "1,4,8", "--causal", "--keys", "9"], "Give --align top-left"),
        (["run", "--shape", "9223372036854775807,8,8", "--heads", "2"], "--shape: expected a product"),
        (["run", "--shape", "1,4,8", "--threads", "2000"], "--threads: expected a whole number, 1 … 1024"),
        (["help", "plam"], "unknown command 'plam'; did you mean plan?"),
        (["xyzzy", "run"], "unknown command 'xyzzy'"),
        (["plan", "run"], "unexpected argument 'run'; see 'headwise plan --help'"),
        (["view", "w.npy", "--output", "x.png"], "unknown option '--output'; did you mean --png or --html?"),
        (["view", "w.npy", "--dark"], "unknown option '--dark'; did you mean --theme dark?"),
        (["-V"], "unknown option '-V'; did you mean --version?"),
        (["plan", "--shape", "1,4,8", "--compare", "4x2,4x2kv3"],
         "--compare: 4x2kv3: num_kv_heads: expected a divisor of num_heads = 4, got 3"),
        (["completion", "tcsh"], "SHELL: expected bash, zsh or fish, got 'tcsh'"),
        (["completion"], "SHELL"),
    ],
)
def test_bad_use_is_one_line_and_exit_code_2(fails, arguments, expected):
    assert expected in fails(2, *arguments)


def test_no_error_speaks_of_functions_and_types(fails, tmp_path):
    """What the library says of its arguments comes out in the words of the command line."""
    numpy.save(tmp_path / "mask.npy", numpy.ones((2, 5, 5), bool))
    numpy.save(tmp_path / "x.npy", numpy.ones((2, 5, 31), "float32"))
    layer = ("run", "--heads", 2, "--key-dim", 4)
    for arguments, starts in [
        ((*layer, "--shape", "2,5,8", "--mask", tmp_path / "mask.npy"),
         "--mask: expected --mask-axes batch-query-key or --mask-axes head-query-key"),
        ((*layer, "--shape", "2,5,8", "--valid-lens", "1,2,3"), "--valid-lens: expected key lengths"),
        ((*layer, "--query", tmp_path / "x.npy", "--key", tmp_path / "mask.npy"), ""),
        ((*layer, "--shape", "2,5,8", "--target", "neon"), "--target: expected one of"),
    ]:
        outcome = fails(1 if starts == "" else 2, *arguments)
        assert outcome.startswith(f"headwise: {starts}") and "::" not in outcome
        assert not re.search(r"\[[A-Za-z_:]+\]", outcome)


@pytest.mark.parametrize("option", [
    "--valid-lens", "--window", "--mask", "--layer", "--output", "--heads", "--target"])  # fmt: skip
def test_an_empty_value_is_no_value(fails, option):
    """A variable that is not set must not look as if the option had not been given."""
    line = fails(2, "run", "--shape", "1,4,8", "--heads", 2, option, "")
    assert line.startswith(f"headwise: {option}: expected ") and line.endswith("got ''")


def test_empty_values_of_other_commands(fails, tmp_path):
    for arguments in (["view", "w.npy", "--show-heads", ""], ["view", "w.npy", "--html", ""],
                      ["plan", "--shape", "1,4,8", "--compare", ""], ["inspect", ""],
                      ["convert", "a.npz", "b.npz", "--to", "torch", "--layer", ""]):
        assert "got ''" in fails(2, *arguments, cwd=tmp_path)


def test_help_and_version_as_words(succeed):
    assert succeed("help") == succeed("--help")
    assert succeed("help", "plan") == succeed("plan", "--help")
    assert succeed("version") == succeed("--version")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("nothing.npy", "No such file"), ("folder", "folder"), ("empty.npy", "empty")],
)
def test_unreadable_input_is_one_line_and_exit_code_1(fails, tmp_path, name, expected):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.npy").touch()
    message = fails(1, "run", "--input", tmp_path / name, "--heads", "2")
    assert str(tmp_path / name) in message and expected.lower() in message.lower()


def test_a_file_without_permission(fails, tmp_path):
    secret = tmp_path / "secret.npy"
    numpy.save(secret, numpy.zeros((2, 8), "float32"))
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read everything")
    assert "Permission denied" in fails(1, "run", "--input", secret, "--heads", "2")


def test_output_into_a_folder_that_is_not_there(fails, tmp_path):
    target = tmp_path / "nowhere" / "y.npy"
    message = fails(1, "run", "--shape", "1,4,8", "--heads", "2", "--output", target)
    assert f"{target}: no folder {target.parent}" in message


def test_a_full_disk_is_an_error(tool):
    with open("/dev/full", "w") as full:
        done = subprocess.run([tool, "plan", "--help"], stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "headwise: standard output: No space left on device\n"


def test_a_file_that_is_too_large_is_an_error(fails, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    target = tmp_path / "y.npy"
    line = fails(1, "run", "--shape", "1,64,64", "--heads", 2, "--output", target, limits=limit)
    assert str(target) in line and "File too large" in line
    assert not list(tmp_path.iterdir())


def test_a_closed_pipe_is_no_error(tool):
    process = subprocess.Popen([tool, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0


def test_a_pipe_that_closes_amid_an_array(tool):
    process = subprocess.Popen(
        [tool, "run", "--shape", "8,256,512", "--heads", "8", "--output", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(100)
    process.stdout.close()
    errors = process.stderr.read().decode()
    assert process.wait() == 0
    assert "headwise: " not in errors


def test_an_interrupted_run_leaves_the_old_file_and_nothing_else(tool, tmp_path):
    target = tmp_path / "y.npy"
    target.write_bytes(b"old")
    for delay in (0.05, 0.2, 0.5, 1.0):
        process = subprocess.Popen(
            [tool, "run", "--shape", "16,512,512", "--heads", "8", "--repeat", "50",
             "--output", target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.wait()
        assert [path.name for path in tmp_path.iterdir()] == ["y.npy"]
        if process.returncode == 0:
            break  # it was quicker
        assert process.returncode == -signal.SIGINT
        assert target.read_bytes() == b"old"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tool, tmp_path, number):
    """Where a new file has a name from its beginning: it is seen, and the signal comes."""
    target = tmp_path / "w.npy"
    target.write_bytes(b"old")
    interrupted = 0
    for _ in range(5):
        process = subprocess.Popen(
            [tool, "run", "--shape", "4,1024,64", "--heads", "16", "--key-dim", "4",
             "--attention-weights", target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=without_unnamed_files)
        while process.poll() is None and not list(tmp_path.glob(".headwise-*.tmp")):
            time.sleep(0.001)
        process.send_signal(number)
        process.wait()
        assert [path.name for path in tmp_path.iterdir()] == ["w.npy"]
        if process.returncode == -number:
            interrupted += 1
            assert target.read_bytes() == b"old"
            break
        target.write_bytes(b"old")  # it was quicker
    assert interrupted == 1


def run_on_terminal(command: list[str], env: dict[str, str]) -> str:
    """Output of a command whose standard output is a terminal of 100 × 40."""
    import fcntl
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave,
                               env={**os.environ, **env})
    os.close(slave)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        text += piece
    os.close(master)
    process.wait()
    return text.decode("utf-8", "replace")


def test_colours_only_on_a_terminal_and_never_with_no_color(tool, run):
    arguments = ["view", str(ROOT / "examples/data/sentence.npy")]
    assert "\033[" in run_on_terminal([tool, *arguments], {"TERM": "xterm-256color"})
    assert "\033[" not in run_on_terminal([tool, *arguments],
                                          {"TERM": "xterm-256color", "NO_COLOR": "1"})
    assert "\033[" not in run_on_terminal([tool, *arguments], {"TERM": "dumb"})
    assert "\033[" not in run(*arguments, env={"TERM": "xterm-256color"}).out


def test_bash_completes_commands_and_options(tool, succeed, tmp_path):
    script = tmp_path / "headwise.bash"
    script.write_text(succeed("completion", "bash"))

    def complete(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in words)
        program = (f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _headwise; "
                   'for reply in "${COMPREPLY[@]}"; do echo "$reply"; done')
        return subprocess.run(["bash", "-c", program], capture_output=True, text=True,
                              check=True).stdout.splitlines()

    assert complete("headwise", "pl") == ["plan"]
    assert complete("headwise", "run", "--key-") == ["--key-dim"]
    assert complete("headwise", "completion", "") == ["bash", "zsh", "fish"]
    assert complete("headwise", "help", "pl") == ["plan"]
    # Values: their words, files, or nothing.
    assert complete("headwise", "convert", "a", "b", "--to", "") == [
        "keras", "torch", "flax", "d2l", "bert", "llama", "gpt2", "headwise"]  # fmt: skip
    assert complete("headwise", "view", "--theme", "d") == ["dark"]
    assert complete("headwise", "run", "--align", "b") == ["bottom-right"]
    assert complete("headwise", "run", "--heads", "") == []
    assert complete("headwise", "run", "--weights", str(script)[:-3]) == [str(script)]
    assert complete("headwise", "inspect", str(script)[:-3]) == [str(script)]
    blank = tmp_path / "my model.safetensors"
    blank.touch()
    assert complete("headwise", "inspect", str(tmp_path / "my")) == [str(blank)]
    assert complete("headwise", "run", "--weights", str(tmp_path / "my")) == [str(blank)]
    # bash hands "--theme=d" over as three words.
    assert complete("headwise", "view", "--theme", "=", "d") == ["dark"]
    assert complete("headwise", "view", "--theme", "=") == ["light", "dark"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_completion_scripts(succeed, shell, tmp_path):
    script = succeed("completion", shell)
    for word in ("plan", "key-dim", "attention-weights", "bottom-right", "version"):
        assert word in script
    # Files are offered for options that take them only.
    value = {"zsh": ("--heads[", ":value: '"), "fish": ("-l heads ", " -x ")}[shell]
    file = {"zsh": ("--weights[", ":file:_files'"), "fish": ("-l weights ", " -r -F ")}[shell]
    for start, kind in (value, file):
        lines = [line for line in script.splitlines() if start in line]
        assert lines and all(kind in line for line in lines)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here to read the script")
    file = tmp_path / "script"
    file.write_text(script)
    subprocess.run([shell, "-n", file], check=True)
