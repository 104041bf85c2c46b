#!/bin/bash
# with_hip.sh FOLDER ARCHITECTURE MODE COMMAND...: runs a test on hip:0 of a stand-in for AMD's runtime that executes compiled code objects on the CPU, as a
# GPU of that architecture, built in FOLDER (driver.sh). Exit 77 (SKIPPED) with a reason without it.
#
#     plain        waves in order, each to its barrier
#     seed-N       in random order, and switched at random
#     race         in order, with a race detector; a launch that it reports fails
#
# ATTUNE_TEST_HIPRTC=1: there must be a compiler at run time too, which is clang-19 with ROCm's device libraries.
set -euo pipefail

folder=$1 architecture=$2 mode=$3
shift 3
. "$(dirname "${BASH_SOURCE[0]}")/driver.sh"

# The stand-in translates code with the tables of a Python package.
find_python() {
    local python
    for python in "${FAKEHIP_PYTHON:-}" "$root/build/venv/bin/python3" python3; do
        if "$python" -c 'import sys, tinygrad; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    return 1
}

find_driver fakehip
FAKEHIP_PYTHON=$(find_python) || skip "the stand-in driver needs a Python from 3.11 on with the package tinygrad"
export FAKEHIP_PYTHON
build_driver "$folder"

if [[ ${ATTUNE_TEST_HIPRTC:-} == 1 ]]; then
    for tool in clang++-19 ld.lld-19 llvm-dis-19 llvm-as-19; do
        command -v "$tool" >/dev/null || skip "no $tool (Debian: clang-19, lld-19, llvm-19)"
    done
    bitcode=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode
    [[ -r $bitcode/oclc_isa_version_940.bc && -r /usr/include/hip/hip_runtime.h ]] ||
        skip "no device libraries and headers of ROCm (Debian: rocm-device-libs, libamdhip64-dev)"
    flock "$folder/lock" bash "$source/mkbitcode.sh" 19 "$folder/bitcode" >"$folder/bitcode.log" 2>&1 ||
        { cat "$folder/bitcode.log" && exit 1; }
    export CLANG=clang++-19 BITCODE=$folder/bitcode
fi

# What the stand-in translates code to runs for less time here than gcc takes to optimise it well.
cc=$folder/quick-cc
[[ -x $cc ]] || { printf '#!/bin/sh\nexec gcc "$@" -O1 -fno-tree-vectorize\n' >"$cc.$$" && chmod +x "$cc.$$" && mv "$cc.$$" "$cc"; }
export FAKEHIP_CC=$cc

export FAKEHIP_ARCH=$architecture FAKEHIP_CACHE=$folder/programs
case $mode in
plain) ;;
seed-*) export FAKEHIP_SEED=${mode#seed-} ;;
race) export FAKEHIP_RACE=2 ;;
*) bad_mode "$mode" ;;
esac
exec "$@"
