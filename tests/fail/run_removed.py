#!/usr/bin/env python3
"""run_removed.py - results that are removed while a run writes them: it ends with one
sentence and exit code 1, for they are lost. SPDX-License-Identifier: MIT
"""
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import experiment  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "x.db")
        child = subprocess.Popen(
            [experiment.PROGRAM, "run", "-q", "--model", "builtin", "--rules", "full,random,h2o",
             "--tasks", "recall:samples=20000,tokens=131,pairs=20", "--budgets", "50%",
             "-o", str(path)],
            text=True, env=experiment.ENVIRONMENT, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        while child.poll() is None and not path.exists():
            time.sleep(0.001)
        time.sleep(0.5)
        path.unlink()
        said = child.communicate(timeout=60)[1]
        assert child.returncode == 1, (child.returncode, said)
        assert "was moved or removed" in said and str(path) in said, said
        print("one sentence, exit code 1")
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
