#!/usr/bin/env python3
"""run_tests.py - runs test programs, shows what failed, and counts.

    tools/run_tests.py [--timeout SECONDS] [--jobs N] PROGRAM...

A program is one of
  - a cmocka program: its lines "[       OK ] name", "[  FAILED  ] name" and
    "[  SKIPPED ] name" are counted; a test prints "skip: why" before it calls skip();
  - anything else, .py and .sh included: a last line "N passed, N failed" is counted,
    without one the exit status is (0 passed, 77 skipped, the last line says why).

Whatever ends by a signal, runs too long, or fails without saying which test has one
more failure. A program in which nothing ran has failed. The output of a program that
failed is shown whole. The very last line is "N passed, N failed"; skipped tests and
their reasons stand on the line before. Exit status 1 if anything failed or nothing ran.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

CMOCKA = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+)", re.M)
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$")
SKIP = re.compile(r"^skip: (.*)$", re.M)
MOST_SHOWN = 200_000  # bytes of one program's output


class Result:
    def __init__(self, program):
        self.program = program
        self.passed = self.failed = self.skipped = 0
        self.reasons = []
        self.output = ""
        self.note = ""
        self.seconds = 0.0


def command_of(program):
    if program.endswith(".py"):
        return [sys.executable, program]
    if program.endswith(".sh"):
        return ["bash", program]
    return [program if os.sep in program else os.path.join(".", program)]


def run(program, timeout):
    """Output and exit status; None for one that ran too long."""
    child = subprocess.Popen(command_of(program), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             start_new_session=True)
    try:
        output, _ = child.communicate(timeout=timeout)
        status = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # and what it has started
        output, _ = child.communicate()
        status = None
    return output.decode("utf-8", "replace"), status


def count_cmocka(result):
    """Names are listed again at the end, so only what answers a RUN counts."""
    running = None
    for kind, name in CMOCKA.findall(result.output):
        if kind == "RUN":
            running = name
        elif name == running:
            running = None
            result.passed += kind == "OK"
            result.failed += kind == "FAILED"
            result.skipped += kind == "SKIPPED"


def count(result, status):
    lines = result.output.rstrip("\n").split("\n")
    counts = COUNTS.match(lines[-1])
    if counts:
        result.passed, result.failed = int(counts.group(1)), int(counts.group(2))
        result.reasons = SKIP.findall(result.output)
        result.skipped = len(result.reasons)
    elif CMOCKA.search(result.output) or "[==========]" in result.output:
        count_cmocka(result)
        result.reasons = SKIP.findall(result.output)
    elif status == 77:
        result.skipped = 1
        result.reasons = [lines[-1].removeprefix("skip: ")] if lines[-1] else []
    else:
        result.passed = int(status == 0)
        result.failed = int(status is not None and status > 0)


def judge(result, status, timeout):
    """Adds the failures that no line of the output names."""
    if status is None:
        result.note = f"stopped after {timeout} seconds"
    elif status < 0:
        result.note = f"ended by {signal.Signals(-status).name}"
    elif status not in (0, 77) and result.failed == 0:
        result.note = f"exit status {status}"
    elif result.passed + result.failed + result.skipped == 0:
        result.note = "nothing ran"
    elif result.skipped > len(result.reasons):
        result.note = "skipped without a reason; print 'skip: why' first"
    if result.note:
        result.failed += 1


def test(program, timeout):
    result = Result(program)
    start = time.monotonic()
    try:
        result.output, status = run(program, timeout)
    except OSError as error:
        result.output, status = str(error), 1
    result.seconds = time.monotonic() - start
    count(result, status)
    judge(result, status, timeout)
    return result


def show(result):
    counts = f"{result.passed} passed"
    if result.failed:
        counts += f", {result.failed} failed"
    if result.skipped:
        counts += f", {result.skipped} skipped"
    name = re.sub(r"^build/[^/]+/", "", result.program)
    if result.failed:
        print(f"--- {name}: what it printed")
        print(result.output[-MOST_SHOWN:].rstrip("\n"))
        print(f"--- {name}: {result.note or 'failed'}")
    print(f"{name:<44} {counts}  ({result.seconds:.1f} s)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda p: test(p, options.timeout), options.programs):
            show(result)
            results.append(result)
    passed = sum(r.passed for r in results)
    failed = sum(r.failed for r in results)
    skipped = sum(r.skipped for r in results)
    if failed:
        print("failed in: " + ", ".join(r.program for r in results if r.failed))
    if skipped:
        reasons = sorted({reason for r in results for reason in r.reasons})
        print(f"{skipped} skipped: " + "; ".join(reasons))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
