#!/bin/bash
# with_cuda.sh FOLDER MODE COMMAND...: runs a test on cuda:0 of a stand-in for NVIDIA's driver that executes compiled PTX on the CPU, built in FOLDER
# (driver.sh). Exit 77 (SKIPPED) with a reason without it.
#
#     plain        work-items in a fixed order
#     seed-N       in random order, and switched at every tenth access to shared memory or so
#     race         in a fixed order, with a race detector whose reports are failures
set -euo pipefail

folder=$1 mode=$2
shift 2
. "$(dirname "${BASH_SOURCE[0]}")/driver.sh"

find_driver fakecuda
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || skip "the stand-in driver needs CUDA's headers to build, and there is no nvcc"
build_driver "$folder" NVCC="$nvcc" CUDA="$(dirname "$(dirname "$(realpath "$nvcc")")")"

export PTXEMU_CACHE=$folder/programs FAKECUDA_CC=${FAKECUDA_CC:-90}
case $mode in
plain) ;;
seed-*) export FAKECUDA_SEED=${mode#seed-} FAKECUDA_PREEMPT=100 ;;
race) export FAKECUDA_RACE=1 ;;
*) bad_mode "$mode" ;;
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
