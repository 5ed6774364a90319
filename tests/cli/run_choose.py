#!/usr/bin/env python3
"""run_choose.py - every number of `choose` is in the database, or one of `compare`.

Candidates of --json are held against the rows of `compare --json` and against SQL; each
number of the text against all of these, written as the program writes them.
SPDX-License-Identifier: MIT
"""
import decimal
import json
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from script import ENVIRONMENT, PROGRAM, run_tests  # noqa: E402

RULES = "full,random,oracle,snapkv:window=16,h2o,knorm,quantised:bits=4,reread"
TASKS = "recall:filler=inert,samples=12,recall:samples=12"
PROFILE = {"format": 1, "name": "a device", "flops_per_s": 1e9, "bytes_per_s": 2e8}
LIMITS = [["--lose", "0.5"], ["--lose", "4", "--by", "mean"],
          ["--kv-memory", "100KiB", "--resident"], ["--kv-memory", "300KiB", "--extra-compute", "1"],
          ["--extra-compute", "3", "--profile", "device.json", "--answer-time", "1.5"],
          ["--profile", "device.json", "--answer-time", "0.9"],
          ["--profile", "device.json", "--answer-time", "0.0123"], ["--profile", "device.json", "--lose", "9",
                                                                    "--answer-time", "34.5"],
          ["--kv-memory", "10KiB", "--resident"], ["--lose", "0.001", "--only", "rule=knorm"]]
ROW = ["mean", "low", "high", "lost", "lost_low", "lost_high", "share", "share_low", "share_high"]

COSTS = """
SELECT task.params, rule.label, budget.asked, max(cell.kept_bytes), max(cell.peak_bytes),
       max(cell.tail_bytes), avg(cell.fused_flops / cell.plain_flops), avg(cell.step_flops),
       avg(cell.step_bytes)
FROM cell JOIN rule ON rule.id = rule_id JOIN budget ON budget.id = budget_id
JOIN sample ON sample.id = sample_id JOIN task ON task.id = task_id
GROUP BY task.id, rule.id, budget.id
"""


def program(folder, *words, code=0):
    done = subprocess.run([PROGRAM, *words], env=ENVIRONMENT, capture_output=True, cwd=folder,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), \
        (words, done.returncode, done.stderr.decode())
    return done.stdout.decode()


class Truth:
    """What compare and the database say, by (task, rule, budget); budget None: no budget."""

    def __init__(self, folder):
        compared = json.loads(program(folder, "compare", "r.db", "--json"))
        self.rows = {(t["task"], row["rule"], t["budget"]): row
                     for t in compared["tables"] for row in t["rows"]}
        self.tasks = sorted({t["task"] for t in compared["tables"]})
        self.costs = {}
        with sqlite3.connect(f"file:{folder}/r.db?mode=ro", uri=True) as db:
            for params, label, asked, *numbers in db.execute(COSTS):
                inert = json.loads(params)["filler"] == "inert"
                task = next(t for t in self.tasks if ("inert" in t) == inert)
                self.costs[task, label, None if asked == "full" else asked] = numbers

    def row(self, task, rule, budget):
        return self.rows[task, rule, budget or "25%"]


def near(a, b):
    return (a is None) == (b is None) and (a is None or abs(a - b) <= 1e-12 * max(1, abs(a), abs(b)))


def check_candidate(truth, c):
    costs = [truth.costs[task, c["rule"], c["budget"]] for task in truth.tasks]
    for key, column in (("held_bytes", 0), ("peak_bytes", 1), ("tail_bytes", 2)):
        assert c[key] == max(cost[column] for cost in costs), (key, c)
    if c["fate"] != "looks ahead":
        assert near(c["fused_flops"], max(cost[3] for cost in costs)), c
    if c["token_seconds"] is not None:
        assert near(c["token_seconds"],
                    max(max(cost[4] / PROFILE["flops_per_s"], cost[5] / PROFILE["bytes_per_s"])
                        for cost in costs)), c
    for own in c["tasks"]:
        row = truth.row(own["task"], c["rule"], c["budget"])
        assert all(own[key] == row[key] for key in ROW), (own, row)


def plain(value, digits):
    text = f"{abs(value):.{digits}f}"
    return ("\u2212" if value < 0 and float(text) != 0 else "") + text


def in_bytes(value):
    units = ["B", "KiB", "MiB", "GiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{plain(value, 0 if units[0] == 'B' or value >= 100 else 1)} {units[0]}"


def in_ms(value):
    """docs/CHOOSE.md: 12.3, 1.23, and below one millisecond three digits that count, 0.0123"""
    digits = 1 if value >= 10 else 2 if value >= 1 or value == 0 else 2 - decimal.Decimal(value).adjusted()
    return f"{plain(value, min(digits, 9))} ms"


def as_extra(share):
    return "0" if share <= 0 else "<+0.01 %" if share < 0.00005 else \
        f"+{plain(100 * share, 2 if share < 0.001 else 1)} %"


def written(c, limits):
    """Every way in which the text may write the numbers of a candidate and of the limits."""
    words = set()
    for key in "held_bytes", "peak_bytes":
        words.add(in_bytes(c[key]))
        if limits["kv_memory"] is not None:
            words |= {in_bytes(limits["kv_memory"]), in_bytes(abs(c[key] - limits["kv_memory"]))}
    words.add(as_extra(c["fused_flops"] or 0))
    words.add(as_extra(limits["extra_compute"] or 0))
    if c["token_seconds"] is not None:
        for seconds in (c["token_seconds"], limits["answer_seconds"],
                        abs(c["token_seconds"] - limits["answer_seconds"])):
            words.add(in_ms(1000 * seconds))
    for task in c["tasks"]:
        for key in ROW:
            if task[key] is not None:
                values = [task[key], limits["lose"] or 0, abs(task[key] - (limits["lose"] or 0))]
                words |= {plain(value, digits) for value in values for digits in (1, 2, 3)}
    return words | {f"{word} nat" for word in words}


# What has digits and is no measured number: names, budgets, counts of rules.
NAMES = re.compile(r"snapkv:window=16|quantised:bits=4|h2o| at \d+ %|\d+ more|\d+ of the \d+ rules|"
                   r"(?<=least quality, )[\d.]+ lost")
NUMBER = re.compile(r"(?:<?[+\u2212])?\d[\d.]*(?: (?:KiB|MiB|B|%|ms|nat)\b| %)?")


def check_text(text, choice):
    lines = " ".join(text.split("\n\nquality by")[0].split("\n"))
    lines = NAMES.sub("", re.sub(r"(in kvpress|next): .*", "", lines))
    words = set().union(*(written(c, choice["limits"]) for c in choice["candidates"]))
    numbers = NUMBER.findall(lines)
    assert len(numbers) >= 3, text
    for number in numbers:
        assert number in words, f"{number} is nowhere else\n{text}"


def test_numbers_are_those_of_compare_and_the_database(folder):
    """all candidates of every choice, and the words about them"""
    truth = Truth(folder)
    fates = set()
    for limits in LIMITS:
        choice = json.loads(program(folder, "choose", "r.db", "--json", *limits, code=(0, 3)))
        text = program(folder, "choose", "r.db", *limits,
                       code=3 if choice["chosen"] is None else 0)
        for c in choice["candidates"]:
            check_candidate(truth, c)
            fates.add(c["fate"])
        check_text(text, choice)
        name = choice["candidates"][choice["nearest"] if choice["chosen"] is None
                                    else choice["chosen"]]["rule"]
        assert re.search(rf"^(Use|Nothing fits\. Nearest is) {re.escape(name)}\b", text), text
    assert {"chosen", "fits", "over a limit", "below the least quality", "looks ahead"} <= fates, fates


def test_the_choice_follows_from_the_numbers(folder):
    """the limits and the order, worked out again from the rows of compare"""
    truth = Truth(folder)
    for limit in (70, 100, 300):
        choice = json.loads(program(folder, "choose", "r.db", "--json", "--kv-memory",
                                    f"{limit}KiB", "--resident", code=(0, 3)))
        within = [(max(truth.row(task, rule, budget)["lost_high"] for task in truth.tasks), rule, budget)
                  for (_, rule, budget), cost in truth.costs.items()
                  if rule not in ("oracle", "quantised:bits=4") and cost[0] <= limit * 1024]
        best = choice["candidates"][choice["best"]]
        assert (best["rule"], best["budget"]) == min(within, key=lambda w: w[0])[1:] or \
            max(t["lost_high"] for t in best["tasks"]) == min(within, key=lambda w: w[0])[0]
        assert {(c["rule"], c["budget"]) for c in choice["candidates"]
                if c["fate"] in ("chosen", "fits", "as good", "not told apart")} == \
            {(rule, budget) for _, rule, budget in within}


def test_the_press_and_the_command_work(folder):
    """the settings are those of `export peer`; the command is one"""
    choice = json.loads(program(folder, "choose", "r.db", "--json", "--lose", "30", "--only",
                                "rule=snapkv*"))
    peers = json.loads(program(folder, "export", "peer", "r.db", "--format", "json"))["rules"]
    calls = [b["call"] for rule in peers if rule["rule"] == "snapkv:window=16" for b in rule["budgets"]]
    assert choice["kvpress"] in calls, (choice["kvpress"], calls)
    notes = program(folder, "export", "peer", "r.db").split("\n\n", 2)[2].splitlines()
    assert choice["kvpress_notes"] == notes and "--protect published" in notes[0], choice
    command = choice["next"].replace("TEXT QUESTION", "--text 'some words to read, and more of them "
                                     "than sixteen tokens are' 'which?' --protect 1+1")
    done = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, check=False,
                          cwd=folder, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (command, done.stderr.decode())


def main():
    with tempfile.TemporaryDirectory() as folder:
        program(folder, "run", "--model", "builtin", "--tasks", TASKS, "--rules", RULES, "--budgets",
                "25%,50%", "-o", "r.db", "-q")
        pathlib.Path(folder, "device.json").write_text(json.dumps(PROFILE))
        return run_tests(globals(), folder)


if __name__ == "__main__":
    sys.exit(main())
