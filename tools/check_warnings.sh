#!/bin/bash
# check_warnings.sh - gcc and clang are silent on every C file, or this fails.
#
# gcc has to optimise to see some of its warnings; clang sees all of its own without.
# `check_warnings.sh FILE` is one file; without one, all of them.
#
# SPDX-License-Identifier: MIT
set -uo pipefail
cd "$(dirname "$0")/.." || exit
read -r -a flags <<<"${CHECK_FLAGS:?}"
flags+=(-Werror '-DFB_CORPUS=""')
if [ $# -eq 0 ]; then
    mapfile -t files < <(find src rules tasks tests tools -name '*.c' 2>/dev/null | sort)
    printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 "$0"
    exit
fi
case $1 in
src/ops/native/isa_*) flags+=(-DFB_TARGET=plain -DFB_LANES=4 -DFB_SOFT_FMA=1) ;;
esac
clang "${flags[@]}" -fsyntax-only "$1" && gcc "${flags[@]}" -g0 -O2 -S -o /dev/null "$1"
