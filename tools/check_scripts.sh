#!/bin/bash
# check_scripts.sh - shell scripts are clean for shellcheck, Python files compile.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
mapfile -t shell < <(find tools tests slurm bench .ci -name '*.sh' 2>/dev/null)
shellcheck "${shell[@]}" .ci/run
mapfile -t python < <(find tools tests python bench -name '*.py' 2>/dev/null)
python3 - "${python[@]}" <<'PY'
import ast, sys
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        ast.parse(file.read(), name)
PY
