#!/usr/bin/env python3
"""check_layers.py - includes point downwards, and no files include each other in a ring.

The table is the one of docs/ARCHITECTURE.md. Every folder may also include itself,
include/ and the system. rules/ see their one public header and nothing else, tasks/ theirs
and the C library; only the two registries read their lists.

SPDX-License-Identifier: MIT
"""
import re
import sys
from pathlib import Path

BELOW = {
    "base": "",
    "ops": "base",
    "model": "base ops",
    "cache": "base ops",
    "rule": "base ops",
    "select": "base ops cache rule",
    "embed": "base ops cache rule select",
    "engine": "base ops model cache rule select",
    "task": "base",
    "stats": "base",
    "store": "base",
    "spec": "base model cache rule select task",
    "experiment": "base ops model cache rule select engine task stats store spec",
    "report": "base stats store",
    "cli": "base ops model cache rule select engine task stats store spec experiment report",
}
LISTS = {"rules/list.h": "src/rule/registry.c", "rules/presets.h": "src/rule/registry.c",
         "rules/refused.h": "src/rule/registry.c", "rules/peers.h": "src/rule/peer.c",
         "tasks/list.h": "src/task/registry.c"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def includes(path):
    return INCLUDE.findall(path.read_text())


def check_source(path, kind, name):
    """What is wrong with one include of a file under src/, or None."""
    part, target = path.parts[1], name.split("/")[0]
    if kind == "<":
        return None
    if name in LISTS:
        return None if str(path) == LISTS[name] else f"only {LISTS[name]} reads that list"
    if "/" not in name:
        return "includes start at src/, as in \"base/text.h\""
    if target == part or target in BELOW[part].split():
        return None
    return f"{part}/ may include: {BELOW[part] or 'nothing but itself'}"


def find_ring(graph):
    """A list of files that include each other, or None."""
    done, path = set(), []

    def visit(file):
        if file in path:
            return path[path.index(file):] + [file]
        if file in done:
            return None
        path.append(file)
        for other in sorted(graph.get(file, ())):
            ring = visit(other)
            if ring:
                return ring
        path.pop()
        done.add(file)
        return None

    for file in sorted(graph):
        ring = visit(file)
        if ring:
            return ring
    return None


def main():
    wrong, graph = [], {}
    for path in sorted(Path("src").glob("*/**/*.[ch]")):
        if path.parts[1] not in BELOW:
            wrong.append(f"{path}: the folder is not in the table of {sys.argv[0]}")
            continue
        for kind, name in includes(path):
            complaint = check_source(path, kind, name)
            if complaint:
                wrong.append(f"{path}: {name}: {complaint}")
            if kind == '"' and path.suffix == ".h":
                graph.setdefault(str(path), set()).add("src/" + name)
    for path in sorted(Path("rules").glob("*.c")):
        if includes(path) != [("<", "flexbudget/rule.h")]:
            wrong.append(f"{path}: a rule includes <flexbudget/rule.h> and nothing else")
    for path in sorted(Path("tasks").glob("*.c")):
        ours = [name for kind, name in includes(path) if kind == '"' or "/" in name]
        if ours != ["flexbudget/task.h"]:
            wrong.append(f"{path}: a task includes <flexbudget/task.h> and the C library")
    for path in sorted(Path("include").rglob("*.h")):
        for kind, name in includes(path):
            if kind == '"':
                wrong.append(f"{path}: {name}: public headers include public ones only")
    ring = find_ring(graph)
    if ring:
        wrong.append("a ring of includes: " + " -> ".join(ring))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
