#!/bin/bash
# check_headers.sh - every header compiles alone, with gcc and with clang.
#
# Lists (list.h) are tables for a macro that the includer defines: not headers.
#
# SPDX-License-Identifier: MIT
set -uo pipefail
failed=0
read -r -a flags <<<"${CHECK_FLAGS:?}"
for header in include/*.h include/flexbudget/*.h src/*/*.h src/*/*/*.h; do
    target=()
    case $header in
    *'*'* | */list.h) continue ;;
    */isa*.h) target=(-DFB_TARGET=plain -DFB_LANES=4 -DFB_SOFT_FMA=1) ;;
    esac
    for compiler in gcc clang; do
        printf '#include "%s"\nextern int not_empty;\n' "$header" |
            "$compiler" "${flags[@]}" "${target[@]+"${target[@]}"}" -Werror -fsyntax-only -x c - || failed=1
    done
done
exit $failed
