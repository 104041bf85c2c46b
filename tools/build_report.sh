#!/bin/bash
# How long a default build takes from clean, and how big what it installs is. Exit 1 beyond 3 minutes (on two cores or more) or 10 MB.
#
#     tools/build_report.sh        after tools/setup.sh
set -euo pipefail
cd "$(dirname "$0")/.."
readonly BUILD=build/report MAX_SECONDS=180 MAX_BYTES=10000000

rm -rf "$BUILD"
begin=$SECONDS
cmake --preset default -B "$BUILD" -DATTUNE_BUILD_TESTS=OFF "-DPython3_EXECUTABLE=$PWD/build/venv/bin/python3" >/dev/null
cmake --build "$BUILD" --parallel "$(nproc)" >/dev/null
seconds=$((SECONDS - begin))
cmake --install "$BUILD" --strip --prefix "$BUILD/prefix" >/dev/null

# sum PATTERN: bytes of the installed files whose path matches
sum() {
    find "$BUILD/prefix" -type f -path "$1" -printf '%s\n' | awk '{ bytes += $1 } END { printf "%d", bytes }'
}

all=$(sum '*')
echo "build from clean: $seconds s on $(nproc) processors (at most $MAX_SECONDS s)"
echo "installed: $all bytes (at most $MAX_BYTES): shared library $(sum '*.so.*'), static library $(sum '*.a'), command $(sum '*/bin/*')"
[[ $seconds -le $MAX_SECONDS || $(nproc) -lt 2 ]] && [[ $all -le $MAX_BYTES ]]
