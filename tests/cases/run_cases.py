#!/usr/bin/env python3
"""run_cases.py - what users of similar programs broke, each case under its id.

The files are those of tests/cli/run.py. SPDX-License-Identifier: MIT
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import run  # noqa: E402

if __name__ == "__main__":
    sys.exit(run.main(HERE, sys.argv[1:]))
