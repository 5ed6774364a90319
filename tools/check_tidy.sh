#!/bin/bash
# check_tidy.sh - clang-tidy on every C file of the library and the program.
#
# What is looked for stands in .clang-tidy. A file that has not changed since it passed,
# nor any header, is not looked at again. `check_tidy.sh FILE` is one file.
#
# SPDX-License-Identifier: MIT
set -uo pipefail
cd "$(dirname "$0")/.." || exit
stamps=build/tidy
mkdir -p "$stamps"
if [ $# -eq 0 ]; then
    newest=$(find include src rules .clang-tidy compile_flags.txt tools/tidy.h -type f ! -name '*.c' -printf '%T@ %p\n' |
        sort -n | tail -n 1 | cut -d' ' -f2-)
    stale=()
    while read -r file; do
        stamp=$stamps/${file//\//_}
        [ "$stamp" -nt "$file" ] && [ "$stamp" -nt "$newest" ] || stale+=("$file")
    done < <(find src rules tasks -name '*.c' 2>/dev/null | sort)
    printf '%s\n' "${stale[@]+"${stale[@]}"}" | xargs -r -P "$(nproc)" -n 1 "$0"
    exit
fi
# A bound on the paths through one function; the default is 225000 and takes three times
# as long, for no further finding.
bound=()
for word in -Xclang -analyzer-config -Xclang max-nodes=50000; do bound+=("--extra-arg=$word"); done
before=(--extra-arg-before=-include --extra-arg-before=tools/tidy.h)
[ "$1" != src/base/error.c ] || before=()
clang-tidy --quiet "${bound[@]}" "${before[@]+"${before[@]}"}" "$1" 2>"$stamps/stderr.$$"
status=$?
grep -v -e 'warnings\? generated' -e 'warnings\? treated' "$stamps/stderr.$$" >&2
rm -f "$stamps/stderr.$$"
[ $status -eq 0 ] && touch "$stamps/${1//\//_}"
