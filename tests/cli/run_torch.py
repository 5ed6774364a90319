#!/usr/bin/env python3
"""run_torch.py - experiments on an installed PyTorch, where there is one.

FLEXBUDGET_TORCH names it, as for the program; without one everything is skipped, and says
so. The built-in model's right answers are known on paper, so both backends must find them.
SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FLEXBUDGET_PROGRAM", str(ROOT / "build/release/flexbudget"))
ENVIRONMENT = {k: v for k, v in os.environ.items()
               if not k.startswith("FLEXBUDGET_") or k == "FLEXBUDGET_TORCH"}
RUN = ["run", "--model", "builtin", "--tasks", "recall:samples=4,filler=inert", "--rules",
       "full,random,snapkv:window=16,h2o,keydiff", "--budgets", "25%,50%", "--keep-sets", "all"]


def call(*words, code=0):
    """stdout and stderr of a command that ends with this code."""
    done = subprocess.run([PROGRAM, *words], env=ENVIRONMENT, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=100)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def row(path, query):
    database = sqlite3.connect(path)
    found = database.execute(query).fetchone()
    database.close()
    return found


def results_say_which_backend_made_them():
    call(*RUN, "-o", "torch.db", "-q", "--device", "torch:cpu")
    kernel, spec = row("torch.db", "SELECT kernel, spec FROM experiment")
    assert re.fullmatch(r"torch-\d+\.\d+\.\d+\.cpu\.f32\.kv32", kernel), kernel
    assert 'device: "torch:cpu"\n' in spec and "precision: f32\n" in spec
    host = json.loads(row("torch.db", "SELECT description FROM host")[0])
    assert host["backend"] == "torch" and host["device"] == "torch:cpu"
    assert host["precision"] == "f32" and kernel.startswith(f"torch-{host['torch']}.")
    certificate = json.loads(row("torch.db", "SELECT body FROM certificate")[0])
    assert certificate["bits"] == "tolerance" and certificate["trace_equal"]
    assert certificate["cache_equal"]
    assert "tolerance" in row("torch.db", "SELECT text FROM note")[0]


def native_results_promise_their_bits():
    call(*RUN, "-o", "cpu.db", "-q")
    certificate = json.loads(row("cpu.db", "SELECT body FROM certificate")[0])
    assert certificate["bits"] == "equal" and certificate["kernel"] == "native.f32.kv32"
    assert row("cpu.db", "SELECT count(*) FROM note")[0] == 0


def another_backend_is_another_experiment():
    _, said = call(*RUN, "-o", "torch.db", "-q", code=2)
    assert "torch.db holds another experiment: device changed (torch:cpu -> cpu)" in said
    _, said = call(*RUN, "-o", "torch.db", "-q", "--device", "torch:cpu", "--precision", "bf16",
                   code=2)
    assert "precision changed (f32 -> bf16)" in said


def the_same_command_has_nothing_left_to_do():
    said, _ = call(*RUN, "-o", "torch.db", "-q", "--device", "torch:cpu", "--json")
    assert json.loads(said)["before"] == json.loads(said)["cells"], said


def another_version_does_not_continue():
    database = sqlite3.connect("torch.db")
    database.executescript("UPDATE experiment SET kernel = 'torch-2.10.0.cpu.f32.kv32', class = "
                           "'open'; DELETE FROM certificate")
    database.commit()
    database.close()
    _, said = call(*RUN, "-o", "torch.db", "-q", "--device", "torch:cpu", code=2)
    assert "was begun with the kernel torch-2.10.0.cpu.f32.kv32, and this is torch-" in said
    os.remove("torch.db")
    call(*RUN, "-o", "torch.db", "-q", "--device", "torch:cpu")


def backends_are_compared_cell_by_cell():
    said, _ = call("compare", "cpu.db", "torch.db", "--across-backends", "--json")
    across = json.loads(said)
    assert across["pairs"] == 36 and across["only_first"] == across["only_second"] == 0
    for r in across["rows"]:
        assert abs(r["difference"]) < 1e-3, r
        if r["budget"] != "full":
            assert r["position_cells"] == 4 and r["equal_entries"] > 0.99, r
    call("report", "cpu.db", "torch.db", "-q", "-o", "page.html")
    page = pathlib.Path("page.html").read_text()
    assert page.count("<h2>Across backends</h2>") == 1
    assert page.count("<article") == 2


def a_question_is_answered_on_it():
    words = ["ask", "--model", "builtin", "--text", "a b c d e f g h " * 20, "which?",
             "--rules", "full,h2o", "--budget", "50%", "--max-tokens", "4", "--json"]
    ours = json.loads(call(*words)[0])
    theirs = json.loads(call(*words, "--device", "torch:cpu")[0])
    assert [a["ids"] for a in ours["answers"]] == [a["ids"] for a in theirs["answers"]]


def layers_on_several_devices_give_what_one_gives():
    """Names of one device twice are two to the program: what is made on one and used on another
    is copied. Gemma has layers with a window beside others."""
    records = [{"context": "the quick brown fox jumps over the lazy dog again"[:n], "question": "what?",
                "answers": ["abcd"], "max_tokens": 4} for n in (2, 17, 33, 48)]
    pathlib.Path("short.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    for model in ("llama_tied", "gemma3"):
        words = ["run", "--model", str(ROOT / "tests/golden/families" / model), "--template", "none", "--tasks",
                 "jsonl:data=short.jsonl", "--rules", "full,random,h2o,keydiff,snapkv:window=8,adakv(keydiff)",
                 "--budgets", "50%", "--protect", "0+0", "--keep-sets", "all", "-q"]
        call(*words, "--device", "torch:cpu", "-o", f"{model}.one.db")
        for devices in ("cpu,cpu", "cpu,cpu,cpu"):
            path = f"{model}.{devices.count(',') + 1}.db"
            call(*words, "--device", f"torch:{devices}", "-o", path)
            across = json.loads(call("compare", f"{model}.one.db", path, "--across-backends", "--json")[0])
            assert across["pairs"] == 24 and across["only_first"] == 0, (path, across["pairs"])
            for r in across["rows"]:
                assert r["budget"] == "full" or r["equal_entries"] == 1, (path, r)
                assert abs(r["difference"]) < 1e-6, (path, r)


TESTS = [results_say_which_backend_made_them, native_results_promise_their_bits,
         another_backend_is_another_experiment, the_same_command_has_nothing_left_to_do,
         another_version_does_not_continue, backends_are_compared_cell_by_cell,
         a_question_is_answered_on_it, layers_on_several_devices_give_what_one_gives]


def main():
    found = json.loads(call("doctor", "--json")[0])["torch"]
    if not found["found"]:
        for test in TESTS:
            print(f"skip: {test.__name__}: no PyTorch; 'flexbudget doctor' says why")
        print("0 passed, 0 failed")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for test in TESTS:
            try:
                test()
            except (AssertionError, KeyError, ValueError) as error:
                failed += 1
                print(f"FAILED {test.__name__}: {error!r}")
        os.chdir("/")
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
