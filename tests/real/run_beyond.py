#!/usr/bin/env python3
"""run_beyond.py - a text beyond the length that a model was trained for, under a budget within it.

What is computed does not depend on the length that the model's file claims: a copy of the model
that claims 512 tokens gives the numbers of the model itself, and says that its full cache stands
beyond. With FLEXBUDGET_TEST_LONG=1 also a text of 9,600 tokens under the model's own 8,192, of
which 1,024 entries hold as much for the next words as they do of a shorter one.

SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import sqlite3
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FLEXBUDGET_PROGRAM", str(ROOT / "build/release/flexbudget"))
MODEL = pathlib.Path(os.environ["FLEXBUDGET_TEST_MODEL"]).resolve()
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("FLEXBUDGET_")}
TEXT = (ROOT / "data/texts/us_founding_documents.txt").read_text()
LENGTH = b"llama.context_length" + struct.pack("<I", 4)
MARK = "full: 1 cell stood beyond the length that the model was trained for"


def copy_that_claims(length, path):
    data = MODEL.read_bytes()
    at = data.index(LENGTH) + len(LENGTH)
    path.write_bytes(data[:at] + struct.pack("<I", length) + data[at + 4:])


def record(folder, n, answer):
    path = folder / f"{n}.jsonl"
    path.write_text(json.dumps({"key": "a", "context": TEXT[:n], "question": "",
                                "answer": TEXT[n:n + answer]}))
    return path


def run(model, data, rules, budget, chunk):
    path = data.with_name(f"{model.name}-{data.name}.db")
    subprocess.run([PROGRAM, "run", "-q", "-m", str(model), "--tasks",
                    f"jsonl:data={data},metric=nll", "--rules", rules, "--budgets", budget,
                    "--protocol", "stream", "--chunk", str(chunk), "--interval", "0",
                    "--positions", "compact", "--template", "none", "-o", str(path)],
                   env=ENVIRONMENT, check=True, capture_output=True, timeout=1200)
    words = subprocess.run([PROGRAM, "compare", str(path)], env=ENVIRONMENT, check=True,
                           text=True, capture_output=True).stdout
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "select rule.label, metric, value, kept_sha256, context_tokens, cut_tokens"
            " from score join cell on cell.id = cell_id join rule on rule.id = rule_id"
            " join sample on sample.id = sample_id order by 1, 2").fetchall()
    return rows, words


def nll(rows, rule):
    return next(r[2] for r in rows if r[0] == rule and r[1] == "nll")


def check_claims(folder):
    short = folder / "claims512.gguf"
    copy_that_claims(512, short)
    data = record(folder, 3000, 200)
    own, plain = run(MODEL, data, "full,streaming_llm,knorm", "128t", 32)
    claimed, marked = run(short, data, "full,streaming_llm,knorm", "128t", 32)
    assert own == claimed
    assert own[0][4] > 600 and own[0][5] == 0
    assert MARK in marked and MARK not in plain


def check_own_length(folder):
    rows, words = run(MODEL, record(folder, 41000, 400), "full,streaming_llm", "1024t", 256)
    full, recent = nll(rows, "full"), nll(rows, "streaming_llm")
    print(f"nats a token after {rows[0][4]} tokens: {full:.2f} full, {recent:.2f} recent")
    assert rows[0][4] > 8300 and rows[0][5] == 0 and MARK in words
    assert recent < 2 and abs(recent - full) < 0.2  # 1.36 and 1.35


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_claims(pathlib.Path(folder))
        if os.environ.get("FLEXBUDGET_TEST_LONG") == "1":
            check_own_length(pathlib.Path(folder))
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
