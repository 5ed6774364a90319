#!/bin/bash
# demo.sh - the default experiment on the default model, and its page.
#
#   tools/demo.sh PROGRAM MODEL
#
# Where the model cannot be fetched, the built-in one takes its place. Continues where an
# earlier run was stopped.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
program=${1:?} model=${2:?}
if tools/fetch_model.sh "$model"; then
    experiment=experiments/default.yaml
else
    echo "demo: going on with the model inside the program, which knows associative recall" >&2
    experiment=experiments/recall.yaml
    model=builtin
fi
results=build/demo-$(basename "$experiment" .yaml).db
"$program" run "$experiment" --model "$model" -o "$results"
"$program" compare "$results"
"$program" report "$results" -o report.html
echo "the page: $PWD/report.html"
