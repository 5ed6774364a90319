#!/bin/sh
# bench.sh - installs the peers into a virtual environment, then runs bench.py.
set -eu
cd "$(dirname "$0")/.."
venv=build/bench-venv
if [ ! -f $venv/ready ]; then
    echo "installing transformers and kvpress into $venv (once)" >&2
    python3 -m venv $venv
    $venv/bin/pip install -q -r bench/requirements.txt
    touch $venv/ready
fi
tools/fetch_model.sh >/dev/null
exec python3 bench/bench.py "$@"
