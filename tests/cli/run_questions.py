#!/usr/bin/env python3
"""run_questions.py - three questions on one document, whose variants are made once: every cell is
charged, and has the keys, values and state in memory, as if it had been run alone.

SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from script import ENVIRONMENT, PROGRAM  # noqa: E402

CONTEXT = "".join("abcdefghij0123456789"[i * i % 97 % 20] for i in range(300))
QUESTIONS = [("?a?", "0"), ("?bbbbbbbbbbbbbbbbb?", "12"), ("?c?", "abcdef")]
RULES = ["full", "random", "h2o", "snapkv:window=8"]
PROTOCOLS = ["prefill", "stream --chunk 8 --interval 0", "stream --chunk 8 --interval 4 --rescore new"]
OF_CELL = ("from {0} join cell on cell.id = cell_id join rule on rule.id = rule_id "
           "join budget on budget.id = budget_id join sample on sample.id = sample_id ")
LEDGER = "select key, label, asked, phase, scope, op, calls, flops, bytes " + OF_CELL.format("ledger")
MEMORY = ("select key, label, asked, phase, account, memory.peak_bytes " + OF_CELL.format("memory")
          + "where account in ('kv', 'rule_state')")


def run(folder, protocol, name, *more):
    done = subprocess.run(
        [PROGRAM, "run", "--model", "builtin", "--tasks", "jsonl:data=d.jsonl", "--rules", ",".join(RULES),
         "--budgets", "50%,25%", "--protect", "2+4", "--protocol", *protocol.split(), "-q", "-j", "2",
         "-o", name, *more], cwd=folder, env=ENVIRONMENT, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(pathlib.Path(folder) / name) as db:
        rows = [set(db.execute(sql)) for sql in (LEDGER, MEMORY)]
    (pathlib.Path(folder) / name).unlink()
    return rows


def check(folder, protocol):
    together = run(folder, protocol, "all.db")
    alone = [set(), set()]
    for key in range(len(QUESTIONS)):
        for rule in RULES:
            own = run(folder, protocol, "one.db", "--only", f"sample=jsonl/{key},rule={rule}")
            alone = [a | b for a, b in zip(alone, own)]
    for what, a, b in zip(("ledger", "memory"), together, alone):
        assert len(a) > 100 and a == b, (protocol, what, sorted(a ^ b)[:4])


# In memory, since every cell is a transaction on the disk.
with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as temporary:
    with open(pathlib.Path(temporary) / "d.jsonl", "w") as file:
        for number, (question, answer) in enumerate(QUESTIONS):
            file.write(json.dumps({"key": str(number), "context": CONTEXT, "question": question,
                                   "answer": answer}) + "\n")
    for words in PROTOCOLS:
        check(temporary, words)
print(f"{len(PROTOCOLS)} passed, 0 failed")
sys.exit(0)
