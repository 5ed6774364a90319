#!/bin/sh
# bench.sh - installs the peers into a virtual environment, then runs bench.py.
set -eu
cd "$(dirname "$0")/.."
bench/venv.sh llama >/dev/null
tools/fetch_model.sh >/dev/null
exec python3 bench/bench.py "$@"
