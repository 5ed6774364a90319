#!/bin/bash
# demo.sh - what `make demo` runs: the default experiment on the default model, its
# tables, its page. Without network and without the model: the small experiment on the
# model inside the program, saying so.
#
#     tools/demo.sh PROGRAM MODEL
#
# Results stay in build/demo; running it again continues, so it takes seconds. DEMO_ARGS
# goes to `flexbudget run`, as DEMO_ARGS="--samples 8".
#
# SPDX-License-Identifier: MIT
set -euo pipefail

program=$1
model=$2
folder=build/demo
name=default

mkdir -p "$folder"
if ! [ -f "$model" ] && ! tools/fetch_model.sh "$model"; then
    name=recall
    echo "demo: the default model cannot be fetched (no network?);" \
        "running experiments/recall.yaml on the built-in model instead" >&2
fi
FLEXBUDGET_MODELS=$(cd "$(dirname "$model")" 2>/dev/null && pwd || echo "")
export FLEXBUDGET_MODELS

# shellcheck disable=SC2086  # several words are meant
"$program" run "experiments/$name.yaml" -o "$folder/$name.db" ${DEMO_ARGS:-}
echo
"$program" compare "$folder/$name.db"
"$program" report "$folder/$name.db" -o report.html
echo
echo "the page is report.html: open it in a browser"
