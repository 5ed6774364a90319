#!/usr/bin/env python3
"""run_flat.py - a process that works on 200 samples takes no more memory than on 20.

What a plan keeps of a sample (ids, texts) may grow, a few kilobytes each; caches, scores and answers
may not. SPDX-License-Identifier: MIT
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from experiment import ENVIRONMENT, PROGRAM  # noqa: E402

PER_SAMPLE = (32 if "asan" in PROGRAM else 16) << 10  # AddressSanitizer puts room around each block
# AddressSanitizer would keep what was freed.
NOTHING_KEPT = ENVIRONMENT | {"ASAN_OPTIONS": "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}


def peak(folder, samples):
    """Bytes resident at most."""
    command = [PROGRAM, "run", "-q", "--model", "builtin", "--tasks", f"recall:samples={samples},tokens=131,pairs=20",
               "--rules", "full,random,snapkv:window=16,h2o,oracle", "--budgets", "50%,25%", "--protect", "1+8",
               "-j", "1", "-o", str(pathlib.Path(folder, f"{samples}.db"))]
    process = os.posix_spawnp(command[0], command, NOTHING_KEPT)
    _, status, usage = os.wait4(process, 0)
    assert status == 0, f"exit status {status}"
    return usage.ru_maxrss * 1024


def main():
    if "tsan" in PROGRAM:
        print("ThreadSanitizer's shadow counts as memory")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        few, many = peak(folder, 20), peak(folder, 200)
    print(f"{few / 2**20:.1f} MiB for 20 samples, {many / 2**20:.1f} MiB for 200")
    assert many - few < 180 * PER_SAMPLE
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
