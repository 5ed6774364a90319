"""script.py - the program that scripts test, and how they run their test functions.

SPDX-License-Identifier: MIT
"""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FLEXBUDGET_PROGRAM", str(ROOT / "build/release/flexbudget"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("FLEXBUDGET_")}


def run_tests(names, argument):
    """Calls each test_... of `names`, the globals of a script, in order; the exit code."""
    tests = [test for name, test in sorted(names.items()) if name.startswith("test_")]
    failed = 0
    for test in tests:
        try:
            test(argument)
        except AssertionError as error:
            failed += 1
            print(f"{test.__name__}: {test.__doc__}\n{error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0
