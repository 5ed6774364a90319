#!/usr/bin/env python3
"""parity.py - a fresh run of kvpress against ours on small random models.

    parity.py KEEP PROGRAM FOLDER [PART]

KEEP is the program of keep.c, PROGRAM flexbudget, which says what rules there are. Prints a
table of rules by models and lengths, over all ratios, and writes models and findings into
FOLDER: kept.npz (bits of what the presses kept), findings.json. PART: only rules whose
expression contains it. With UPDATE=1 in the environment the table in docs/PARITY.md is made
anew. The exit status is 1 if a set is wrong.

SPDX-License-Identifier: MIT
"""
import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1", TQDM_DISABLE="1")

import numpy as np
import torch
import transformers

import compare
import models
from pairs import DECISIONS, DELIBERATE, NOT_COMPARED, PAIRS, unknown_presses
from peer import Peer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "PARITY.md"
LENGTHS = [65, 100, 257, 1000]
KEEP_PERCENT = [10, 25, 50, 75, 90]
NAMES = re.compile(r"(?:^|[(,])([a-z_]+)(?=[(:,)]|$)")
REFUSED, NOTHING = "refused", compare.Finding()


def ratio_of(percent):
    return (100 - percent) / 100


class Table:
    """Rows by models and lengths; a cell is what was found at all ratios."""

    def __init__(self):
        self.rows, self.cells, self.count = {}, {}, {}

    def add(self, row, press, column, found):
        self.rows.setdefault(row, press)
        self.cells.setdefault((row, column), []).append(found)
        kind = kind_of(found)
        self.count[kind] = self.count.get(kind, 0) + 1

    def cell(self, row, column):
        found = self.cells.get((row, column), [])
        real = [f for f in found if f != REFUSED]
        wrong, near = sum(f.wrong for f in real), sum(f.near for f in real)
        decisions = sorted({f.decision for f in real if f.decision})
        if wrong:
            return f"X{wrong}"
        if decisions:
            return decisions[0]
        if near:
            return f"~{near}"
        if any(f.ties for f in real):
            return "t"
        return "=" if real else "-" if found else ""

    def print(self):
        columns = [(models.name_of(s), n) for s in models.SHAPES for n in LENGTHS]
        width = max(map(len, self.rows))
        print(f"{'query/kv heads':<{width}}" +
              "".join(f"  {models.name_of(s):<{6 * len(LENGTHS) - 2}}" for s in models.SHAPES).rstrip())
        print(f"{'tokens':<{width}}" + "".join(f"{n:>6}" for _, n in columns))
        for row in self.rows:
            print(f"{row:<{width}}" + "".join(f"{self.cell(row, c):>6}" for c in columns))


def kind_of(found):
    if found == REFUSED:
        return REFUSED
    return ("wrong" if found.wrong else "deliberate" if found.decision else "near" if found.near
            else "ties" if found.ties else "equal")


def built_rules(program):
    listed = json.loads(subprocess.run([program, "rules", "--json"], check=True, text=True,
                                       capture_output=True).stdout)
    return {rule["name"] for rule in listed["rules"]}


class Case:
    """A row at a length and a share; `outcome` is what the press made of it."""

    def __init__(self, row, n, percent, outcome):
        self.row, self.n, self.percent, self.outcome = row, n, percent, outcome
        self.ratio = ratio_of(percent)
        self.rule = row.rule_at(self.ratio)

    def budget(self):
        if self.row.count:
            kept = self.outcome.kept
            return f"{kept.sum() // (kept.shape[0] * kept.shape[1])}t"
        return f"{self.percent}%"

    def line(self):
        return f"{self.n} {self.row.what} {self.row.rounding} {self.budget()} {self.rule}\n"

    def order(self):
        return self.n, self.row.what == "compact", self.rule


def ask_ours(keep, folder, cases):
    """Of each case our kept set, whether it shrunk, and the rest of the file of entries."""
    cases.sort(key=Case.order)
    done = subprocess.run([keep, folder, folder / "entries.bin"], text=True, capture_output=True,
                          input="".join(case.line() for case in cases))
    if done.returncode != 0:
        sys.exit(f"parity: {done.stderr}")
    numbers = np.fromfile(folder / "entries.bin", np.float32)
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        _, flags, *slots = line.split()
        bits = np.stack([np.frombuffer(bytes.fromhex(slot), np.uint8) for slot in slots])
        case.ours = np.unpackbits(bits, axis=-1, bitorder="little")[:, :case.n].astype(bool)
        case.ours = case.ours.reshape(case.outcome.kept.shape)
        case.is_shrunk = "s" in flags
        if case.row.what != "set":
            size = 2 * int(case.ours.sum()) * case.outcome.cache.layers[0].keys.shape[-1]
            case.numbers, numbers = numbers[:size], numbers[size:]


def find(case, peer):
    row = case.row
    if row.decision:
        same = (case.ours == case.outcome.kept).all()
        return NOTHING if same else compare.Finding(decision=row.decision)
    flips = None

    def lazily():
        nonlocal flips
        if flips is None:
            flips = peer.flips(row, case.n, case.ratio, case.outcome.kept)
        return flips

    is_whole = case.n * case.percent % 100 == 0
    found = compare.sets(row, case.outcome, case.ours, case.is_shrunk, is_whole, lazily)
    if case.row.what != "set" and not (found.ties or found.near or found.wrong):
        apart = compare.rows_apart(case.outcome, case.numbers)
        near = apart & peer.shaken(row, case.n, case.ratio, case.outcome) if apart.any() else apart
        found.near, found.wrong = int(near.sum()), int((apart & ~near).sum())
    return found


def run_model(number, shape, rows, keep, folder, table, findings):
    print(f"model {models.name_of(shape)} ...", file=sys.stderr, flush=True)
    path = folder / models.name_of(shape).replace("/", "_")
    peer = Peer(*models.make(path, shape, seed=number + 1))
    cases, seen = [], {}
    for n in LENGTHS:
        for percent in KEEP_PERCENT:
            for row in rows:
                key = f"{row.press} {n} {percent}%"
                if key not in seen:
                    seen[key] = peer.run(row, n, ratio_of(percent))
                cases.append(Case(row, n, percent, seen[key]))
    np.savez_compressed(path / "kept.npz", **{
        key: np.packbits(out.kept, axis=-1, bitorder="little") for key, out in seen.items() if out})
    asked = [case for case in cases if case.outcome is not None]
    ask_ours(keep, path, asked)
    for case in cases:
        found = find(case, peer) if case.outcome is not None else REFUSED
        table.add(case.row.label(), str(case.row.press), (models.name_of(shape), case.n), found)
        if found != REFUSED:
            findings.append({"model": models.name_of(shape), "press": str(case.row.press), "rule": case.rule,
                             "n": case.n, "keep": f"{case.percent}%", **found.as_json()})


def print_words(table, findings, missing):
    """What the cells mean, which press a row is, and what is in no row."""
    shares = ", ".join(f"{p}%" for p in KEEP_PERCENT)
    print(f"""
=     the same entries, in every layer and head, at {shares} kept
t     the same but for entries of equal score, any of which the press may take
~k    the same but for k entries of nearly equal score
X k   k other entries: wrong
-     the press refuses a text so short""")
    for decision in sorted({f["decision"] for f in findings if "decision" in f}):
        print(f"{decision:<5} {DECISIONS[decision]}")
    width = max(map(len, table.rows))
    print(f"\n{'rule':<{width}}  press")
    for row, press in table.rows.items():
        print(f"{row:<{width}}  {press}")
    print()
    for row in missing:
        print(f"not built: {row.rule}, for {row.press}")
    reasons = {**NOT_COMPARED, **{name: "nothing is known of it" for name in unknown_presses()}}
    for reason in dict.fromkeys(reasons.values()):
        named = ", ".join(name.removesuffix("Press") for name, why in reasons.items() if why == reason)
        print(f"not compared: {named}: {reason}")


def update_page(text):
    start, end = "## The table\n\n```\n", "```\n"
    before, rest = PAGE.read_text().split(start)
    PAGE.write_text(before + start + text.rstrip() + "\n" + end + rest.split(end, 1)[1])


def report(table, findings, missing, is_whole):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        table.print()
        print_words(table, findings, missing)
    print(shown.getvalue())
    if os.environ.get("UPDATE") and is_whole:
        update_page(shown.getvalue())
    kinds = ("equal", "ties", "near", "deliberate", "refused", "wrong")
    print("parity: " + " ".join(f"{kind}={table.count.get(kind, 0)}" for kind in kinds) +
          f" not_built={len(missing)}")


def main():
    keep, program, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    part = sys.argv[4] if len(sys.argv) > 4 else ""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = built_rules(program)
    rows = [row for row in PAIRS + DELIBERATE if part in row.rule]
    missing = [row for row in rows if not set(NAMES.findall(row.rule)) <= names]
    rows = [row for row in rows if row not in missing]
    table, findings = Table(), []
    for number, shape in enumerate(models.SHAPES):
        run_model(number, shape, rows, keep, folder, table, findings)
    (folder / "findings.json").write_text("[\n" + ",\n".join(map(json.dumps, findings)) + "\n]\n")
    report(table, findings, missing, is_whole=not part)
    return 1 if table.count.get("wrong") else 0


if __name__ == "__main__":
    sys.exit(main())
