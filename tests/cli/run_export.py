#!/usr/bin/env python3
"""run_export.py - what leaves by `export` is read by others as it was written.

Kept sets: by the few lines that docs/KEPT.md shows, and where there is one by the package
safetensors. Presses: by kvpress itself, where it is installed (build/bench-venv has both:
bench/bench.sh makes it). SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from script import ENVIRONMENT, PROGRAM, ROOT, run_tests  # noqa: E402

RULES = ["full", "random", "snapkv:window=16", "adakv(snapkv:window=16)", "cur:edge=kvpress",
         "pyramid(snapkv:window=4,form=kvpress)", "kvpress:CriticalAdaKVPress(TOVAPress())",
         "compactor_published", "chunk(knorm,fill=none,cut=first)", "flat(kvzip:plus=1)",
         "adakv(kvzip,safeguard=0)", "composite(kvcompose)", "merging(knorm,fraction=0.5)", "lava", "h2o"]
BUDGETS = ["25%", "60t"]

TENSORS = """
import json, sys
from safetensors import safe_open
with safe_open(sys.argv[1], framework="numpy") as file:
    cells = json.loads(file.metadata()["cells"])
    for cell in cells:
        counts = file.get_tensor(cell["tensors"] + ".counts")
        positions = file.get_tensor(cell["tensors"] + ".positions").tolist()
        cell["kept"] = []
        for layer in counts.tolist():
            cell["kept"].append([])
            for n in layer:
                cell["kept"][-1].append(positions[:n])
                positions = positions[n:]
        assert positions == []
print(json.dumps(cells))
"""

PRESSES = """
import json, sys
import kvpress
def same(press, about):
    assert type(press).__name__ == about["class"], about
    for name, value in about["arguments"].items():
        own = getattr(press, name)
        if isinstance(value, dict):
            same(own, value)
        else:
            assert own == value or name == "window_size", (about, name, own)
for rule in json.load(sys.stdin)["rules"]:
    for budget in rule.get("budgets", []):
        press = eval(budget["call"], vars(kvpress))
        same(press, rule["press"])
        assert abs(press.compression_ratio - budget["compression_ratio"]) < 1e-9, budget
        print("ok")
"""


def program(*words):
    return subprocess.run([PROGRAM, *words], env=ENVIRONMENT, check=True, capture_output=True,
                          stdin=subprocess.DEVNULL).stdout.decode()


def python_with(module):
    """A Python that has the module; None: there is none."""
    for python in sys.executable, str(ROOT / "build/bench-venv/bin/python"):
        done = subprocess.run([python, "-c", f"import importlib.util as u, sys; "
                               f"sys.exit(u.find_spec('{module}') is None)"], check=False) \
            if os.path.exists(python) else None
        if done is not None and done.returncode == 0:
            return python
    print(f"skip: no Python here has {module}")
    return None


def lines_of(folder):
    return [json.loads(line) for line in pathlib.Path(folder, "kept.jsonl").read_text().splitlines()]


def without(cell, *keys):
    return {k: v for k, v in cell.items() if k not in keys}


def test_lines_hold_what_the_results_say(folder):
    """every cell of the rules that evict, all heads, ascending positions of the text"""
    lines = lines_of(folder)
    assert len(lines) == 2 * (len(RULES) - 1) * len(BUDGETS), len(lines)
    for line in lines:
        heads = [head for layer in line["kept"] for head in layer]
        assert len(line["kept"]) == line["layers"] and len(heads) == line["layers"] * line["kv_heads"]
        assert sum(map(len, heads)) == line["entries"]
        for head in heads:
            assert head == sorted(set(head)) and 0 <= head[0] and head[-1] < line["n"]


def test_the_example_of_the_document_reads_the_tensors(folder):
    """docs/KEPT.md: the first block of Python that reads a file with nothing but itself"""
    text = (ROOT / "docs/KEPT.md").read_text()
    code = re.search(r"```python\n(import json, pathlib, struct\n\ndef read_kept.*?)```", text, re.S)[1]
    scope = {"json": json, "struct": struct}
    exec(code, scope)  # pylint: disable=exec-used
    cells = scope["read_kept"](pathlib.Path(folder, "kept.safetensors"))
    assert [without(c, "tensors") for c in cells] == [without(c, "format") for c in lines_of(folder)]


def test_safetensors_reads_the_tensors(folder):
    """the format's own package gives the same positions"""
    python = python_with("safetensors")
    if python is None:
        return
    done = subprocess.run([python, "-c", TENSORS, str(pathlib.Path(folder, "kept.safetensors"))],
                          check=True, capture_output=True)
    cells = json.loads(done.stdout)
    assert [without(c, "tensors") for c in cells] == [without(c, "format") for c in lines_of(folder)]


def test_kvpress_makes_the_presses(folder):
    """each call is one that kvpress understands, with the arguments that are listed"""
    text = program("export", "peer", f"{folder}/r.db", "--format", "json")
    about = json.loads(text)
    none = [rule["rule"] for rule in about["rules"] if rule["press"] is None]
    assert none == ["full", "lava", "h2o"], none
    python = python_with("kvpress")
    if python is None:
        return
    done = subprocess.run([python, "-c", PRESSES], input=text.encode(), check=False,
                          capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert done.stdout.decode().count("ok") == (len(RULES) - 3) * len(BUDGETS)


def main():
    with tempfile.TemporaryDirectory() as folder:
        program("run", "--model", "builtin", "--tasks", "recall:filler=inert,samples=2",
                "--rules", ",".join(RULES), "--budgets", ",".join(BUDGETS), "--keep-sets", "all",
                "-o", f"{folder}/r.db", "-q")
        program("export", "kept", f"{folder}/r.db", "-o", f"{folder}/kept.jsonl")
        program("export", "kept", f"{folder}/r.db", "--format", "safetensors", "-o",
                f"{folder}/kept.safetensors")
        return run_tests(globals(), folder)


if __name__ == "__main__":
    sys.exit(main())
