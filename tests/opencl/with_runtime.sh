#!/bin/bash
# with_runtime.sh FOLDER RUNTIME COMMAND…: runs a test under one of the runtimes that tools/opencl_runtimes.sh has set up in
# FOLDER. Exit 77 (SKIPPED) with a reason where it is not there; nothing is downloaded here.
folder=$1 runtime=$2
shift 2
tools=$(dirname "${BASH_SOURCE[0]}")/../../tools
if [[ $runtime == cpu && ! -r $folder/icd/intel.icd ]]; then
    echo "SKIPPED: no Intel runtime in $folder; tools/opencl_runtimes.sh $folder installs it"
    exit 77
fi
if ! settings=$("$tools/opencl_runtimes.sh" "$folder" "$runtime" 2>&1); then
    echo "SKIPPED: $settings"
    exit 77
fi
eval "$settings"
# drivers keep memory until the process ends
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
exec "$@"
