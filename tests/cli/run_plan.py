#!/usr/bin/env python3
"""run_plan.py - what a dry run says of memory is what the run then measures, and what it says
of rules is what the run then counts; a run is refused for what a rule asks to see.

SPDX-License-Identifier: MIT
"""
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from script import ENVIRONMENT, PROGRAM  # noqa: E402

RULES = "snapkv:window=16,h2o,adakv(keydiff),kvzip:piece=100,rkv"
ARGUMENTS = ["run", "--model", "builtin", "--tasks", "recall:samples=1,tokens=900,pairs=20",
             "--budgets", "25%", "-j", "2", "-q"]
PART = 0.02


def call(folder, *more, code=0, rules=RULES):
    done = subprocess.run([PROGRAM, *ARGUMENTS, "--rules", rules, *more], cwd=folder, env=ENVIRONMENT, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == code, f"{more}: exit code {done.returncode}\n{done.stderr}"
    return done


def plan(folder, *more):
    return json.loads(call(folder, "--dry-run", "--json", *more).stdout)["longest"]


def check_work(db, rule):
    """Work of signals, scores and selection, as a part of the plain pass, at both prices."""
    work = db.execute(
        "select sum(flops) from ledger join cell on cell.id = cell_id join rule on rule.id = "
        "rule_id where rule.label = ? and scope in ('signal', 'score', 'select')",
        (rule["rule"],)).fetchone()[0]
    plain, fused = db.execute(
        "select sum(plain_flops), sum(fused_flops) from cell join rule on rule.id = rule_id "
        "where rule.label = ?", (rule["rule"],)).fetchone()
    extra = work or 0
    assert abs(rule["extra"] - extra / plain) <= 1e-8 * extra / plain, (rule, extra / plain)
    assert abs(rule["fused"] - fused / plain) <= 1e-8 * fused / plain, (rule, fused / plain)


def check_stream(folder):
    """What a stream reads with is smaller than the full cache, whose pass the share is of."""
    more = ["--protocol", "stream", "--chunk", "32"]
    rules = "full,snapkv:window=16,h2o,rkv,knorm"
    told = json.loads(call(folder, "--dry-run", "--json", *more, rules=rules).stdout)["longest"]
    call(folder, "-o", "s.db", *more, rules=rules)
    with sqlite3.connect(pathlib.Path(folder) / "s.db") as db:
        assert len(told["rules"]) == 5
        for rule in told["rules"]:
            check_work(db, rule)
        read = db.execute(
            "select rule.label = 'full', plain_flops, sum(flops) from ledger join cell on cell.id = "
            "cell_id join rule on rule.id = rule_id where phase = 'context' and scope in "
            "('model', 'attention') group by cell.id").fetchall()
    assert len({plain for _, plain, _ in read}) == 1
    for is_full, plain, own in read:
        assert own == plain if is_full else own < plain


def check_run(folder):
    told = plan(folder)
    call(folder, "-o", "r.db")
    with sqlite3.connect(pathlib.Path(folder) / "r.db") as db:
        assert len(told["rules"]) == 5
        for rule in told["rules"]:
            check_work(db, rule)
        # a rule that reads the context again holds more: the plan has the most of any cell
        measured = db.execute("select account, max(peak_bytes) from memory where phase = "
                              "'context' and account != 'other' group by account").fetchall()
    assert len(measured) == 5
    for account, ran in measured:
        said = told["peak_bytes"]["prefill"][account]
        assert abs(said - ran) <= PART * ran, (account, said, ran)


def check_refusal(folder):
    """rkv compares all keys with all: what it works in counts as well."""
    most = int(plan(folder)["peak_bytes"]["prefill"]["scratch"])
    done = call(folder, "--memory", str(most // 2), "--dry-run", code=2)
    assert "a context of 900 tokens needs" in done.stderr, done.stderr
    call(folder, "--memory", str(most // 2), "--dry-run", rules="knorm")


with tempfile.TemporaryDirectory() as temporary:
    check_run(temporary)
    check_stream(temporary)
    check_refusal(temporary)
print("3 passed, 0 failed")
sys.exit(0)
