#!/usr/bin/env python3
"""run_ask.py - answers that grow on a terminal, and are stopped there.

The model is one of random weights that says any bytes: control characters, bytes that
are no UTF-8, characters cut in two. What reaches the terminal is read by a screen that
refuses whatever the program has no use for. SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import screen  # noqa: E402
from script import PROGRAM, ROOT, run_tests  # noqa: E402

BUILD = pathlib.Path(os.environ.get("FLEXBUDGET_BUILD", str(ROOT / "build/release")))
ENVIRONMENT = {**{k: v for k, v in os.environ.items()
                  if not k.startswith("FLEXBUDGET_") and k != "NO_COLOR"},
               "TERM": "xterm", "LC_ALL": "C.UTF-8"}
TEXT = "It was a bright cold day in April, and the clocks were striking."
RULES = "full,knorm,snapkv:window=8,h2o"
HEADS = RULES.split(",")


def command(model, *more):
    return [PROGRAM, "ask", "--text", TEXT, "Which day?", "-m", str(model), "--rules", RULES,
            "--budget", "50%", "--protect", "2+4", "--max-tokens", "40", *more]


def output(model, *more):
    return subprocess.run(command(model, *more), env=ENVIRONMENT, check=True,
                          stdin=subprocess.DEVNULL, capture_output=True).stdout.decode()


def blocks(lines):
    """The lines of each rule, without times, joined: broken lines are those of one."""
    found, head = {}, None
    for line in lines:
        if line in HEADS:
            head = line
            found[head] = ""
        elif head is not None and line.startswith("  "):
            found[head] += re.sub(r" in [\d.]+ \w+\]?$", "]", line[2:]).replace(" ", "")
        elif line:
            head = None
    return {k: re.sub(r"in[\d.]+[mu]?s\]", "]", v) for k, v in found.items()}


def slow(model, *more):
    """What the built-in model has tokens for, as long as is asked for."""
    return [PROGRAM, "ask", "--text", "^.A7.B3.C9.D1.E5.F2.G8", "?C", "-m", str(model),
            "--rules", "full,knorm", "--budget", "50%", "--protect", "2+4", *more]


def test_whole(model):
    """In the end the terminal has what a pipe gets, in lines of its own width."""
    want = blocks(output(model).split("\n"))
    for rows, columns in (24, 80), (50, 33), (8, 200), (3, 20):
        terminal = screen.Terminal(command(model, "-q"), ENVIRONMENT, rows, columns)
        assert terminal.wait() == 0
        assert terminal.screen.wrapped == 0, "a line was longer than the terminal"
        assert terminal.screen.colours > 0
        got = blocks(terminal.screen.shown())
        assert got == want, f"{rows} x {columns}: {got} is not {want}"


def test_pipe_is_plain(model):
    """A pipe gets neither colours nor moves, nor anything that a terminal obeys."""
    text = output(model)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), text
    assert all(re.search(rf"^{re.escape(head)}$", text, re.M) for head in HEADS)
    answers = json.loads(output(model, "--json"))["answers"]
    assert [a["rule"] for a in answers] == HEADS
    assert any(re.search(r"[\x00-\x1f]", a["answer"]) for a in answers), "not hostile"
    assert any("\ufffd" in a["answer"] for a in answers), "not hostile"


def test_dumb(model):
    """TERM=dumb is told nothing to do, NO_COLOR no colours, --color never neither."""
    for change, more in ({"TERM": "dumb"}, ()), ({"TERM": ""}, ()):
        terminal = screen.Terminal(command(model, *more), {**ENVIRONMENT, **change})
        assert terminal.wait() == 0
        assert b"\x1b" not in terminal.bytes
        assert set(blocks(terminal.screen.shown())) == set(HEADS)
    for change, more in ({"NO_COLOR": "1"}, ()), ({}, ("--color", "never")):
        terminal = screen.Terminal(command(model, *more), {**ENVIRONMENT, **change})
        assert terminal.wait() == 0
        assert terminal.screen.colours == 0


def wait_for(terminal, is_there):
    end = time.monotonic() + 60
    while not is_there(terminal.screen.shown()):
        assert terminal.read(), "the program ended before"
        assert time.monotonic() < end, "\n".join(terminal.screen.shown())


def so_far(lines):
    """Tokens that the first answer has while it grows."""
    found = re.search(r"· (\d+) tokens? so far", "\n".join(lines))
    return int(found[1]) if found else 0


def whole_frames(terminal):
    """The frames of the growing answers; a piece of output may end in the middle of one."""
    return [frame for frame in terminal.frames
            if frame and frame[-1].startswith("answering  ")
            and [line for line in frame if line in HEADS] == ["full", "knorm"]
            and so_far(frame) > 0]


def elsewhere(file, line):
    """The same command with its stdout in a file."""
    return ["sh", "-c", 'exec "$@" > "$0"', str(file), *line]


def test_growth(_):
    """Each frame goes on where the last one was, and fits the screen."""
    terminal = screen.Terminal(slow("builtin", "--max-tokens", "16000"), ENVIRONMENT, 16, 100)
    wait_for(terminal, lambda lines: len({so_far(f) for f in whole_frames(terminal)}) > 4)
    seen = [so_far(frame) for frame in whole_frames(terminal)]
    assert seen == sorted(seen), seen
    os.kill(terminal.pid, signal.SIGINT)  # at Ctrl-C the kernel drops what is not read yet
    assert terminal.wait() == 3
    assert terminal.screen.wrapped == 0
    end = terminal.screen.shown()
    assert so_far(end) >= max(seen), end
    assert re.match(r"read \d+ tokens once in .*; stopped answering 2 rules together in ",
                    end[-1]), end
    assert not any(line.startswith("answering") for line in end), end


def test_stopped_elsewhere(_):
    """What is there is printed, and is JSON where that was asked for."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        terminal = screen.Terminal(
            elsewhere(out, slow("builtin", "--max-tokens", "16000", "--json")), ENVIRONMENT)
        wait_for(terminal, lambda lines: lines and lines[-1].startswith("answering"))
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait() == 3
        said = json.loads(out.read_text())
    assert said["stopped"] is True
    assert {a["stop"] for a in said["answers"]} == {"request"}
    lengths = [len(a["ids"]) for a in said["answers"]]
    assert 0 < max(lengths) < 16000 and max(lengths) - min(lengths) <= 1, lengths


def test_state_on_stderr(model):
    """Answers that go elsewhere do not grow here: one line says how far it is."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        terminal = screen.Terminal(
            elsewhere(out, slow("builtin", "--max-tokens", "1500")), ENVIRONMENT)
        assert terminal.wait() == 0
        states = {line for frame in terminal.frames for line in frame}
        assert any(line.startswith("answering  ") for line in states), states
        assert not any(line in HEADS for line in states), states
        assert terminal.screen.shown()[-1].startswith("builtin (F32"), terminal.screen.shown()
        assert "\x1b" not in out.read_text()
        quiet = screen.Terminal(elsewhere(out, command(model, "-q")), ENVIRONMENT)
        assert quiet.wait() == 0
        assert quiet.bytes == b""


def main():
    try:
        pty.openpty()
    except OSError:
        print("no pseudo-terminal can be opened here")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "random.gguf")
        subprocess.run([str(BUILD / "tests/cli/random_model"), str(model)], check=True)
        return run_tests(globals(), model)


if __name__ == "__main__":
    sys.exit(main())
