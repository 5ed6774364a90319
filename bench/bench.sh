#!/bin/sh
# bench.sh - installs the peers into a virtual environment, then runs bench.py.
set -eu
cd "$(dirname "$0")/.."
venv=build/bench-venv
if [ ! -f $venv/ready ]; then
    echo "installing transformers and kvpress into $venv, building llama.cpp there (once)" >&2
    python3 -m venv $venv
    # llama.cpp from source: with the instructions of this machine
    CMAKE_ARGS="-DLLAVA_BUILD=OFF" $venv/bin/pip install -q --no-binary llama-cpp-python -r bench/requirements.txt
    touch $venv/ready
fi
tools/fetch_model.sh >/dev/null
exec python3 bench/bench.py "$@"
