#!/usr/bin/env python3
"""run_shrink.py - a model file that shrinks while it is mapped is one sentence and exit
code 1, not a crash.

The model is a small one with a long hole behind its tensors: hashing that takes a second,
which is when the file is cut. SPDX-License-Identifier: MIT
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import experiment  # noqa: E402

BUILD = pathlib.Path(os.environ.get("FLEXBUDGET_BUILD", experiment.ROOT / "build/release"))
HOLE = 256 << 20


def is_mapped(child, model):
    try:
        return str(model) in pathlib.Path(f"/proc/{child.pid}/maps").read_text()
    except OSError:  # it has ended
        return False


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "model.gguf").resolve()
        shutil.copy(BUILD / "gen/builtin.gguf", model)
        os.truncate(model, HOLE)
        child = subprocess.Popen([experiment.PROGRAM, "model", str(model)], text=True,
                                 env={**experiment.ENVIRONMENT, "XDG_CACHE_HOME": folder},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while child.poll() is None and not is_mapped(child, model):
            time.sleep(0.001)
        os.truncate(model, 4096)
        said = child.communicate(timeout=100)[1]
        assert child.returncode == 1, (child.returncode, said)
        assert said.startswith("flexbudget: error: a model file became shorter"), said
        assert said.count("\n") == 1, said
        print("one sentence, exit code 1")


if __name__ == "__main__":
    main()
