#!/bin/bash
# digest_probe.sh - the same cells on every CPU there is: the digests must be equal.
#
#   tools/digest_probe.sh NATIVE AARCH64
#
# NATIVE runs once for each instruction set that this CPU has, AARCH64 under qemu. A
# probe takes the name of an instruction set and prints its digest. The last line is
# "N passed, N failed".
#
# SPDX-License-Identifier: MIT
set -uo pipefail
native=${1:?} aarch64=${2:?}
if [ ! -e "$native" ]; then
    echo "1 skipped: tests/probe has no probe yet"
    echo "0 passed, 0 failed"
    exit 0
fi
passed=0 failed=0 skipped=() first=

compare() { # NAME COMMAND...
    local name=$1 digest status
    shift
    digest=$("$@" 2>&1)
    status=$?
    echo "$name: $digest"
    : "${first:=$digest}"
    if [ $status -eq 0 ] && [ -n "$digest" ] && [ "$digest" = "$first" ]; then
        passed=$((passed + 1))
    else
        echo "$name: exit status $status, or another digest than the first one's"
        failed=$((failed + 1))
    fi
}

try() { # SET FLAG...: the set, if the CPU has all these flags
    local set=$1 flag
    shift
    for flag in "$@"; do
        grep -qw "$flag" /proc/cpuinfo && continue
        skipped+=("no $set on this CPU")
        return
    done
    compare "$set" "$native" "$set"
}

if [ "$(uname -m)" = x86_64 ]; then
    try plain
    try avx2 avx2 fma
    try avx512 avx512f avx512bw avx512dq avx512vl
fi
if [ "$(uname -m)" = aarch64 ]; then
    compare aarch64 "$aarch64" neon
elif command -v qemu-aarch64-static >/dev/null; then
    compare aarch64 qemu-aarch64-static "$aarch64" neon
else
    skipped+=("no qemu-aarch64-static")
fi
if [ ${#skipped[@]} -gt 0 ]; then
    printf '%d skipped: ' ${#skipped[@]}
    printf '%s; ' "${skipped[@]}" | sed 's/; $/\n/'
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
