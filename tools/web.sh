#!/bin/sh
# web.sh - rebuilds web/vega.min.js and web/LICENSES.txt from the packages in the lock
# file; `web.sh --check` compares with what is committed instead.
#
# Needs node and npm; nobody needs this to build or use the program, because the bundle
# is committed. Scripts of packages do not run, but for esbuild's own, which puts its
# binary in place.
#
# SPDX-License-Identifier: MIT
set -eu
cd "$(dirname "$0")/.."
work=build/web
mkdir -p "$work"
cp web/package.json web/package-lock.json web/.npmrc web/entry.js web/licenses.mjs "$work"
cd "$work"
npm ci --ignore-scripts --no-progress
node node_modules/esbuild/install.js
node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=vegaParts \
    --platform=browser --target=es2022 --charset=utf8 --legal-comments=none \
    --log-level=warning --metafile=meta.json --outfile=vega.min.js
node licenses.mjs meta.json >LICENSES.txt
cd ../..
if [ "${1-}" = --check ]; then
    cmp "$work/vega.min.js" web/vega.min.js
    cmp "$work/LICENSES.txt" web/LICENSES.txt
    echo "web/vega.min.js is what the lock file gives"
else
    cp "$work/vega.min.js" "$work/LICENSES.txt" web/
fi
