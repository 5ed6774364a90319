#!/usr/bin/env python3
"""run_names.py - what src/ops/list.h names is in the PyTorch at hand.

Every operator, with the schema that the kernels were written for; every function of the C
ABI. Asked of the Python interpreter or package that FLEXBUDGET_TORCH names.

SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import operators  # noqa: E402

ASK = """
import ctypes, json, pathlib, sys
sys.path.insert(0, sys.argv[1])
import operators, torch
library = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"))
found = {"torch": torch.__version__, "schemas": {}, "functions": {}}
for name in operators.names():
    try:
        found["schemas"][name] = operators.schema_of(name)
    except AttributeError:
        found["schemas"][name] = None
for name in operators.functions():
    found["functions"][name] = hasattr(library, name)
print(json.dumps(found))
"""


def ask():
    """What PyTorch says; None where no interpreter can import it."""
    where = os.environ.get("FLEXBUDGET_TORCH") or "python3"
    environment = dict(os.environ)
    python = where
    if os.path.isdir(where):
        python = sys.executable
        environment["PYTHONPATH"] = str(pathlib.Path(where).parent)
    done = subprocess.run([python, "-c", ASK, str(ROOT / "tools")], env=environment,
                          capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        print(done.stderr.strip().split("\n")[-1])
        return None
    return json.loads(done.stdout.strip().split("\n")[-1])


def main():
    stored = json.loads(operators.SCHEMAS.read_text())
    found = ask()
    if found is None:
        print("skip: no Python can import the PyTorch of FLEXBUDGET_TORCH")
        print("0 passed, 0 failed")
        return 0
    passed = failed = 0
    for name in operators.names():
        same = found["schemas"][name] == stored["schemas"].get(name)
        passed, failed = passed + same, failed + (not same)
        if not same:
            print(f"{name} of PyTorch {found['torch']}: {found['schemas'][name]}\n"
                  f"  the kernels were written for {stored['schemas'].get(name)}")
    for name, there in found["functions"].items():
        passed, failed = passed + there, failed + (not there)
        if not there:
            print(f"PyTorch {found['torch']} has no {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
