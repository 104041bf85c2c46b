#!/bin/bash
# Installs what is missing to build Attune and run its demo, or with `test` its tests too:
#
#     tools/setup.sh [demo|test]
#
# Debian and Ubuntu: packages by apt-get (as root, or with sudo). Elsewhere it says what to install and goes on. Python packages go into
# build/venv, Intel's OpenCL runtime for CPUs (test) into build/opencl. Where nothing is missing it needs neither root nor network.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MODE=${1:-demo}
readonly VENV=build/venv
# A formatter's release decides what is well formatted, and one release has the tables of AMD's instructions that the stand-in driver reads.
readonly RUFF=ruff==0.17.6 TINYGRAD=tinygrad==0.14.0

say() {
    echo "setup.sh: $*" >&2
}

fail() {
    say "$*"
    exit 1
}

# retry COMMAND...: networks fail for a moment
retry() {
    local pause
    for pause in 5 20 60; do
        "$@" && return
        say "'$*' failed, once more in $pause s"
        sleep "$pause"
    done
    "$@"
}

# ---- packages ----

# Debian's package, RHEL's (EPEL and CRB enabled; - where there is none), and the command or file that shows it is there
packages_demo() {
    cat <<'END'
gcc                    gcc                gcc
binutils               binutils           objcopy
libc6-dev              glibc-devel        /usr/include/stdio.h
cmake                  cmake              cmake
ninja-build            ninja-build        ninja
ocl-icd-libopencl1     ocl-icd            /usr/lib*/libOpenCL.so.1|/usr/lib/*/libOpenCL.so.1
pocl-opencl-icd        pocl               /etc/OpenCL/vendors/pocl.icd
libsqlite3-0           sqlite-libs        /usr/lib*/libsqlite3.so.0|/usr/lib/*/libsqlite3.so.0
END
}

packages_test() {
    packages_demo
    cat <<'END'
git                    git                git
g++                    gcc-c++            g++
libcmocka-dev          libcmocka-devel    /usr/include/cmocka.h
pkg-config             pkgconf            pkg-config
clang                  clang              clang
libomp-dev             libomp-devel       /usr/lib/llvm*/lib/libomp.so|/usr/lib*/libomp.so
clang-format           clang-tools-extra  clang-format
oclgrind               oclgrind           oclgrind
mesa-opencl-icd        mesa-libOpenCL     /etc/OpenCL/vendors/rusticl.icd
gcc-aarch64-linux-gnu  -                  aarch64-linux-gnu-gcc
libc6-dev-arm64-cross  -                  /usr/aarch64-linux-gnu/include/stdio.h
qemu-user              qemu-user          qemu-aarch64
valgrind               valgrind           valgrind
END
}

# What compiles for AMD's GPUs, ahead of time and at run time. Not every system has these, and without them tests are skipped.
packages_amd() {
    [[ $MODE == test ]] && cat <<'END'
clang-19               -                  clang++-19
lld-19                 -                  ld.lld-19
llvm-19                -                  llvm-dis-19
rocm-device-libs       -                  /usr/lib/*/amdgcn/bitcode/ockl.bc
libamdhip64-dev        -                  /usr/include/hip/hip_runtime.h
END
}

# is_there PROOF: a command, or a pattern of files
is_there() {
    case $1 in
    /*) compgen -G "${1%%|*}" >/dev/null || compgen -G "${1##*|}" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# absent COLUMN: of packages on stdin those (1: Debian's names, 2: RHEL's) that are not there
absent() {
    local debian rhel proof
    while read -r debian rhel proof; do
        is_there "$proof" || { [[ $1 == 1 ]] && echo "$debian" || echo "$rhel"; }
    done
}

missing() {
    packages_"$MODE" | absent "$1"
    usable_python >/dev/null || { [[ $1 == 1 ]] && echo python3-venv || echo python3; }
}

# missing_amd: those that are not there and that the system has
missing_amd() {
    local package
    for package in $(packages_amd | absent 1); do
        ! apt-cache show "$package" >/dev/null 2>&1 || echo "$package"
    done
}

apt() {
    local root=()
    if [[ $(id -u) != 0 ]]; then
        command -v sudo >/dev/null || fail "not root and no sudo: install these yourself: $(missing 1 | xargs)"
        root=(sudo)
    fi
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >>build/apt.log 2>&1
}

refresh_and_install() {
    apt update && apt install -y --no-install-recommends "$@"
}

install_packages() {
    local wanted
    mapfile -t wanted < <(missing 1)
    [[ ${#wanted[@]} == 0 ]] && return
    if command -v apt-get >/dev/null; then
        say "installing ${wanted[*]}"
        retry refresh_and_install "${wanted[@]}" || fail "apt-get could not install ${wanted[*]}, see build/apt.log"
    else
        say "not found here; on RHEL 9: dnf install $(missing 2 | grep -v '^-$' | xargs) (some come from CRB and EPEL)"
    fi
}

install_packages_amd() {
    local wanted
    command -v apt-cache >/dev/null || return 0
    mapfile -t wanted < <(missing_amd)
    [[ ${#wanted[@]} == 0 ]] && return
    say "installing ${wanted[*]}"
    retry refresh_and_install "${wanted[@]}" || say "apt-get could not install ${wanted[*]}, see build/apt.log; tests are skipped without"
}

# ---- Python ----

# The first Python of at least 3.9 that can make virtual environments; the one in the PATH need not be the system's.
usable_python() {
    local python
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

# has MODULE...: whether the environment has them all
has() {
    local module
    for module; do
        "$VENV/bin/python3" -c "import $module" 2>/dev/null || return
    done
}

# has_tools NAME...: whether NVIDIA's packages in the environment have them all
has_tools() {
    local tool
    for tool; do
        compgen -G "$VENV/lib/python3*/site-packages/nvidia/*/bin/$tool" >/dev/null || return
    done
}

install_python() {
    local python modules=(jinja2) packages=('jinja2>=3') tools=()
    if ! has sys; then
        python=$(usable_python) || fail "no Python of at least 3.9 with venv: install python3 and python3-venv"
        rm -rf "$VENV"
        "$python" -m venv "$VENV" || fail "'$python -m venv' failed: install python3-venv"
    fi
    if ! has tomllib; then
        modules+=(tomli)
        packages+=(tomli)
    fi
    if [[ $MODE == test ]]; then
        modules+=(numpy ruff)
        packages+=(numpy "$RUFF")
        # what reads the machine code of NVIDIA's compiler
        if is_there nvcc || is_there /usr/local/cuda/bin/nvcc; then tools=(cuobjdump nvdisasm); fi
        packages+=("${tools[@]/#/nvidia-cuda-}")
        # what the stand-in for AMD's runtime reads machine code with
        if "$VENV/bin/python3" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            modules+=(tinygrad)
            packages+=("$TINYGRAD")
        fi
    fi
    has "${modules[@]}" && has_tools "${tools[@]}" && return
    say "installing ${packages[*]} into $VENV"
    retry "$VENV/bin/python3" -m pip install --quiet --disable-pip-version-check "${packages[@]}" ||
        fail "pip could not install ${packages[*]}"
}

[[ $MODE == demo || $MODE == test ]] || fail "usage: tools/setup.sh [demo|test]"
mkdir -p build
install_packages
install_packages_amd
install_python
if [[ $MODE == test ]]; then
    PATH=$PWD/$VENV/bin:$PATH retry tools/opencl_runtimes.sh build/opencl cpu >/dev/null
fi
