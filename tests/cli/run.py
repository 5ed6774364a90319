#!/usr/bin/env python3
"""run.py - commands, their output and their exit code: one file per case.

    tests/cli/run.py [PATTERN...]         cases whose name contains a pattern

A case (cases/NAME.case) is text:

    # what it proves
    file hello.yaml                       a file, its lines indented by four spaces
        name: hello
    $ flexbudget run hello.yaml           a command, by bash, in an empty folder
    exit 2                                its exit code; 0 if the line is absent
    > text                                stdout: these lines and no others
    2> text                               stderr likewise
    >~ regex                              stdout matches (Python, multiline)
    2>~ regex                             stderr matches
    >!~ regex    2>!~ regex               ... does not match
    >json                                 stdout is valid JSON

A case may have several commands; expectations belong to the command above them. Without
">" or "2>" lines the text is free but for the regular expressions. UPDATE=1 rewrites
the exact lines; the difference is to be reviewed. A file that begins with "# slow" is
left out under ThreadSanitizer.

SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TIMEOUT = 60


class Command:
    def __init__(self, text):
        self.text = text
        self.code = 0
        self.exact = {1: None, 2: None}
        self.patterns = []  # (stream, wanted, regex)
        self.is_json = False


def parse(path):
    """Files to write and commands to run."""
    files, commands, name = {}, [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if name is not None and (line.startswith("    ") or not line):
            files[name] += line[4:] + "\n"
            continue
        name = None
        found = re.match(r"(2?)>(!?)~ (.*)$", line)
        if line.startswith("#") or not line:
            continue
        if line.startswith("file "):
            name = line[5:].strip()
            files[name] = ""
        elif line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif line.startswith("exit "):
            commands[-1].code = int(line[5:])
        elif line == ">json":
            commands[-1].is_json = True
        elif found:
            stream = 2 if found[1] else 1
            commands[-1].patterns.append((stream, found[2] == "", found[3]))
        elif line.startswith((">", "2>")):
            stream = 2 if line.startswith("2") else 1
            text = line[stream:]
            lines = commands[-1].exact[stream]
            commands[-1].exact[stream] = (lines or []) + [text[1:] if text else ""]
        else:
            raise ValueError(f"{path}:{number}: not understood: {line}")
    return files, commands


def problems_of(command, code, output):
    """What is not as expected, as sentences."""
    found = []
    if code != command.code:
        found.append(f"exit code {code}, expected {command.code}")
    for stream, name in ((1, "stdout"), (2, "stderr")):
        exact = command.exact[stream]
        if exact is not None and output[stream].rstrip("\n").split("\n") != exact:
            found.append(f"{name} differs; expected:\n" + "\n".join(exact))
    for stream, wanted, regex in command.patterns:
        if bool(re.search(regex, output[stream], re.M)) != wanted:
            found.append(f"std{'out' if stream == 1 else 'err'} "
                         f"{'does not match' if wanted else 'matches'} /{regex}/")
    if command.is_json:
        try:
            json.loads(output[1])
        except ValueError as error:
            found.append(f"stdout is not JSON: {error}")
    return found


def rewrite(path, commands, outputs):
    """Puts the exact lines that came out into the file."""
    lines, at = [], -1
    for line in path.read_text().splitlines():
        if line.startswith("$ "):
            at += 1
            lines.append(line)
            for stream, mark in ((1, ">"), (2, "2>")):
                if commands[at].exact[stream] is not None:
                    text = outputs[at][stream].rstrip("\n")
                    lines += [f"{mark} {t}".rstrip() for t in text.split("\n")]
        elif not re.match(r"2?>( |$)", line):
            lines.append(line)
    path.write_text("\n".join(lines) + "\n")


def run_case(path, environment):
    files, commands = parse(path)
    folder = tempfile.mkdtemp(prefix="flexbudget-")
    report, outputs = [], []
    try:
        for name, text in files.items():
            target = pathlib.Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for command in commands:
            done = subprocess.run(["bash", "-c", command.text], cwd=folder,
                                  env=environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=TIMEOUT)
            output = {1: done.stdout.decode(errors="replace"),
                      2: done.stderr.decode(errors="replace")}
            outputs.append(output)
            found = problems_of(command, done.returncode, output)
            if found:
                report.append(f"$ {command.text}\n" + "\n".join(found) +
                              f"\n--- stdout\n{output[1]}--- stderr\n{output[2]}")
    except subprocess.TimeoutExpired as error:
        report.append(f"longer than {TIMEOUT} s: {error.cmd}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if report and os.environ.get("UPDATE") == "1" and len(outputs) == len(commands):
        rewrite(path, commands, outputs)
    return report


def environment_of(program, root):
    """The program on the path, and nothing of the caller's that it listens to."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("FLEXBUDGET_") and k != "NO_COLOR"}
    kept["PATH"] = f"{program.parent}:{kept.get('PATH', '/usr/bin:/bin')}"
    kept["ROOT"] = str(root)
    kept["BUILD"] = os.environ.get("FLEXBUDGET_BUILD", str(root / "build/release"))
    kept["LC_ALL"] = "C.UTF-8"
    kept["FLEXBUDGET_MODELS"] = "/nonexistent"
    return kept


def main(folder, patterns):
    root = pathlib.Path(__file__).resolve().parents[2]
    program = pathlib.Path(os.environ.get("FLEXBUDGET_PROGRAM",
                                          root / "build/release/flexbudget")).resolve()
    environment = environment_of(program, root)
    passed = failed = 0
    for path in sorted(pathlib.Path(folder).glob("*.case")):
        if patterns and not any(p in path.stem for p in patterns):
            continue
        if "/tsan/" in str(program) and path.read_text().startswith("# slow"):
            print(f"skip: {path.stem} takes minutes under ThreadSanitizer")
            continue
        report = run_case(path, environment)
        passed += not report
        failed += bool(report)
        for text in report:
            print(f"FAILED {path.name}\n{text}\n")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(__file__).resolve().parent / "cases", sys.argv[1:]))
