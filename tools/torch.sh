#!/bin/bash
# torch.sh - a PyTorch for the tests of the second backend.
#
#   tools/torch.sh [VERSION]    installs it once: a release such as 2.10, or the newest
#   tools/torch.sh PATH         takes an installed one: a Python interpreter that has it,
#                               or the directory of the package
#
# Prints the path to name in FLEXBUDGET_TORCH, and on stderr which build it is. Releases
# are installed with pip into build/torch-venv or build/torch-venv-VERSION, complete or not
# at all.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
cd "$(dirname "$0")/.."
which=${1:-newest}

# What the tests of the Python module need beside it.
beside=(numpy 'transformers>=4.56')

install() { # FOLDER REQUIREMENT
    local folder=$1 requirement=$2
    [ "$(cat "$folder/complete" 2>/dev/null)" = "$requirement ${beside[*]}" ] && return
    mkdir -p build
    [ -e "$folder/complete" ] || rm -rf "$folder" # half of one, begun and not ended
    echo "installing $requirement into $folder (some GB; log: $folder.log)" >&2
    if ! { python3 -m venv "$folder" &&
        "$folder/bin/pip" install --disable-pip-version-check --no-cache-dir "$requirement" "${beside[@]}"; } \
        >"$folder.log" 2>&1 </dev/null; then
        tail -n 3 "$folder.log" >&2
        echo "torch.sh: could not install $requirement; TORCH=PATH uses an installed one" >&2
        exit 1
    fi
    echo "$requirement ${beside[*]}" >"$folder/complete"
}

build_of() { # PYTHON-OR-DIRECTORY: what the package says about itself, without importing it
    local python=python3 folder=$1
    if [ ! -d "$1" ]; then
        python=$1
        folder=$("$1" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null)
    fi
    [ -f "$folder/version.py" ] || return
    "$python" - "$folder" <<'PY'
import pathlib, runpy, sys
facts = runpy.run_path(str(pathlib.Path(sys.argv[1], "version.py")))
built = [f"{name} {facts[name]}" for name in ("cuda", "hip", "xpu") if facts.get(name)]
print("torch", facts["__version__"], f"({', '.join(built) or 'CPU only'})", "in", sys.argv[1])
PY
}

case $which in
*/*) path=$which ;;
newest) path=$PWD/build/torch-venv && install build/torch-venv 'torch>=2.10' && path=$path/bin/python3 ;;
*) path=$PWD/build/torch-venv-$which && install "build/torch-venv-$which" "torch==$which.*" && path=$path/bin/python3 ;;
esac
if ! build_of "$path" >&2; then
    echo "torch.sh: '$path' has no PyTorch" >&2
    exit 1
fi
echo "$path"
