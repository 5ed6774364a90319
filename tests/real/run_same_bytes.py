#!/usr/bin/env python3
"""run_same_bytes.py - the real model gives one digest, however it is computed.

A small piece of the default experiment with one thread and two, with AVX2 in place of AVX-512,
in 1 GiB and in 8, twice, alone and in a sweep. SPDX-License-Identifier: MIT
"""
import os
import pathlib
import sqlite3
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FLEXBUDGET_PROGRAM", str(ROOT / "build/release/flexbudget"))
MODEL = os.environ["FLEXBUDGET_TEST_MODEL"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("FLEXBUDGET_")}
ARGUMENTS = ["run", "-q", "--model", MODEL, "--tasks",
             "needle:length=300,samples=1,continuation:length=300,samples=1",
             "--rules", "full,random,oracle,snapkv:window=16,h2o,keydiff,adakv(snapkv:window=16)",
             "--budgets", "50%,20%"]


def run(path, *options):
    done = subprocess.run([PROGRAM, *ARGUMENTS, "-o", str(path), *options], env=ENVIRONMENT,
                          text=True, capture_output=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(x.split()[1] for x in done.stdout.splitlines() if x.startswith("digest"))


def cells(path):
    with sqlite3.connect(path) as db:
        return dict(db.execute(
            "select sample.key || ' ' || task.name || ' ' || rule.label || ' ' || budget.asked,"
            " cell.digest from cell join sample on sample.id = sample_id"
            " join task on task.id = task_id join rule on rule.id = rule_id"
            " join budget on budget.id = budget_id").fetchall())


def main():
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return pathlib.Path(folder, name + ".db")

        want = run(path("want"))
        ways = {"again": [], "one-thread": ["-j", "1"], "two-threads": ["-j", "2"],
                "1GiB": ["--memory", "1GiB"], "8GiB": ["--memory", "8GiB"]}
        if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
            ways["avx2"] = ["--isa", "avx2"]
        for name, options in ways.items():
            got = run(path(name), *options)
            assert got == want, f"{name}: {got}, expected {want}"
            print(f"{name}: digest equal")
            passed += 1
        sweep = cells(path("want"))
        run(path("alone"), "--only", "rule=adakv(snapkv:window=16),budget=20%")
        alone = cells(path("alone"))
        assert alone and all(sweep[k] == v for k, v in alone.items())
        print(f"alone: {len(alone)} cells equal those of the sweep")
        passed += 1
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
