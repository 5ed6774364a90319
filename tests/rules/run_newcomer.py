#!/usr/bin/env python3
"""run_newcomer.py - a rule is one file and one line: what docs/HACKING.md promises.

In a copy of the tree: the template becomes `mine`, one line goes into the list; then `rules`
knows it, an experiment runs it, `compare` shows it, and the property tests cover it - they
fail once its score is broken, and cells made before are not taken for its own. SPDX-License-Identifier: MIT
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["Makefile", "include", "src", "rules", "tasks", "data", "web", "tools"]


def call(*command, cwd, code=0):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("FLEXBUDGET_", "MAKE", "MFLAGS"))}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=environment, text=True,
                          capture_output=True, timeout=400)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def main():
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / name)
        for name in ("rules", "support"):
            shutil.copytree(ROOT / "tests" / name, tree / "tests" / name)
        shutil.rmtree(tree / "tests" / "golden", ignore_errors=True)

        guide = (ROOT / "docs" / "HACKING.md").read_text()
        copy = re.search(r"`(sed .* rules/template\.c > rules/mine\.c)`", guide)
        line = re.search(r"`(FB_RULE\(mine\))` to `rules/list\.h`", guide)
        assert copy and line, "docs/HACKING.md no longer says how to add a rule"
        call("bash", "-c", copy[1], cwd=tree)
        rule = tree / "rules" / "mine.c"
        table = tree / "rules" / "list.h"  # who follows the guide has the line already
        table.write_text(table.read_text().replace(line[1] + "\n", "") + line[1] + "\n")

        make = ["make", "-s", "-j2", "VARIANT=debug"]
        program, test = "build/debug/flexbudget", "build/debug/tests/rules/test_rules"
        call(*make, program, test, cwd=tree)
        assert "mine" in call(program, "rules", cwd=tree).stdout
        run = [program, "run", "-q", "--model", "builtin", "--tasks", "recall:samples=4,tokens=99",
               "--rules", "full,random,mine:window=8", "--budgets", "50%", "-o", "x.db"]
        call(*run, cwd=tree)
        table = call(program, "compare", "x.db", cwd=tree).stdout
        assert re.search(r"^mine\b.*100 %", table, re.M), table
        print("a new rule is known, runs and is compared")

        call(test, cwd=tree)
        sound = rule.read_text()
        broken = re.sub(r"return (fb_amax\(.*?\));", r"return fb_log(ops, fb_scale(ops, \1, -1));",
                        sound)
        assert broken != sound
        rule.write_text(broken)  # the logarithm of a negative number
        call(*make, program, test, cwd=tree)
        assert call(test, cwd=tree, code=None).returncode != 0
        print("the property tests cover it: a score that is not finite fails them")

        refused = call(*run, cwd=tree, code=2).stderr
        assert re.search(r"begun by (.*, build \w+), and this is (?!\1)", refused), refused
        call(program, "compare", "x.db", cwd=tree)
        rule.write_text(sound)
        call(*make, program, cwd=tree)
        assert "(12 before)" in call(*run, cwd=tree).stdout
        print("cells of the rule as it was are no cells of the changed one")
    print("3 passed, 0 failed")


if __name__ == "__main__":
    main()
