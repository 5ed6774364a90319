#!/bin/sh
# venv.sh - transformers and kvpress in a virtual environment, installed once; with the
# argument `llama` llama.cpp as well, from source. Prints its Python.
#
# SPDX-License-Identifier: MIT
set -eu
cd "$(dirname "$0")/.."
venv=build/bench-venv
if [ ! -f $venv/ready ] && [ ! -f $venv/torch ]; then
    echo "installing transformers and kvpress into $venv (once)" >&2
    python3 -m venv $venv
    grep -v llama bench/requirements.txt >$venv/requirements.txt
    $venv/bin/pip install -q -r $venv/requirements.txt >&2
    touch $venv/torch
fi
if [ ! -f $venv/ready ] && [ "${1:-}" = llama ]; then
    echo "building llama.cpp in $venv (once)" >&2
    # from source: with the instructions of this machine
    CMAKE_ARGS="-DLLAVA_BUILD=OFF" $venv/bin/pip install -q --no-binary llama-cpp-python -r bench/requirements.txt >&2
    touch $venv/ready
fi
echo $venv/bin/python
