#!/usr/bin/env python3
"""check_docs.py - what the documents name exists, and what exists is named.

In README.md, CHANGELOG.md and docs/: targets of `make`, files and folders between back
quotes, relative links. Every target with a line in `make help` and every folder of src/
is mentioned in docs/. Every C file begins with "name - what it is for" and has an SPDX
line. docs/OPERATORS.md is what tools/operators.py makes of the table.

SPDX-License-Identifier: MIT
"""
import re
import sys
from pathlib import Path

import operators

PLACES = "src include rules tasks tests tools docs data experiments examples bench web python".split()
PATH = re.compile(rf"`((?:{'|'.join(PLACES)})/[\w./*|-]*|\.ci/\w+|[A-Z]+\.md)`")
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)(?![\w/-])")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def documents():
    return [Path("README.md"), Path("CHANGELOG.md"), *sorted(Path("docs").glob("*.md"))]


def exists(name):
    """A path, a pattern such as src/ops/front*.c, or one with a word like NAME in it."""
    if re.search(r"(?<![A-Za-z])[A-Z]{2,}(?![a-z])", Path(name).stem) and not name.endswith(".md"):
        return Path(name).parent.is_dir()
    names = [name]
    if "|" in name:  # tests/*/run_*.py|sh
        stem, last = name.rsplit(".", 1)
        names = [f"{stem}.{end}" for end in last.split("|")]
    return any(list(Path().glob(n.rstrip("/"))) for n in names)


def check_document(path, targets):
    text = path.read_text()
    for name in PATH.findall(text):
        if not exists(name) and not Path("docs", name).exists():
            yield f"{path}: `{name}` is not there"
    for name in LINK.findall(text):
        if not (path.parent / name).exists():
            yield f"{path}: link to {name}, which is not there"
    for code in re.findall(r"`([^`\n]*)`|^(make .*)$", text, re.M):
        for name in TARGET.findall(" ".join(code)):
            if name not in targets:
                yield f"{path}: 'make {name}' is no target"


def check_heading(path):
    text = path.read_text()
    name = re.escape(path.name)
    if not re.match(rf"/\* {name} - \S", text):
        yield f"{path}: the first line is '/* {path.name} - what it is for'"
    if "SPDX-License-Identifier: MIT" not in text:
        yield f"{path}: no SPDX line"


def main():
    makefile = Path("Makefile").read_text()
    helped = re.findall(r"^([a-z-]+):.*## ", makefile, re.M)
    checks = re.search(r"^CHECKS := (.*)$", makefile, re.M).group(1).split()
    targets = {*helped, *(f"check-{name}" for name in checks)}
    wrong = []
    for path in documents():
        wrong += check_document(path, targets)
    written = "".join(path.read_text() for path in documents())
    wrong += [f"Makefile: nothing says what 'make {name}' is for" for name in helped
              if name != "all" and f"make {name}" not in written]
    wrong += [f"{folder}: not mentioned in docs/" for folder in Path("src").iterdir()
              if folder.is_dir() and f"`{folder}`" not in written]
    for folder in ("include", "src", "rules", "tasks", "tests", "examples"):
        for path in sorted(Path(folder).rglob("*.[ch]")):
            wrong += check_heading(path)
    if not operators.is_up_to_date():
        wrong.append("docs/OPERATORS.md: not what tools/operators.py makes; run it")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
