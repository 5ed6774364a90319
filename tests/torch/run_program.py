#!/usr/bin/env python3
"""run_program.py - what the program is linked with, and who names a backend.

No BLAS and nothing of PyTorch is linked into the program or offered by it (PyTorch calls
sgemm_ through the table of symbols: one of ours would be taken for its own). The program of
test_alone.c holds no native kernel. Nothing above src/ops asks which backend it runs on.
Every file that enters the trace of operators gives it the names of the table.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import re
import subprocess

PROGRAM = os.environ["FLEXBUDGET_PROGRAM"]
BUILD = pathlib.Path(os.environ["FLEXBUDGET_BUILD"])
BLAS = re.compile(r"^(cblas_\w+|[sdcz](gemm|gemv|dot|axpy|scal|nrm2|symm|syrk|trsm|ger)_?|openblas\w*|mkl_\w+|dnnl_\w+)$", re.I)
TORCH = re.compile(r"torch|aoti|aten|c10", re.I)
ABOVE = "rules tasks src/engine src/rule src/select src/cache src/model src/task src/stats".split()
# A word of code, not of a sentence: a name of the interface, or a device in quotes.
BACKEND = re.compile(r"fb_backend|fb_torch|fb_native|FB_TORCH|dlopen|\"(native|torch[:\w]*|cuda[:\w]*)\"")


def symbols(path, *options):
    done = subprocess.run(["nm", *options, str(path)], capture_output=True, text=True, check=True)
    return [line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line.strip()]


def nothing_of_blas_is_in_the_program():
    for path in (PROGRAM, BUILD / "libflexbudget.a"):
        found = [name for name in symbols(path) if BLAS.match(name)]
        assert not found, f"{path}: {found}"


def libraries_are_those_of_the_readme():
    done = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert any(name.startswith("libc.so") for name in names), names
    wrong = [name for name in names
             if re.search(r"torch|c10|blas|lapack|mkl|dnnl|gomp|omp|cuda|stdc\+\+|python", name)]
    assert not wrong, wrong


def the_program_offers_what_loaded_rules_need():
    """Nothing else is exported that PyTorch, loaded later, would find instead of its own: names that the headers for
    rules declare. (Of the C library there are copies of variables, of the linker `data_start`.)"""
    headers = "".join(pathlib.Path("include/flexbudget", name).read_text() for name in ("error.h", "op.h", "rule.h"))
    declared = set(re.findall(r"\bfb_\w+(?=\()", headers))
    done = subprocess.run(["nm", "-D", "--defined-only", PROGRAM], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    wrong = [name for name in names if "@GLIBC" not in name and not name.startswith("_") and name not in declared | {"data_start"}]
    assert not wrong, wrong


def nothing_of_torch_is_linked():
    needed = symbols(PROGRAM, "-D", "--undefined-only")
    wrong = [name for name in needed if TORCH.search(name) or BLAS.match(name)]
    assert not wrong, wrong
    # The names of its functions are text, looked up when it is opened.
    wrong = [name for name in symbols(PROGRAM) if re.match(r"(aoti_)?torch_", name)]
    assert not wrong, wrong


def the_torch_backend_alone_has_no_native_kernel():
    names = symbols(BUILD / "tests/torch/test_alone")
    assert "fb_torch_attention" in names and "trap_attention" in names
    wrong = [name for name in names if name.startswith("fb_native_")]
    assert not wrong, wrong


def nobody_above_names_a_backend():
    n = 0
    for folder in ABOVE:
        for path in sorted(pathlib.Path(folder).rglob("*.[ch]")):
            code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            if path == pathlib.Path("src/rule/load.c"):
                code = re.sub(r"\bdl(open|sym|close|error)\b", "", code)  # of rules
            if path == pathlib.Path("src/model/hollow.c"):
                code = code.replace("torch_dtype", "")  # a key of config.json
            found = BACKEND.search(code)
            assert not found, f"{path}: {found[0]}"
            n += 1
    assert n > 50, n


def the_trace_has_the_names_of_the_table():
    """The trace is written in one place, from the number of an operator of the table."""
    writers = [str(path) for path in sorted(pathlib.Path("src").rglob("*.c"))
               if re.search(r"\bfb_ops_trace\(", path.read_text())]
    assert writers == ["src/ops/ops.c", "src/ops/trace.c"], writers
    text = pathlib.Path("src/ops/trace.c").read_text()
    assert re.search(r"fb_op_name\(op\)", text), "trace.c writes no name of the table"


TESTS = [nothing_of_blas_is_in_the_program, libraries_are_those_of_the_readme,
         the_program_offers_what_loaded_rules_need, nothing_of_torch_is_linked,
         the_torch_backend_alone_has_no_native_kernel, nobody_above_names_a_backend,
         the_trace_has_the_names_of_the_table]


def main():
    failed = 0
    for test in TESTS:
        try:
            test()
        except AssertionError as error:
            failed += 1
            print(f"{test.__name__}: {error}")
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
