#!/bin/bash
# check_symbols.sh - what the object files call, and what the library exports.
#
#   malloc and its kin      base/memory.o alone, so that every byte has an account
#   exit, abort, stdout     base/error.o alone; the library never prints and never ends
#   libm                    not where bits are promised: functions of our own instead
#   names                   everything that other files can see starts with fb_
#
# SPDX-License-Identifier: MIT
set -uo pipefail
objects=${BUILD:?}/obj
failed=0

calls() { # FILE: undefined symbols, without versions
    nm -u "$1" | sed -n 's/^ *U \([A-Za-z_0-9]*\).*/\1/p'
}
forbid() { # PATTERN WHY FILE...
    local pattern=$1 why=$2 file found
    shift 2
    for file in "$@"; do
        found=$(calls "$file" | grep -xE "$pattern" | tr '\n' ' ')
        if [ -n "$found" ]; then
            echo "${file#"$objects"/}: calls $found- $why"
            failed=1
        fi
    done
}
list() { # FOLDER...: object files in them, but for FOLDER=... given in $skip
    local folder
    for folder in "$@"; do
        find "$objects/$folder" -name '*.o' 2>/dev/null
    done | grep -v -e "/${skip:-none}\$" | sort
}

mapfile -t all < <(skip=memory.o list src/{base,ops,model,cache,rule,select,engine,task,stats,store,experiment,report} rules tasks)
forbid 'malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf|vasprintf|getline' \
    "memory comes from base/memory.h" "${all[@]}"
mapfile -t all < <(skip=error.o list src/{base,ops,model,cache,rule,select,engine,task,stats,store,experiment,report} rules tasks)
forbid 'exit|_exit|abort|stdout|stderr|puts|putchar|printf|vprintf|perror|__assert_fail' \
    "the library returns a status and does not print" "${all[@]}"
mapfile -t all < <(list src/{ops,model,cache,rule,select,engine} rules)
forbid '(exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|cbrt|hypot|fma|sqrt|tgamma|lgamma)[fl]?' \
    "libm differs between machines; use the functions of ops/" "${all[@]}"
mapfile -t all < <(list src rules tasks | grep -v '/src/cli/')
for file in "${all[@]}"; do
    names=$(nm -g --defined-only "$file" | awk '{print $3}' | grep -v '^fb_' | tr '\n' ' ')
    if [ -n "$names" ]; then
        echo "${file#"$objects"/}: $names- names that others see start with fb_"
        failed=1
    fi
done
exit $failed
