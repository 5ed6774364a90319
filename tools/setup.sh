#!/bin/bash
# setup.sh - finds what a build needs and installs what is missing.
#
#   tools/setup.sh GROUP...      build | test | model | torch | check | cross | browser
#
# Silent when everything is there. As root on a Debian system the missing packages are
# installed (the log is build/setup.log); otherwise the one command that would do it is
# printed and the exit status is 2. A stamp per group makes the next call cheap.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { # PACKAGES COMMAND...: the packages are needed unless the command succeeds
    local packages=$1
    shift
    if ! "$@" >/dev/null 2>&1; then
        # shellcheck disable=SC2206 # one word per package
        missing+=($packages)
    fi
}
has() { command -v "$1"; }
has_library() { pkg-config --exists "$1"; }
has_compiler() { echo '#include <stdio.h>' | "${CC:-gcc}" -E -; }

find_missing() { # GROUP
    case $1 in
    build)
        need "gcc libc6-dev" has_compiler
        need make has make
        need pkg-config has pkg-config
        need libsqlite3-dev has_library sqlite3
        need libjansson-dev has_library jansson
        need libyaml-dev has_library yaml-0.1
        need libpcre2-dev has_library libpcre2-8
        need libutf8proc-dev has_library libutf8proc
        ;;
    test)
        need libcmocka-dev has_library cmocka
        need python3 has python3
        ;;
    model) # the default model is a file in a Python package
        need python3-pip python3 -m pip --version
        need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
        ;;
    torch) # PyTorch itself is tools/torch.sh's
        need python3-venv python3 -m ensurepip --version
        need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
        ;;
    check)
        for tool in clang clang-format clang-tidy shellcheck; do need "$tool" has "$tool"; done
        need binutils has nm
        need python3 has python3
        ;;
    cross)
        need "gcc-aarch64-linux-gnu libc6-dev-arm64-cross" has aarch64-linux-gnu-gcc
        need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/lib/libc.a
        need qemu-user-static has qemu-aarch64-static
        ;;
    browser)
        need chromium has chromium
        need nodejs has node
        ;;
    *)
        echo "setup.sh: unknown group '$1'; build, test, model, torch, check, cross or browser" >&2
        exit 2
        ;;
    esac
}

install_missing() {
    if [ "$(id -u)" -ne 0 ] || ! has apt-get >/dev/null; then
        {
            echo "Some packages are missing. On Debian or Ubuntu this installs them:"
            echo "    sudo apt-get install ${missing[*]}"
        } >&2
        exit 2
    fi
    echo "installing ${missing[*]} (log: build/setup.log)" >&2
    export DEBIAN_FRONTEND=noninteractive
    if ! {
        apt-get update -q &&
            apt-get install -q -y --no-install-recommends "${missing[@]}"
    } >>build/setup.log 2>&1 </dev/null; then
        tail -n 15 build/setup.log >&2
        echo "setup.sh: could not install ${missing[*]}" >&2
        exit 1
    fi
}

mkdir -p build
groups=()
for group in "$@"; do
    [ "build/.setup-$group" -nt tools/setup.sh ] || groups+=("$group")
done
for group in "${groups[@]+"${groups[@]}"}"; do find_missing "$group"; done
if [ "${#missing[@]}" -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    install_missing
fi
for group in "${groups[@]+"${groups[@]}"}"; do touch "build/.setup-$group"; done
