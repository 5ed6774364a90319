#!/usr/bin/env python3
"""rules.py - docs/RULES.md from what the program says of its rules.

    tools/rules.py [PROGRAM]             writes it; PROGRAM is build/release/flexbudget
    tools/rules.py [PROGRAM] --check     fails if it is not what would be written

SPDX-License-Identifier: MIT
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs/RULES.md"
HEAD = """# Rules

Made by `tools/rules.py` from what `flexbudget rules NAME` prints, compared by `make test`; not to be edited. The formula
of a rule, and what was decided where sources contradict each other, stands in the heading of its file,
`rules/NAME.c`. An expression is `name`, `name:key=value,...` or `wrapper(rule, key=value)`.

{n}: {scoring} rules (those of the family `reference` are rows to compare with), {wrappers} wrappers, {allocations} allocations, {controls} control, {edits} edit.

| rule | kind | family | what it keeps |
|---|---|---|---|
"""
PRESETS = """
## Names that stand for an expression

| name | expression | what it is |
|---|---|---|
"""

REFUSED = """
## Rules that are known and not offered

They need training or calibration, change the forward pass, or evict nothing; `flexbudget rules NAME` says the same.

| rule | why not | nearest here |
|---|---|---|
"""
PEERS = """
## Names of {title}

`{project}:NAME(argument=value, ...)` stands for an expression, `{{argument}}` being the value of an argument; {example}.
A value in brackets is the only one there is. The budget is the experiment's. What the project sets besides is said on
stderr, not set.{back}

| name and arguments | expression | settings, and what is different nevertheless |
|---|---|---|
"""
PROJECTS = [
    {"project": "kvpress", "title": "kvpress 0.5.5",
     "example": "presses go into each other, as in\n`kvpress:AdaKVPress(SnapKVPress(window_size=32), alpha_safeguard=0.2)`",
     "back": " `flexbudget export peer RESULTS` goes the other way."},
    {"project": "kvfactory", "title": "KVCache-Factory", "example": "defaults are those of its runs on LongBench",
     "back": ""},
]


def said(program, *words):
    return subprocess.run([program, "rules", *words], capture_output=True, text=True, check=True).stdout


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def argument(text):
    """a==v and a:v have no other value."""
    name, _, value = text.replace("==", ":").partition(":")
    return f"{name}=[{value}]" if value else text


def peer_row(peer):
    if not peer["expression"]:
        return row(f"`{peer['name']}`", "none", f"it {peer['remark']}")
    arguments = ", ".join(argument(text) for text in peer["arguments"].split(",") if text)
    beside = [f"`{setting}`" for setting in peer["settings"].split()] + [peer["remark"]] * bool(peer["remark"])
    return row(f"`{peer['name']}({arguments})`", f"`{peer['expression']}`", ", ".join(beside))


def document(program):
    about = json.loads(said(program, "--json"))
    rules = about["rules"]
    kinds = [rule["kind"] for rule in rules]
    text = HEAD.format(n=len(rules), scoring=kinds.count("rule"), wrappers=kinds.count("wrapper"),
                       allocations=kinds.count("allocation"),
                       controls=kinds.count("control"), edits=kinds.count("edit"))
    for rule in rules:
        name = rule["name"] + ("(...)" if rule["inner"] else "")
        text += row(f"[`{name}`](#{rule['name']})", rule["kind"], rule["family"], rule["summary"])
    text += PRESETS
    for preset in about["presets"]:
        text += row(f"`{preset['name']}`", f"`{preset['expression']}`", preset["summary"])
    text += REFUSED
    for refused in about["refused"]:
        nearest = f"`{refused['nearest']}`" if refused["nearest"] else ""
        source = f" ({refused['source']})" if refused["source"] else ""
        text += row(f"`{refused['name']}`{source}", f"it {refused['why']}", nearest)
    for project in PROJECTS:
        text += PEERS.format(**project)
        text += "".join(peer_row(peer) for peer in about["peers"] if peer["project"] == project["project"])
    for rule in rules:
        text += f"\n## {rule['name']}\n\n```\n{said(program, rule['name'])}```\n"
    return text


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    text = document(words[0] if words else str(ROOT / "build/release/flexbudget"))
    if "--check" not in sys.argv:
        DOCUMENT.write_text(text)
    elif not DOCUMENT.exists() or DOCUMENT.read_text() != text:
        print("docs/RULES.md is not what the program says of its rules; run tools/rules.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
