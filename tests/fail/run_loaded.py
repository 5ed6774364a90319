#!/usr/bin/env python3
"""run_loaded.py - rules from shared objects: a good one is as good as built in, a faulty one
loses its own cells with a sentence, and what is no file of rules is refused in one.

Sources are in tests/fail/loaded and examples/rule. SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import experiment  # noqa: E402

SOURCES = experiment.ROOT / "tests/fail/loaded"
CC = os.environ.get("CC", "cc")
INT = "FB_INT(struct values, n, 1, 0, 9, \"a test\", \"a number\")"


def build(source, out, **defined):
    """A shared object of a source, with macros defined."""
    flags = [f"-D{name}={value}" for name, value in defined.items()]
    subprocess.run([CC, "-std=c11", "-O1", "-w", "-ffp-contract=off", f"-I{experiment.ROOT}/include", "-fPIC", "-shared",
                    *flags, "-o", str(out), str(source)], check=True)


def said(*words, codes=(0,), folder="."):
    """What the program printed: stdout and stderr."""
    done = subprocess.run([experiment.PROGRAM, *words], env=experiment.ENVIRONMENT, cwd=folder, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode in codes, f"{words}: exit code {done.returncode}, not {codes}:\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def run(rules, out, *more, code=0, folder=".", budgets="50%,25%"):
    return said("run", "-q", "--model", "builtin", "--tasks", "recall:samples=2", "--budgets", budgets, "--rules", rules,
                "-o", out, *more, codes=(code,), folder=folder)


def refused(folder, words, pattern, codes=(2,)):
    """One sentence, which fits the pattern."""
    out, error = said(*words, codes=codes, folder=folder)
    assert out == "" and error.startswith("flexbudget: error: "), (out, error)
    assert re.search(pattern, error, re.M), f"/{pattern}/ is not in: {error}"


def rows(path, query, *values):
    with sqlite3.connect(path) as db:
        return db.execute(query, values).fetchall()


def cells_of(path, label):
    """Everything that a rule's cells say but what they are called: sets, answers, scores, costs."""
    tables = "cell join rule on rule.id = rule_id join sample on sample.id = sample_id join budget on budget.id = budget_id"
    parts = [("kept_sha256, kept_bytes, trace_context, trace_answer, answer_tokens, status", ""),
             ("score.metric, score.value", "join score on score.cell_id = cell.id"),
             ("phase, scope, op, calls, flops, bytes", "join ledger on ledger.cell_id = cell.id")]
    return [sorted(rows(path, f"select sample.key, budget.asked, {what} from {tables} {more} where rule.label = ?", label))
            for what, more in parts]


def a_loaded_rule_has_the_bits_of_the_same_rule_built_in(folder):
    build(SOURCES / "twin.c", folder / "twin.so")
    run("./twin.so,knorm,full,adakv(normalise(twin)),adakv(normalise(knorm))", "prefill.db", folder=folder)
    run("./twin.so,knorm,full", "stream.db", "--protocol", "stream", "--chunk", "16", folder=folder)
    for out in ("prefill.db", "stream.db"):
        assert len(cells_of(folder / out, "twin")[0]) == 4
        assert cells_of(folder / out, "twin") == cells_of(folder / out, "knorm")
    assert cells_of(folder / "prefill.db", "adakv(normalise(twin))") == cells_of(folder / "prefill.db", "adakv(normalise(knorm))")
    origins = rows(folder / "prefill.db", "select label, origin, source_sha256 from rule order by label")
    sha256 = subprocess.run(["sha256sum", str(folder / "twin.so")], text=True, capture_output=True,
                            check=True).stdout.split()[0]
    assert origins == [("adakv(normalise(knorm))", "built-in", None), ("adakv(normalise(twin))", "loaded", sha256), ("full", "built-in", None),
                       ("knorm", "built-in", None), ("twin", "loaded", sha256)], origins


def another_build_of_a_file_is_another_experiment(folder):
    build(SOURCES / "struct.c", folder / "a.so", ROWS="FB_PARAM_END")
    run("full,./a.so", "r.db", folder=folder)
    assert "6 of 6 cells (6 before)" in run("full,./a.so", "r.db", folder=folder)[0]
    (folder / "else").mkdir()
    shutil.copy(folder / "a.so", folder / "else/b.so")  # a copy is the same file
    assert "(6 before)" in run("full,else/b.so", "r.db", folder=folder)[0]
    build(SOURCES / "struct.c", folder / "a.so", ROWS="FB_PARAM_END", CHOICE="choices->sink = 1")
    assert "6 of 6 cells" in run("full,./a.so", "r.db", "--add", folder=folder)[0]
    sources = rows(folder / "r.db", "select distinct source_sha256 from rule where origin = 'loaded'")
    assert len(sources) == 2, sources
    assert "bad" in said("compare", "r.db", folder=folder)[0]
    build(SOURCES / "struct.c", folder / "a.so", ROWS="FB_PARAM_END", CHOICE="choices->sink = 2")
    error = run("full,./a.so", "r.db", code=2, folder=folder)[1]
    assert re.search(r"r\.db holds another experiment: rule_files changed \(a\.so,sha256=\w+\.\.\. -> "
                     r"a\.so,sha256=\w+\.\.\.\)$", error, re.M), error


def the_effective_file_reads_back(folder):
    build(SOURCES / "twin.c", folder / "twin.so")
    build(SOURCES / "struct.c", folder / "bad.so", ROWS="FB_PARAM_END")
    arguments = ("--model", "builtin", "--tasks", "recall", "--budgets", "25%")
    text = said("run", *arguments, "--rules", "full,mine: ./twin.so,adakv(normalise(bad))", "--set", "rule_files=./bad.so",
                "--print-config", folder=folder)[0]
    (folder / "e.yaml").write_text(text)
    again = said("run", "e.yaml", "--print-config", folder=folder)[0]
    assert again.splitlines()[0] == text.splitlines()[0] and "# spec " in again, (text, again)
    assert re.search(r'^  - "mine: twin"$', text, re.M), text
    assert re.search(r'^rule_files: .*\n  - "\./bad\.so,sha256=\w{64}"\n  - "\./twin\.so,sha256=\w{64}"$', text, re.M), text
    # what was not asked for is not run
    build(SOURCES / "struct.c", folder / "bad.so", TOUCHED=f"\"{folder}/touched\"")
    error = said("run", "e.yaml", codes=(2,), folder=folder)[1]
    assert re.search(r"^e\.yaml:\d+:\d+: error: .*'\./bad\.so': has the sha256 [0-9a-f]{12}\.\.\., and [0-9a-f]{12}\.\.\. "
                     r"was asked for$", error, re.M), error
    assert not (folder / "touched").exists()
    said("rules", "./bad.so", folder=folder)
    assert (folder / "touched").exists()


def names_of_a_file_are_names_of_the_run(folder):
    build(SOURCES / "twin.c", folder / "twin.so")
    build(SOURCES / "faulty.c", folder / "faulty.so")
    (folder / "e.yaml").write_text("model: builtin\ntasks: [{recall: {samples: 1}}]\nbudgets: [25%]\nrules:\n"
                                   "  - full\n  - mine: ./twin.so\n  - adakv(normalise(twin))\n")
    assert "3 of 3 cells" in said("run", "e.yaml", "-q", folder=folder)[0]
    for command in (["run"], ["ask", "-", "?"]):
        start = [*command, "--model", "builtin", "--budgets", "25%", *(["--tasks", "recall"] * (command == ["run"]))]
        refused(folder, [*start, "--rules", "./twin.so,twn"], "unknown rule 'twn'; did you mean 'twin'\\?")
        refused(folder, [*start, "--rules", "./twin.so,twin"], "rule 'twin' is listed twice")
    refused(folder, ("run", "--model", "builtin", "--tasks", "recall", "--budgets", "25%", "--rules", "x: ./faulty.so"),
            "the file has 12 rules that stand alone")
    text = folder / "text"
    text.write_text("aA0bB1cC2dD3")
    said("ask", "text", "?A", "--model", "builtin", "--rules", "full,./twin.so", "--budgets", "50%", "--protect", "1+2",
         "--json", folder=folder)
    listed = json.loads(said("rules", "./twin.so", "--json", folder=folder)[0])
    assert [rule["name"] for rule in listed["rules"]] == ["twin"] and len(listed["sha256"]) == 64
    assert "too_few(...)" in said("rules", "./faulty.so", folder=folder)[0]
    assert "written    adakv(normalise(twin," in said("rules", "./twin.so", "adakv(normalise(twin))", folder=folder)[0]
    refused(folder, ("rules", "knorm", "twin"), "'knorm' is no file of rules")
    for wrong in ("./twin.so:n=1", "adakv(./twin.so)"):
        refused(folder, ("run", "--model", "builtin", "--tasks", "recall", "--budgets", "25%", "--rules", wrong),
                r"\^\nhelp: a file of rules is an item of its own")


FAULTS = {
    "nan_in_the_last_layer": "rule 'nan_in_the_last_layer': score of layer 1, kv head 0, entry 0 is NaN",
    "wrong_shape": r"rule 'wrong_shape' returned a score of the wrong shape: \[3, 7\] came",
    "nothing": r"rule 'nothing' returned a score of the wrong shape: \[\] came",
    "whole_numbers": "rule 'whole_numbers' returned a score that is not of f32",
    "misused_operator": r"rule 'misused_operator': fb_mul: shapes \[2, 257, 32\] and \[3, 7\] do not fit",
    "undeclared_signal": "rule 'undeclared_signal': fb_mul: a tensor is missing",
    "made_up_handle": "rule 'made_up_handle': fb_sqrt: a tensor is used after its scope was closed",
    "kept_too_long": r"rule 'kept_too_long' returned a score of the wrong shape: \[\] came",
    "pieces_of_nothing": "rule 'pieces_of_nothing': fb_pieces: pieces of 0",
    "more_state": r"rule 'more_state' has declared 1 numbers of state an entry .*; \[2, 1, \d+\] was expected",
    "nan_order": r"rule 'nan_order': fb_topk: a score is not a number \(NaN\)",
    "short_order": "rule 'short_order' returned an order of the wrong shape",
    "too_few(knorm)": r"rule 'too_few\(knorm\)' shares 127 entries in layer 0; the budget has 128",
    "no_status(knorm)": "rule 'no_status': 'share' returned the status 77",
    "ends_the_run(knorm)": "rule 'ends_the_run': 'share' returned the status",
    "refuses(knorm)": "rule 'refuses': what it needs is not there",
    "far_too_many(knorm)": r"rule 'far_too_many\(knorm\)': \d+ of 257 entries for kv head 0 of layer 0",
    "measures_wrongly(knorm)": "rule 'measures_wrongly': fb_reshape: 514 elements for 7",
    "fewer_values(knorm)": "rule 'fewer_values' returned values of another shape",
    "misused_edit(knorm)": r"rule 'misused_edit': fb_add: shapes \[1, 64, 32\] and \[1, 193, 32\] do not fit",
}


def a_faulty_rule_loses_its_own_cells(folder):
    build(SOURCES / "faulty.c", folder / "faulty.so")
    allocations = [name for name in FAULTS if "(" in name]
    error = run(",".join(["full", "random", "knorm", "./faulty.so", *allocations]), "r.db", budgets="25%", code=1,
                folder=folder)[1]
    assert "40 cells failed; the first: rule 'nan_in_the_last_layer', sample recall/" in error, error
    found = rows(folder / "r.db", "select label, status, reason from cell join rule on rule.id = rule_id")
    assert len(found) == 2 * (3 + len(FAULTS))
    for label, status, reason in found:
        if label not in FAULTS:
            assert (status, reason) == ("done", None), (label, status, reason)
            continue
        assert status == "failed" and re.match(r"\./faulty\.so: " + FAULTS[label], reason), (label, status, reason)
    run("full,random,knorm", "alone.db", budgets="25%", folder=folder)
    for label in ("full", "random", "knorm"):
        assert cells_of(folder / "alone.db", label) == cells_of(folder / "r.db", label)
    # while a text comes in, too
    out = run("full,random,./faulty.so", "s.db", "--protocol", "stream", "--chunk", "16", budgets="25%", code=1,
              folder=folder)[0]
    assert "4 of 28 cells" in out, out
    for label, reason in rows(folder / "s.db", "select label, reason from cell join rule on rule.id = rule_id "
                                               "where status = 'failed'"):
        assert reason.startswith(f"./faulty.so: rule '{label}'"), (label, reason)


def param(fields):
    return "{" + fields + "}, FB_PARAM_END"


GOOD_ROW = '.name = "n", .type = FB_PARAM_INT, .low = 0, .high = 9, .help = "h"'
STRUCTS = [  # what is spoilt, the sentence
    ({"OVERRIDE": ".abi = 99"}, "rule made for ABI 99; this program has 1"),
    ({"OVERRIDE": ".size = sizeof(fb_rule)"}, "rule made for an ABI 1 whose structs have other sizes; build it again"),
    ({"OVERRIDE": ".name = NULL"}, "a rule's name is not a word"),
    ({"OVERRIDE": '.name = ""'}, "a rule's name is not a word"),
    ({"OVERRIDE": '.name = "a b"'}, "a rule's name is not a word"),
    ({"OVERRIDE": '.name = "a\\33[2J"'}, "a rule's name is not a word"),
    ({"OVERRIDE": f'.name = "{"a" * 64}"'}, "a rule's name is not a word of at most 63"),
    ({"OVERRIDE": '.name = "knorm"'}, "the name 'knorm' of its rule is that of a built-in one"),
    ({"OVERRIDE": '.name = "snapkv_paper"'}, "the name 'snapkv_paper' of its rule is that of a built-in one"),
    ({"EXPORTS": "&bad, &bad"}, "two of its rules have the name 'bad'"),
    ({"EXPORTS": "NULL"}, "exports no rules"),
    ({"EXPORTS": ", ".join(["&bad"] * 65)}, "exports more than 64 rules"),
    ({"OVERRIDE": ".summary = NULL"}, "rule 'bad': its summary is not one line"),
    ({"OVERRIDE": '.summary = "a\\nb"'}, "rule 'bad': its summary is not one line"),
    ({"OVERRIDE": '.summary = "\\377"'}, "rule 'bad': its summary is not one line"),
    ({"OVERRIDE": '.source = "\\33[2J"'}, "rule 'bad': its source is not one line"),
    ({"OVERRIDE": '.family = "a b"'}, "rule 'bad': its family is not a word"),
    ({"OVERRIDE": ".kind = 7"}, r"rule 'bad' is of no kind there is \(7\)"),
    ({"OVERRIDE": ".runs = 0"}, "rule 'bad': runs is"),
    ({"OVERRIDE": ".runs = 12"}, "rule 'bad': runs is"),
    ({"OVERRIDE": ".n_inner = 1"}, "rule 'bad' asks for 1 inner rules"),
    ({"OVERRIDE": ".kind = FB_KIND_WRAPPER, .score = NULL, .wrap = wrap"}, "rule 'bad' is a wrapper around 0 rules"),
    ({"OVERRIDE": ".kind = FB_KIND_WRAPPER, .score = NULL, .wrap = wrap, .n_inner = 5"}, "asks for 5 inner rules"),
    ({"OVERRIDE": ".wrap = wrap"}, "rule 'bad' sets 'wrap', which its kind does not have"),
    ({"OVERRIDE": ".score = NULL"}, "rule 'bad' has no score"),
    ({"OVERRIDE": ".choose = NULL, .score = NULL"}, "rule 'bad' has no formula"),
    ({"OVERRIDE": ".params_bytes = 4"}, "parameter 'n' lies outside of the rule's params_bytes"),
    ({"OVERRIDE": ".params_bytes = (size_t)-1"}, r"rule 'bad' has \d+ bytes of parameters; at most 1024"),
    ({"ROWS": param(GOOD_ROW + ", .offset = (size_t)-8")}, "parameter 'n' lies outside of the rule's params_bytes"),
    ({"ROWS": param(GOOD_ROW + ", .offset = 17")}, "parameter 'n' lies outside of the rule's params_bytes"),
    ({"ROWS": param(GOOD_ROW + ", .type = 9")}, "parameter 'n' is of no type there is"),
    ({"ROWS": param(GOOD_ROW + ', .name = "a=b"')}, "rule 'bad': a parameter's name is not a word"),
    ({"ROWS": param(GOOD_ROW + ", .help = NULL")}, "parameter 'n' has no help"),
    ({"ROWS": param(GOOD_ROW + ", .initial = 10")}, "parameter 'n' has a default outside of its range"),
    ({"ROWS": param(GOOD_ROW + ", .high = __builtin_nan(\"\")")}, "parameter 'n' has a default outside of its range"),
    ({"ROWS": param(GOOD_ROW + ", .low = -0.5")}, "parameter 'n' is whole, but not its range and default"),
    ({"ROWS": param(GOOD_ROW + ", .high = 1e300")}, "parameter 'n' is whole, but not its range and default"),
    ({"ROWS": param(GOOD_ROW + ", .type = FB_PARAM_PAIR")}, "parameter 'n' is a pair of two zeros by default"),
    ({"ROWS": param(GOOD_ROW + ", .type = FB_PARAM_WORD")}, "parameter 'n' has no list of words"),
    ({"ROWS": param(GOOD_ROW + ', .type = FB_PARAM_WORD, .words = "a||b"')}, "parameter 'n' has no list of words"),
    ({"ROWS": param(GOOD_ROW + ', .type = FB_PARAM_WORD, .words = "a|b", .initial = 2')},
     "parameter 'n' has a default that is none of its words"),
    ({"ROWS": f"{INT}, {INT}, FB_PARAM_END"}, "parameter 'n' is there twice"),
    ({"ROWS": ", ".join("{" + GOOD_ROW + f', .name = "n{i}"' + "}" for i in range(65))},
     "its parameters do not end with FB_PARAM_END within 64 rows"),
    ({"OVERRIDE": '.effort = "m"'}, "rule 'bad': its effort is none of its whole-number parameters"),
    ({"OVERRIDE": '.effort = "x"', "ROWS": 'FB_REAL(struct values, x, 1, 0, 9, "a test", "a number"), FB_PARAM_END'},
     "rule 'bad': its effort is none of its whole-number parameters"),
    ({"CHOICE": "choices->window = -1"}, "rule 'bad' chooses window = -1; 0 to"),
    ({"CHOICE": "choices->replay.overlap = -1"}, "rule 'bad' chooses replay.overlap = -1; 0 to"),
    ({"CHOICE": 'choices->replay.later = "\\377"'}, "rule 'bad' chooses a text for `replay`"),
    ({"CHOICE": "choices->reference = FB_REFERENCE_EVIDENCE"}, "rule 'bad' is no row that an experiment can make"),
    ({"CHOICE": "choices->reference = FB_REFERENCE_EVIDENCE", "OVERRIDE": ".score = NULL"},
     "rule 'bad' chooses a reference, which is the program's own"),
    ({"OVERRIDE": ".edit = edit"}, "rule 'bad' sets 'edit', which its kind does not have"),
    ({"OVERRIDE": ".kind = FB_KIND_CONTROL, .n_inner = 1"}, "rule 'bad' is of no kind there is"),
    ({"OVERRIDE": ".needs = 9"}, "rule 'bad' needs what no scores compare"),
    ({"CHOICE": "choices->group = 7"}, "rule 'bad' chooses group = 7; 0 to 2"),
    ({"CHOICE": "choices->pool_max = 5000"}, "rule 'bad' chooses pool_max = 5000; 0 to 4095"),
    ({"CHOICE": "choices->pool_max = 4"}, "an even kernel has no middle"),
    ({"CHOICE": "choices->recent_quota = __builtin_nan(\"\")"}, "rule 'bad' chooses recent_quota = -?nan; 0 to 1"),
    ({"CHOICE": "choices->state_rows = 1"}, "rule 'bad' has a state without `update`"),
    ({"CHOICE": "choices->reads |= FB_READS_WINDOW_ATTENTION"}, "reads window attention but sets no window"),
    ({"CHECK": "(fb_status)-5"}, "rule 'bad': 'check' returned the status -5"),
    ({"CHECK": 'fb_fail(FB_USAGE, "not like this")'}, "rule 'bad': not like this"),
]


def a_struct_that_makes_no_sense_is_refused(folder):
    for number, (spoilt, sentence) in enumerate(STRUCTS):
        name = f"{number}.so"  # the loader knows a file by its name as long as it is there
        build(SOURCES / "struct.c", folder / name, **spoilt)
        refused(folder, ("rules", f"./{name}"), rf"^flexbudget: error: '\./{name}': .*{sentence}", codes=(1, 2))


def what_is_no_file_of_rules_is_refused(folder):
    build(SOURCES / "twin.c", folder / "twin.so")
    shutil.copy(folder / "twin.so", folder / "other.so")
    (folder / "empty.c").write_text("int nothing;\n")
    build(folder / "empty.c", folder / "empty.so")
    (folder / "hopes.c").write_text("#include <flexbudget/rule.h>\nvoid fb_unheard_of(void);\n"
                                    "const fb_rule *const fb_rules[] = {(const void *)fb_unheard_of};\n")
    build(folder / "hopes.c", folder / "hopes.so")
    (folder / "text.so").write_text("rules of the house\n")
    (folder / "nought.so").write_text("")
    (folder / "folder.so").mkdir()
    whole = (folder / "twin.so").read_bytes()
    (folder / "cut.so").write_bytes(whole[:len(whole) // 2])
    (folder / "head.so").write_bytes(whole[:100])
    for name, sentence in [
            ("missing.so", "cannot open: No such file or directory"), ("folder.so", "a folder, not a file"),
            ("text.so", "cannot be loaded as a shared object: (invalid ELF header|file too short)"),
            ("nought.so", "cannot be loaded as a shared object: file too short"), ("cut.so", "is cut short; make it again"),
            ("head.so", "is cut short; make it again"), ("empty.so", "exports no rules; at the end of its source stands"),
            ("hopes.so", "cannot be loaded as a shared object: undefined symbol: fb_unheard_of")]:
        refused(folder, ("rules", f"./{name}"), rf"error: '\./{name}': {sentence}")
        error = run(f"full,./{name}", "r.db", code=2, folder=folder)[1]
        assert re.match(rf"flexbudget: error: '\./{name}': {sentence}", error), error
    error = run("./twin.so,./other.so", "r.db", code=2, folder=folder)[1]
    assert "'./other.so': the name 'twin' of its rule is taken by './twin.so'" in error, error
    assert not (folder / "r.db").exists()


def the_example_is_made_by_its_makefile(folder):
    shutil.copytree(experiment.ROOT / "examples/rule", folder / "rule", ignore=shutil.ignore_patterns("*.so"))
    subprocess.run(["make", "-s", "-C", str(folder / "rule"), f"FLEXBUDGET={experiment.ROOT}", f"CC={CC}",
                    "CFLAGS=-O2 -Wall -Wextra -Werror"], check=True, env={**os.environ, "MAKEFLAGS": ""})
    assert "fading" in said("rules", "rule/fading.so", folder=folder)[0]
    assert "cells" in run("full,random,rule/fading.so,adakv(normalise(fading:life=64,by=rank))", "r.db", folder=folder)[0]


def main():
    tests = [a_loaded_rule_has_the_bits_of_the_same_rule_built_in, another_build_of_a_file_is_another_experiment,
             the_effective_file_reads_back, names_of_a_file_are_names_of_the_run, a_faulty_rule_loses_its_own_cells,
             a_struct_that_makes_no_sense_is_refused, what_is_no_file_of_rules_is_refused,
             the_example_is_made_by_its_makefile]
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
        print(f"ok      {test.__name__}")
    print(f"{len(tests)} passed, 0 failed")


if __name__ == "__main__":
    main()
