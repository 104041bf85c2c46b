#!/bin/bash
# with_cuda.sh FOLDER MODE COMMAND...: runs a test on cuda:0 of a stand-in for NVIDIA's driver that executes compiled PTX on the CPU. Its source is
# looked for in $ATTUNE_STANDINS, else in ../shared/tools beside the checkout, and built in FOLDER. Exit 77 (SKIPPED) with a reason without it.
#
#     plain        work-items in a fixed order
#     seed-N       in random order, and switched at every tenth access to shared memory or so
#     race         in a fixed order, with a race detector whose reports are failures
set -euo pipefail

folder=$1 mode=$2
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source=${ATTUNE_STANDINS:-$root/../shared/tools}/fakecuda

skip() {
    echo "SKIPPED: $*"
    exit 77
}

[[ -r $source/Makefile ]] || skip "no stand-in driver in $source (ATTUNE_STANDINS names another folder)"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || skip "the stand-in driver needs CUDA's headers to build, and there is no nvcc"

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if ! flock "$folder/lock" make -s -C "$folder" -f "$source/Makefile" OUT="$folder/driver" NVCC="$nvcc" \
    CUDA="$(dirname "$(dirname "$(realpath "$nvcc")")")" >"$folder/make.log" 2>&1; then
    cat "$folder/make.log"
    echo "FAIL: the stand-in driver does not build"
    exit 1
fi

export LD_LIBRARY_PATH=$folder/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PTXEMU_CACHE=$folder/programs ATTUNE_CACHE=$folder/kernels FAKECUDA_CC=${FAKECUDA_CC:-90}
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
case $mode in
plain) ;;
seed-*) export FAKECUDA_SEED=${mode#seed-} FAKECUDA_PREEMPT=100 ;;
race) export FAKECUDA_RACE=1 ;;
*)
    echo "with_cuda.sh: no mode '$mode'" >&2
    exit 2
    ;;
esac

reports=$(mktemp)
trap 'rm -f "$reports"' EXIT
status=0
"$@" 2>"$reports" || status=$?
cat "$reports" >&2
if grep -q 'RACES in' "$reports"; then
    echo "FAIL: the race detector has something to say"
    status=1
fi
exit $status
