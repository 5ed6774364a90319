#!/usr/bin/env python3
"""run_sinks.py - D03: the last 64 tokens alone, and with the first four before them.

Without the first tokens the loss jumps, and the report says which rows lost them; with them it
comes back to that of the full cache. SPDX-License-Identifier: MIT
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
MARK = "recency: 4 cells lost the first token"


def run(path, protect, budget):
    subprocess.run([PROGRAM, "run", "-q", "--model", MODEL, "--tasks",
                    "continuation:length=300,samples=4", "--rules", "full,recency,random",
                    "--budgets", budget, "--protect", protect, "-o", path],
                   env=ENVIRONMENT, check=True, capture_output=True, timeout=400)
    words = subprocess.run([PROGRAM, "compare", path], env=ENVIRONMENT, check=True, text=True,
                           capture_output=True).stdout
    with sqlite3.connect(path) as db:
        nll = dict(db.execute(
            "select rule.label, avg(value) from score join cell on cell.id = cell_id"
            " join rule on rule.id = rule_id where metric = 'nll' group by 1").fetchall())
    return nll, words


def main():
    with tempfile.TemporaryDirectory() as folder:
        without, flagged = run(f"{folder}/without.db", "none", "64t")
        with_sinks, plain = run(f"{folder}/with.db", "4+0", "68t")
    lost, kept = without["recency"] - without["full"], with_sinks["recency"] - with_sinks["full"]
    print(f"nats a token above the full cache: {lost:.2f} without the first four, {kept:.2f} with")
    assert lost > 1 and kept < lost / 4
    assert MARK in flagged and "lost the first token" not in plain
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
