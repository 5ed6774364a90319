#!/bin/bash
# check_symbols.sh - what the object files call, and what the library exports.
#
#   malloc and its kin      base/memory.o and large.o alone, so that every byte has an account
#   exit, abort, stdout     base/error.o alone; the library never prints and never ends
#   libm                    not where bits are promised: functions of our own instead
#   names                   everything that other files can see starts with fb_
#   exports                 the program: what loaded rules call (error.h, op.h, rule.h);
#                           libflexbudget.so: that, and what embed.h declares
#
# SPDX-License-Identifier: MIT
set -uo pipefail
root=$PWD
cd "${BUILD:?}/obj" || exit 1
failed=0

library() { # FOLDER...: object files in them
    find "$@" -name '*.o' 2>/dev/null | sort
}
report() { # WHY: lines "FILE SYMBOL"
    local file symbol
    while read -r file symbol; do
        echo "$file: $symbol: $1"
        failed=1
    done
}
declares() { # HEADER...: functions that they declare
    (cd "$root/include/flexbudget" && sed 's,/\*.*,,' "$@") |
        sed -nE '/^(typedef|#| \*)/d; s/^(FB_EXPORT |FB_MUST_USE )*[a-z].*[ *](fb_[a-z0-9_]+)\(.*/\2/p' | sort -u
}
exports() { # FILE: but for what the C compiler puts into every program
    nm -D --defined-only "$1" | sed 's/.* //' |
        grep -vE '^(_IO_stdin_used|__bss_start|__data_start|data_start|_edata|_end|_start)$' | sort
}
calls() { # PATTERN: reads files, writes "FILE SYMBOL" of undefined symbols that match
    xargs nm -A -u | sed -nE "s/^([^:]*): +U ($1)(@.*)?\$/\1 \2/p"
}

parts=(src/base src/ops src/model src/cache src/rule src/select src/engine src/task
    src/stats src/store src/spec src/experiment src/report src/embed rules tasks)

report "memory comes from base/memory.h" < <(
    library "${parts[@]}" | grep -v -e '^src/base/memory.o$' -e '^src/base/large.o$' |
        calls 'malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|strdup|strndup|v?asprintf|getline')
report "the library returns a status and does not print" < <(
    library "${parts[@]}" | grep -v '^src/base/error.o$' |
        calls 'exit|_exit|abort|stdout|stderr|puts|putchar|v?printf|perror|__assert_fail')
report "libm differs between machines; use the functions of ops/" < <(
    library src/ops src/model src/cache src/rule src/select src/engine rules |
        calls '(exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|cbrt|hypot|fma|sqrt|tgamma|lgamma)[fl]?')
report "names that others see start with fb_" < <(
    library "${parts[@]}" | xargs nm -A -g --defined-only |
        sed -nE 's/^([^:]*):[0-9a-f]+ [A-Z] (.*)$/\1 \2/p' | grep -v ' fb_')
report "the program exports what error.h, op.h and rule.h declare, nothing else" < <(
    { exports ../flexbudget && declares error.h op.h rule.h; } | sort | uniq -u | sed 's/^/flexbudget /')
shared=../libflexbudget.so
if [ -e $shared ]; then
    report "libflexbudget.so exports what loaded rules call and embed.h declares, nothing else" < <(
        { exports $shared && declares error.h op.h rule.h embed.h; } | sort | uniq -u | sed 's/^/libflexbudget.so /')
    report "libflexbudget.so is linked with the C library alone" < <(
        readelf -d $shared | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | grep -vE '^(libc|ld-linux[^.]*)\.so' |
            sed 's/^/libflexbudget.so /')
fi
exit $failed
