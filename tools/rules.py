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

{n} rules: {scoring} that score, {wrappers} wrappers, {allocations} allocations, {controls} control, {edits} edit.

| rule | kind | signal | what it keeps |
|---|---|---|---|
"""
PRESETS = """
## Names that stand for an expression

| name | expression | what it is |
|---|---|---|
"""


def said(program, *words):
    return subprocess.run([program, "rules", *words], capture_output=True, text=True, check=True).stdout


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


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
