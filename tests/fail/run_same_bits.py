#!/usr/bin/env python3
"""run_same_bits.py - how a cell was computed does not show in its bytes.

One thread or two, groups of one variant or of all, the kernels of one instruction set
or another, a sweep or the cell alone: the same digest. A limit of the memory that is just
enough is kept. SPDX-License-Identifier: MIT
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import experiment  # noqa: E402

ALONE = ["rule=h2o,budget=25%,sample=recall/3", "rule=random,seed=2,sample=recall/0",
         "rule=oracle,budget=50%,sample=recall/5", "rule=full,sample=jsonl/2",
         "rule=adakv(snapkv:window=16),budget=25%,sample=recall/1"]


def smallest_memory(path):
    """A limit that is just enough: each refusal names what one cell needs."""
    limit = "1MiB"
    for _ in range(20):
        done = subprocess.run(experiment.command(path, "-q", "--memory", limit),
                              env=experiment.ENVIRONMENT, text=True,
                              capture_output=True, timeout=120)
        if done.returncode == 0:
            return limit
        need = re.search(r"needs ([0-9.]+) MiB", done.stderr)
        assert done.returncode == 2 and need, done.stderr
        limit = f"{float(need[1]) + 0.1:.1f}MiB"
    raise AssertionError(f"still refused with {limit}: {done.stderr}")


def most_memory(text):
    """The most MiB that all accounts together held, as a run prints it."""
    return float(re.search(r"; peak ([0-9.]+) MiB", text)[1])


def main():
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return pathlib.Path(folder, name + ".db")

        printed = {"sweep": experiment.run(path("sweep"))}
        want = experiment.digest(printed["sweep"])
        sweep = experiment.cells(path("sweep"))
        ways = {"one thread": ["-j", "1"], "two threads": ["-j", "2"],
                "plain": ["--isa", "plain"],
                "small memory": ["--memory", smallest_memory(path("none"))]}
        limit = float(ways["small memory"][1].removesuffix("MiB"))
        for name, options in ways.items():
            printed[name] = experiment.run(path(name), *options)
            got = experiment.digest(printed[name])
            assert got == want, f"{name} ({options}): {got}, expected {want}"
            print(f"{name}: digest equal")
            passed += 1
        assert most_memory(printed["small memory"]) <= limit < most_memory(printed["sweep"])
        for i, only in enumerate(ALONE):
            experiment.run(path(f"alone{i}"), "--only", only)
            alone = experiment.cells(path(f"alone{i}"))
            assert alone, f"no cell passes {only}"
            for key, digest in alone.items():
                assert sweep[key] == digest, f"{key}: {digest}, in the sweep {sweep[key]}"
            print(f"{only}: {len(alone)} cells equal")
            passed += 1
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
