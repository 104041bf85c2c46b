#!/bin/bash
# How long a clean default build takes, how big what it installs is, and what its code for NVIDIA's and AMD's GPUs takes. Exit 1 beyond 8 minutes of processor
# time (four on two processors, whatever else they do), where the shared library, with the code of every backend that could be compiled
# here, is beyond 16 MB, or where a kernel spills.
#
#     tools/build_report.sh [JOBS]        JOBS: default the number of processors
set -euo pipefail
cd "$(dirname "$0")/.."
readonly MAX_SECONDS=480 MAX_BYTES=16000000
jobs=${1:-$(nproc)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python=python3
[[ ! -x build/venv/bin/python3 ]] || python=$PWD/build/venv/bin/python3 # of tools/setup.sh, if it has run

clean_build() {
    cmake -S . -B "$scratch/build" -DATTUNE_BUILD_TESTS=OFF "-DPython3_EXECUTABLE=$(command -v "$python")" &&
        cmake --build "$scratch/build" --parallel "$jobs"
}

TIMEFORMAT='%U %S'
if ! { time clean_build >"$scratch/log" 2>&1; } 2>"$scratch/times"; then
    tail -n 40 "$scratch/log" >&2
    exit 1
fi
seconds=$(awk '{ printf "%d", $1 + $2 }' "$scratch/times")
cmake --install "$scratch/build" --strip --prefix "$scratch/prefix" >/dev/null

# bytes PATTERN: of the installed files (not the links to them) whose path matches
bytes() {
    find "$scratch/prefix" -type f -path "$1" -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum }'
}

kernels=$(find "$scratch/build/generated" \( -name 'forward_*.c' -o -name '*.fatbin' -o -name '*.co' \) | wc -l)
echo "clean default build: $seconds s of processor time (at most $MAX_SECONDS s), $kernels kernels compiled"
echo "installed: $(bytes '*') bytes: shared library $(bytes '*.so.*') (at most $MAX_BYTES), static library $(bytes '*.a'), command $(bytes '*/bin/*')"

# check_code TARGET TEST: what the code takes, for the architectures that the build compiled for, as CMake said it
check_code() {
    local target=$1 test=$2 status=0 archs
    archs=$(sed -nE "s/^-- $target: .* compiles for (.*[0-9].*)/\\1/p" "$scratch/log")
    [[ -n $archs ]] || return 0
    IFS=';' read -ra archs <<<"$archs"
    "$python" -B "$test" "$scratch/build/generated/$target" "${archs[@]}" >"$scratch/resources" || status=$?
    [[ $status == 0 ]] && tail -n 1 "$scratch/resources" || cat "$scratch/resources"
    [[ $status == 0 || $status == 77 ]]
}

check_code cuda tests/codegen/test_cuda_resources.py
check_code hip tests/hip/test_resources.py
[[ $seconds -le $MAX_SECONDS ]] && [[ $(bytes '*.so.*') -le $MAX_BYTES ]]
