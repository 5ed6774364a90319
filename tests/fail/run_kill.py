#!/usr/bin/env python3
"""run_kill.py - J05: a run that is killed at any moment goes on with the same bytes.

SIGKILL after a random number of cells, twenty times; SIGTERM, which finishes the open
group and says so with exit code 3; then the same command to the end. The digest is that
of an undisturbed run, and every cell is there once. SPDX-License-Identifier: MIT
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import experiment  # noqa: E402

KILLS = 20


def interrupt(path, n_cells, number, delay):
    """Sends a signal once `n_cells` cells are told of; exit status, or None if the run
    was over before."""
    child = subprocess.Popen(experiment.command(path, "--progress", "json"), text=True,
                             env=experiment.ENVIRONMENT, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
    seen = 0
    for line in child.stderr:
        seen += '"event":"cell"' in line
        if seen >= n_cells:
            time.sleep(delay)
            child.send_signal(number)
            break
    child.stderr.read()
    child.stderr.close()
    return child.wait(timeout=120)


def main():
    seed = int(os.environ.get("FLEXBUDGET_TEST_SEED", "7"))
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = pathlib.Path(folder, "whole.db")
        killed = pathlib.Path(folder, "killed.db")
        want = experiment.digest(experiment.run(whole))
        n = len(experiment.cells(whole))
        statuses = [interrupt(killed, draw.randrange(0, max(2, n // KILLS * 2)),
                              signal.SIGKILL, draw.random() * 0.003)
                    for _ in range(KILLS - 4)]
        # later ones before anything is told of: in the survey, in the first commit
        statuses += [interrupt(killed, 0, signal.SIGKILL, draw.random() * 0.02)
                     for _ in range(4)]
        assert statuses.count(-signal.SIGKILL) >= KILLS // 2, statuses
        assert set(statuses) <= {-signal.SIGKILL, 0}, statuses
        got = experiment.digest(experiment.run(killed))
        assert got == want, f"seed {seed}: {got} after {KILLS} kills, {want} undisturbed"
        assert experiment.cells(killed) == experiment.cells(whole)
        print(f"killed {statuses.count(-signal.SIGKILL)} times, {n} cells, digest equal")

        stopped = pathlib.Path(folder, "stopped.db")
        status = interrupt(stopped, 1, signal.SIGTERM, 0)
        assert status == 3, f"exit status {status} after SIGTERM"
        done = len(experiment.cells(stopped))
        assert 0 < done < n, f"{done} of {n} cells after SIGTERM"
        assert experiment.digest(experiment.run(stopped)) == want
        print(f"stopped after {done} cells, digest equal")
    print("2 passed, 0 failed")


if __name__ == "__main__":
    main()
