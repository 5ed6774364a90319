"""torch_python.py - for test scripts that need PyTorch: finds it, and the Python module.

Importing it starts the script again under the interpreter that FLEXBUDGET_TORCH names, where there is
no torch in this one; without any the script is skipped. SPDX-License-Identifier: MIT
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLEXBUDGET_BUILD", ROOT / "build/release"))


def _interpreter():
    """The Python of FLEXBUDGET_TORCH: itself, or of the environment whose package it is."""
    named = os.environ.get("FLEXBUDGET_TORCH", "")
    path = pathlib.Path(named)
    if named and path.is_file():
        return named
    found = [p / "bin/python3" for p in path.parents if (p / "bin/python3").exists()] if named else []
    return str(found[0]) if found else None


def need(*packages):
    """Goes on only where the packages are."""
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    python = _interpreter()
    if missing and python and os.environ.get("FLEXBUDGET_TEST_AGAIN") is None:
        os.environ["FLEXBUDGET_TEST_AGAIN"] = "1"
        os.execv(python, [python, *sys.argv])
    if missing:
        print(f"skip: no Python package {' and '.join(missing)}; FLEXBUDGET_TORCH may name an interpreter that has it")
        sys.exit(77)
    if "FLEXBUDGET_LIBRARY" not in os.environ and not (BUILD / "libflexbudget.so").exists():
        print(f"skip: no libflexbudget.so in {BUILD}; `make embed` builds it, sanitizers do not load into Python")
        sys.exit(77)
    os.environ.setdefault("FLEXBUDGET_LIBRARY", str(BUILD / "libflexbudget.so"))
    sys.path.insert(0, str(ROOT / "python"))


def raises(call, *words):
    """Whether a call is refused with a sentence that has the words in it; returns it."""
    from flexbudget import Error

    try:
        call()
    except Error as error:
        sentence = str(error)
        assert all(w in sentence for w in words), f"'{sentence}' does not say {words}"
        return sentence
    raise AssertionError(f"was not refused; a sentence with {words} was expected")


def example_rule(folder):
    """examples/rule in another folder, made there."""
    shutil.copytree(ROOT / "examples/rule", folder / "examples/rule", ignore=shutil.ignore_patterns("*.so"))
    subprocess.run(["make", "-s", "-C", str(folder / "examples/rule"), f"FLEXBUDGET={ROOT}"], check=True,
                   env={**os.environ, "MAKEFLAGS": ""})
    return folder / "examples/rule/fading.so"


def main(tests):
    """Runs the functions and counts."""
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}")
        except Exception:  # noqa: BLE001 # whatever it is, the others run
            traceback.print_exc()
            print(f"FAILED  {test.__name__}")
            failed += 1
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
