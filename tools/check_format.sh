#!/bin/bash
# check_format.sh - the layout is clang-format's; `make check-format FIX=1` applies it.
#
# Tables (list.h) are aligned by hand and left out.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
mapfile -t files < <(find include src rules tasks examples tests tools -name '*.[ch]' ! -name list.h 2>/dev/null | sort)
if [ -n "${FIX-}" ]; then
    clang-format -i "${files[@]}"
else
    clang-format --dry-run -Werror "${files[@]}"
fi
