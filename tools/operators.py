#!/usr/bin/env python3
"""operators.py - docs/OPERATORS.md from the table of operators.

    tools/operators.py              writes it: src/ops/list.h, where the kernels are, and the
                                    schemas of tests/golden/aten
    tools/operators.py --check      says whether it is up to date (`make check-docs`)
    PYTHON tools/operators.py --schemas   writes the schemas, with a Python that has PyTorch

SPDX-License-Identifier: MIT
"""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/ops/list.h"
SCHEMAS = ROOT / "tests/golden/aten/schemas.json"
DOCUMENT = ROOT / "docs/OPERATORS.md"
ROW = re.compile(r'^FB_OP\((\w+), *"([^"]*)", *(\d+), *"([^"]*)"\)', re.M)

HEAD = """# Operators

Made by `tools/operators.py` from `src/ops/list.h` and checked by `make check-docs`; not to be edited.

Model, attention and rules are written against these {n} operators and nothing else. An operator is
defined by the operators of PyTorch beside it, in this order where there are several; `tests/ops` compares both
backends with references in double. FLOPs are charged for each unit of work: a multiply-add of a product,
an element that is read otherwise. The torch backend calls what the last column says through PyTorch's stable C ABI
(`make test-torch` compares); it leaves out what only arranges numbers. The ABI cannot carry arguments of the kind
`Scalar`: where a definition has one, another way is taken to the same numbers.

| operator | defined by | FLOPs | native kernel | torch kernel | which calls |
|---|---|---|---|---|---|
"""
MIDDLE = """
## Schemas

Of every operator of PyTorch that is named above, as PyTorch {version} prints it.

"""


def table():
    """Rows (name, [definition], flops, [calls])."""
    rows = []
    for name, aten, flops, calls in ROW.findall(TABLE.read_text()):
        definition = aten.split(", ")
        rows.append((name, definition, int(flops),
                     definition if calls == "direct" else calls.split(", ")))
    return rows


def names():
    """Every operator of PyTorch in the table, once: "aten::sum.dim_IntList"."""
    return sorted({name for _, definition, _, calls in table() for name in definition + calls
                   if name.startswith("aten::")})


def functions():
    """Every function of the C ABI in the table."""
    return sorted({name for row in table() for name in row[3] if not name.startswith("aten::")})


def schema_of(name):
    """By the PyTorch of this interpreter; raises where there is none of that name."""
    import torch
    base, _, overload = name.removeprefix("aten::").partition(".")
    return str(getattr(getattr(torch.ops.aten, base), overload or "default")._schema)


def kernel_file(backend, name):
    """The file that defines fb_native_NAME, or for signals that of attention."""
    for kernel in (name, "attention"):
        pattern = re.compile(rf"^fb_status fb_{backend}_{kernel}\(", re.M)
        found = [path for path in sorted((ROOT / "src/ops" / backend).glob("*.c"))
                 if pattern.search(path.read_text())]
        if len(found) == 1:
            return f"{backend}/{found[0].name}"
    raise SystemExit(f"operators.py: no kernel fb_{backend}_{name} in src/ops")


def code(items):
    return ", ".join(f"`{item.removeprefix('aten::')}`" for item in items)


def document():
    rows, stored = table(), json.loads(SCHEMAS.read_text())
    text = HEAD.format(n=len(rows))
    for name, definition, flops, calls in rows:
        text += (f"| `{name}` | {code(definition)} | {flops} | `{kernel_file('native', name)}` | "
                 f"`{kernel_file('torch', name)}` | {'the same' if calls == definition else code(calls)} |\n")
    text += MIDDLE.format(version=stored["torch"])
    missing = [name for name in names() if name not in stored["schemas"]]
    if missing:
        raise SystemExit(f"operators.py: no schema of {', '.join(missing)}; run it with --schemas")
    text += "```\n" + "".join(f"{stored['schemas'][name]}\n" for name in names()) + "```\n"
    return text


def write_schemas():
    import torch
    found = {"torch": torch.__version__.split("+")[0],
             "schemas": {name: schema_of(name) for name in names()}}
    SCHEMAS.write_text(json.dumps(found, indent=1) + "\n")


def is_up_to_date():
    return DOCUMENT.exists() and DOCUMENT.read_text() == document()


def main():
    if sys.argv[1:] == ["--schemas"]:
        write_schemas()
    elif sys.argv[1:] == ["--check"]:
        if not is_up_to_date():
            print("docs/OPERATORS.md is not what tools/operators.py makes of src/ops/list.h; run it")
            return 1
    elif sys.argv[1:]:
        print(__doc__.strip())
        return 2
    else:
        DOCUMENT.write_text(document())
    return 0


if __name__ == "__main__":
    sys.exit(main())
