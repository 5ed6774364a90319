#!/usr/bin/env python3
"""run_plan.py - what a dry run says of memory is what the run then measures, and what it says
of rules is what the run then counts; a run is refused for what a rule asks to see.

SPDX-License-Identifier: MIT
"""
import json
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from script import ENVIRONMENT, PROGRAM  # noqa: E402

RULES = "snapkv:window=16,h2o,adakv(keydiff),kvzip:piece=100,rkv,random,full,quantised,oracle"
ARGUMENTS = ["run", "--model", "builtin", "--tasks", "recall:samples=1,tokens=900,pairs=20",
             "--budgets", "25%", "-j", "2", "-q", "--compute", "report"]
PART = 0.02


def call(folder, *more, code=0, rules=RULES):
    done = subprocess.run([PROGRAM, *ARGUMENTS, "--rules", rules, *more], cwd=folder, env=ENVIRONMENT, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == code, f"{more}: exit code {done.returncode}\n{done.stderr}"
    return done


def plan(folder, *more):
    return json.loads(call(folder, "--dry-run", "--json", *more).stdout)["longest"]


def prices(text, rule):
    """The cells of a rule under `extra FLOPs` and `fused`."""
    rows = text[re.search(r"^ *rule .*extra FLOPs +fused$", text, re.M).end():]
    return re.split(" {2,}", re.search(rf"^ *{re.escape(rule)} .*$", rows, re.M)[0])[-2:]


def check_prices(folder, file, told, text):
    """The plan's numbers are those of the run, and read as `compare` writes them."""
    compare = [PROGRAM, "compare", file]
    shown = subprocess.run(compare, cwd=folder, env=ENVIRONMENT, text=True, capture_output=True, check=True).stdout
    listed = subprocess.run([*compare, "--json"], cwd=folder, env=ENVIRONMENT, text=True, capture_output=True, check=True)
    rows = {row["rule"]: row for row in json.loads(listed.stdout)["tables"][0]["rows"]}
    assert len(rows) == len(told["rules"]), (rows.keys(), told["rules"])
    for rule in told["rules"]:
        name = rule["rule"]
        for price in ("extra_flops", "fused_flops"):
            assert rule[price] == rows[name][price], (name, price, rule[price], rows[name][price])
        assert prices(text, name) == prices(shown, name), (name, text, shown)
    assert any(rule["fused_flops"] != rule["extra_flops"] for rule in told["rules"])


def check_stream(folder):
    """Shares are of the plain pass with a full cache, also where no cell has one."""
    more = ["--protocol", "stream", "--chunk", "32"]
    rules = "snapkv:window=16,h2o,rkv,knorm,random"
    told = json.loads(call(folder, "--dry-run", "--json", *more, rules=rules).stdout)["longest"]
    text = call(folder, "--dry-run", *more, rules=rules).stdout
    call(folder, "-o", "s.db", *more, rules=rules)
    check_prices(folder, "s.db", told, text)
    with sqlite3.connect(pathlib.Path(folder) / "s.db") as db:
        assert db.execute("select distinct plain_flops from cell").fetchall() == [(told["plain_flops"],)]


def check_run(folder):
    told, text = plan(folder), call(folder, "--dry-run").stdout
    call(folder, "-o", "r.db")
    check_prices(folder, "r.db", told, text)
    with sqlite3.connect(pathlib.Path(folder) / "r.db") as db:
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
