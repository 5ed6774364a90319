#!/bin/bash
# gpu_check.sh - what a machine with a GPU must show, in under nine minutes.
#
#   tools/gpu_check.sh pack [MODEL]  what was built here and is needed there, in build/gpu-check
#   tools/gpu_check.sh [DEVICE]      there: runs everything on DEVICE (torch:cuda:0)
#
# PyTorch is that of FLEXBUDGET_TORCH, of the active virtual environment or of python3.
# The machine needs neither a compiler nor a network: `pack` copies the program, the tests
# and their libraries. Without a pack, or where the build is newer, what was built is used. MODEL (a GGUF file) adds
# times of a real model. Each step prints a line; the last is "N passed, N failed". Logs go
# to $OUT, or build/gpu-check-log.
#
# SPDX-License-Identifier: MIT
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
pack=build/gpu-check
build=${FLEXBUDGET_BUILD:-build/release}
tests=(ops/test_conformance ops/test_attention ops/test_batches torch/test_two_backends torch/test_cells torch/test_rows)

copy() { # FILE FOLDER: with the libraries it is linked with, but for those of the system
    mkdir -p "$2" "$pack/lib"
    cp "$1" "$2/"
    ldd "$1" | awk '$3 ~ /^\// { print $3 }' | grep -vE '/(libc|libm|libpthread|libdl|librt)\.so' |
        xargs -r cp -t "$pack/lib"
}

if [ "${1:-}" = pack ]; then
    set -e
    for file in flexbudget bench/engine_bench "${tests[@]/#/tests/}"; do
        [ -x "$build/$file" ] && continue
        echo "gpu_check.sh: there is no $build/$file; make it first, as the others: make all $build/bench/engine_bench" \
            "${tests[*]/#/$build/tests/}" >&2
        exit 1
    done
    rm -rf "$pack"
    copy "$build/flexbudget" "$pack"
    copy "$build/bench/engine_bench" "$pack"
    for test in "${tests[@]}"; do copy "$build/tests/$test" "$pack/tests"; done
    if [ -n "${2:-}" ]; then cp "$2" "$pack/model.gguf"; fi
    du -sh "$pack"
    exit
fi

device=${1:-torch:cuda:0}
out=${OUT:-build/gpu-check-log}
mkdir -p "$out"
if [ -d $pack ] && [ ! "$build/flexbudget" -nt $pack/flexbudget ]; then
    program=$pack/flexbudget bench=$pack/engine_bench
    export LD_LIBRARY_PATH=$PWD/$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    test_of() { echo "$pack/tests/${1##*/}"; }
else
    program=$build/flexbudget bench=$build/bench/engine_bench
    test_of() { echo "$build/tests/$1"; }
fi
export FLEXBUDGET_TEST_DEVICE=$device
passed=0 failed=0

step() { # NAME COMMAND...
    local name=$1 start=$SECONDS
    shift
    # through a shell of its own: `timeout` knows no functions
    if timeout 240 bash -c '"$@"' step "$@" >"$out/$name.log" 2>&1; then
        passed=$((passed + 1))
        printf '%-22s passed  %4d s\n' "$name" $((SECONDS - start))
    else
        failed=$((failed + 1))
        printf '%-22s FAILED  %4d s  %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$out/$name.log")"
    fi
}

has_device() { # by doctor, which says why not
    "$program" doctor >"$out/doctor.txt"
    "$program" doctor --json | grep -F "\"$device\"" || {
        sed -n '/^torch/p; /^ *devices/p' "$out/doctor.txt"
        return 1
    }
}

recall() { # DEVICE FILE OPTION...: the built-in model under every rule
    local where=$1 file=$2
    shift 2
    "$program" run experiments/recall.yaml --device "$where" -o "$out/$file" "$@"
}

agree() { # A B: the two runs, cell by cell; a mean may be 1e-3 nat apart
    "$program" compare "$out/$1" "$out/$2" --across-backends &&
        "$program" compare "$out/$1" "$out/$2" --across-backends --json >"$out/$2.json" &&
        python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
sys.exit(not rows or max(abs(r["difference"]) for r in rows) > 1e-3)' "$out/$2.json"
}

time_of() { # NAME ARGUMENT...: seconds of a pass or of a step of the real model
    local name=$1
    shift
    step "$name" env FLEXBUDGET_DEVICE="$device" "$bench" "$model" 2 "$@"
    grep -o '"seconds":[0-9.e-]*' "$out/$name.log"
}

export program out device
export -f has_device recall agree
nvidia-smi >"$out/nvidia-smi.txt" 2>&1
rm -f "$out"/*.db
step device has_device
for test in "${tests[@]}"; do step "${test##*/}" "$(test_of "$test")"; done
step run-native recall cpu native.db
step run-device recall "$device" device.db
step across agree native.db device.db
# one device twice, and with the host: layers in parts
step run-parts recall "$device,${device#torch:}" parts.db
step across-parts agree native.db parts.db
step run-host-too recall "$device,cpu" host.db
step across-host agree native.db host.db
step run-bf16 recall "$device" bf16.db --precision bf16 --cache bf16
step run-f16 recall "$device" f16.db --precision f16 --cache f16
cat "$out"/across*.log
model=$pack/model.gguf
if [ -f $model ]; then
    time_of context context 2048
    time_of decode1 decode 1 2048 32
    time_of decode32 decode 32 2048 32
fi
echo "logs: $out"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
