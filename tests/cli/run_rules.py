#!/usr/bin/env python3
"""run_rules.py - docs/RULES.md is in step with the rules. SPDX-License-Identifier: MIT"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FLEXBUDGET_PROGRAM", str(ROOT / "build/release/flexbudget"))

done = subprocess.run([str(ROOT / "tools/rules.py"), PROGRAM, "--check"], check=False)
print("1 passed, 0 failed" if done.returncode == 0 else "0 passed, 1 failed")
sys.exit(done.returncode)
