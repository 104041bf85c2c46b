#!/bin/bash
# Sets up the OpenCL runtimes that run the kernels on a machine without a GPU, and prints the environment that selects one:
#
#     eval "$(tools/opencl_runtimes.sh [FOLDER [RUNTIME]])"        FOLDER: build/opencl; RUNTIME: cpu
#
#     cpu        PoCL (Debian: pocl-opencl-icd) and Intel's CPU runtime (PyPI, into FOLDER/venv, 265 MB), both in one process
#     rusticl    Mesa's GPU path on the CPU (mesa-opencl-icd): slow, the limits of a small GPU
#     oclgrind   an interpreter that reports races, bad accesses and uninitialised values on stderr (oclgrind): tiny problems
#     none       a loader without any driver
#
# What is there already is kept. Exit 1 with one sentence where something is missing.
set -euo pipefail

fail() {
    echo "opencl_runtimes.sh: $*" >&2
    exit 1
}

folder=${1:-build/opencl}
runtime=${2:-cpu}
mkdir -p "$folder" || fail "cannot make the folder $folder"
folder=$(cd "$folder" && pwd)

# write_icd FOLDER NAME LIBRARY: a loader told to look into FOLDER finds LIBRARY
write_icd() {
    mkdir -p "$folder/$1"
    echo "$3" >"$folder/$1/$2.icd"
}

# debian_icd FOLDER NAME PACKAGE: the same for a driver that its package has registered
debian_icd() {
    local registered=/etc/OpenCL/vendors/$2.icd
    [[ -r $registered ]] || fail "no $registered: install the package $3"
    write_icd "$1" "$2" "$(cat "$registered")"
}

# The wheels' own .icd file holds a path of the machine that built them.
intel_icd() {
    local library=$folder/venv/lib/libintelocl.so
    if [[ ! -r $library ]]; then
        { python3 -m venv "$folder/venv" &&
            "$folder/venv/bin/pip" install --disable-pip-version-check \
                intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0; } \
            >"$folder/pip.log" 2>&1 && [[ -r $library ]] ||
            fail "Intel's runtime could not be installed from PyPI, see $folder/pip.log"
    fi
    write_icd icd intel "$library"
}

# The interpreter's launcher works by preloading, which dlopen escapes, so it is registered as a driver.
oclgrind_icd() {
    local library
    for library in /usr/lib/oclgrind /usr/lib64/oclgrind /usr/local/lib /usr/lib/*/oclgrind; do
        if [[ -r $library/liboclgrind-rt-icd.so ]]; then
            write_icd icd-oclgrind oclgrind "$library/liboclgrind-rt-icd.so"
            return
        fi
    done
    fail "no liboclgrind-rt-icd.so: install the package oclgrind"
}

# OCLGRIND_BUILD_OPTIONS: version 21.10 does not know some instructions that LLVM's optimiser writes (freeze, noalias scopes).
case $runtime in
cpu)
    debian_icd icd pocl pocl-opencl-icd
    intel_icd
    set -- OCL_ICD_VENDORS="$folder/icd"
    ;;
rusticl)
    debian_icd icd-rusticl rusticl mesa-opencl-icd
    set -- OCL_ICD_VENDORS="$folder/icd-rusticl" RUSTICL_ENABLE=llvmpipe
    ;;
oclgrind)
    oclgrind_icd
    set -- OCL_ICD_VENDORS="$folder/icd-oclgrind" OCLGRIND_DATA_RACES=1 OCLGRIND_UNINITIALIZED=1 \
        OCLGRIND_CHECK_API=1 OCLGRIND_BUILD_OPTIONS=-cl-opt-disable
    ;;
none)
    mkdir -p "$folder/icd-none"
    set -- OCL_ICD_VENDORS="$folder/icd-none"
    ;;
*)
    fail "RUNTIME is cpu, rusticl, oclgrind or none, not $runtime"
    ;;
esac
printf 'export %q\n' "$@"
