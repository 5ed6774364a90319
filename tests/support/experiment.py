"""experiment.py - runs a small experiment on the built-in model, and reads its results.

Shared by the scripts of tests/fail. SPDX-License-Identifier: MIT
"""
import sqlite3
import subprocess

from script import ENVIRONMENT, PROGRAM, ROOT

# teacher-forced answers, and free ones that are scored as text
TASKS = f"recall:samples=6,tokens=131,pairs=20,jsonl:data={ROOT}/tests/fail/data/answers.jsonl"
ARGUMENTS = ["run", "--model", "builtin", "--tasks", TASKS,
             "--rules", "full,random,oracle,snapkv:window=16,h2o,keydiff,"
                        "adakv(snapkv:window=16)",
             "--budgets", "50%,25%", "--seeds", "1,2", "--protect", "1+8"]


def command(path, *more):
    return [PROGRAM, *ARGUMENTS, "-o", str(path), *more]


def run(path, *more, code=0):
    """Runs to the end; what it printed."""
    done = subprocess.run(command(path, "-q", *more), env=ENVIRONMENT, text=True,
                          capture_output=True, timeout=300)
    if done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}, expected {code}:\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def digest(text):
    """The digest that a run printed."""
    return [line.split()[1] for line in text.splitlines() if line.startswith("digest")][0]


def cells(path):
    """Digest of each finished cell by (sample, rule, budget, seed)."""
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "select task.name || '/' || sample.key, rule.label, budget.asked, cell.seed, "
            "cell.digest "
            "from cell join sample on sample.id = sample_id join task on task.id = task_id "
            "join rule on rule.id = rule_id "
            "join budget on budget.id = budget_id where status = 'done'").fetchall()
    found = {row[:4]: row[4] for row in rows}
    assert len(found) == len(rows), "a cell is stored twice"
    return found
