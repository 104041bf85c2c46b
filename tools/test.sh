#!/bin/bash
# Installs what is missing, builds, and runs everything: every test, sanitizers, a second compiler, a second architecture, formatting, and the
# size and time of a build. Exit 0 only where all of it passed and no test was left out that this machine must run: what needs the cpu,
# PoCL or Intel's OpenCL runtime.
#
#     tools/test.sh [SECTION]...       all sections, or those named: formatting tests sanitizers second_compiler second_architecture build_report
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=$PWD/build/venv/bin/python3
JOBS=$(nproc)
readonly PYTHON JOBS
readonly LOGS=build/logs

fail() {
    echo "FAIL $*"
    return 1
}

# quietly LOG COMMAND...: shows the end of its output only where it fails
quietly() {
    local log=$LOGS/$1.log
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -n 60 "$log"
        fail "$*: all of its output is in $log"
    fi
}

# build PRESET: into build/PRESET
build() {
    if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
    quietly "$1-configure" cmake --preset "$1" "-DPython3_EXECUTABLE=$PYTHON" || return
    quietly "$1-build" cmake --build "build/$1" --parallel "$JOBS"
}

# run_tests PRESET OPTION...: ctest; a test that is skipped fails unless it belongs to a runtime that not every system has
run_tests() {
    local preset=$1 status=0 skipped
    shift
    ctest --test-dir "build/$preset" --parallel "$JOBS" --output-on-failure --no-tests=error "$@" |
        tee "$LOGS/$preset-ctest.log" || status=1
    skipped=$(sed -nE 's/^.* Test +#[0-9]+: ([^ ]+) .*\*\*\*(Skipped|Not Run).*/\1/p' "$LOGS/$preset-ctest.log" |
        grep -vE 'rusticl|oclgrind|standin' || true)
    [[ -z $skipped ]] || fail "skipped: ${skipped//$'\n'/ }" || status=1
    return $status
}

# ---- sections ----

tests() {
    build test && run_tests test
}

# What neither the compiler nor the processor touches, and runtimes that are slow, run once: in `tests`. bf16 goes the way of f16, and where bits are
# compared, one dtype is enough for sanitizers and the second compiler, whose bits in all dtypes same_bits_as_here compares.
readonly ELSEWHERE='rusticl|oclgrind|standin|suite_.*_cpu|suite_long|codegen|layering|shared_text|readme'

sanitizers() {
    build asan && run_tests asan --label-exclude slow --exclude-regex "$ELSEWHERE|same_bits_f|suite_bf16$"
}

# same_bits_as_here NAME COMMAND...: another build of tests/suite/same_bits gives the bits of the one in build/test
same_bits_as_here() {
    local name=$1 inputs=(--devices cpu --problem-file tests/problems/tiny.txt --problem-file tests/problems/masks.txt
        --fill "normal,ramp,outlier,poison" --dtype all --hash)
    shift
    build/test/tests/suite/same_bits "${inputs[@]}" >"$LOGS/hashes-here" || return
    "$@" "${inputs[@]}" >"$LOGS/hashes-$name" || return
    diff "$LOGS/hashes-here" "$LOGS/hashes-$name" || fail "$name gives other bits" || return
    echo "$name: the same bits for $(wc -l <"$LOGS/hashes-here") inputs"
}

second_compiler() {
    build test && build clang && run_tests clang --label-exclude slow --exclude-regex "$ELSEWHERE|opencl_|same_bits_f|suite_bf16$" &&
        same_bits_as_here clang build/clang/tests/suite/same_bits
}

# The library for aarch64, under an emulator.
second_architecture() {
    local suite=tests/suite emulate=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
    build test && build aarch64 || return
    quietly aarch64-suite aarch64-linux-gnu-gcc -std=c11 -D_POSIX_C_SOURCE=200809L -O1 -Iinclude \
        $suite/same_bits.c $suite/device.c $suite/options.c $suite/tensors.c \
        -o build/aarch64/same_bits build/aarch64/libattune.a -lgomp -lpthread -ldl -lm || return
    "${emulate[@]}" build/aarch64/bin/attune devices | grep '^cpu.*aarch64' || return
    same_bits_as_here aarch64 "${emulate[@]}" build/aarch64/same_bits
}

formatting() {
    local clang_format=clang-format
    if command -v clang-format-14 >/dev/null; then clang_format=clang-format-14; fi
    git ls-files '*.c' '*.h' ':!tests/golden' | xargs "$clang_format" --dry-run -Werror || return
    "$PYTHON" -m ruff format --check . && "$PYTHON" -m ruff check .
}

build_report() {
    tools/build_report.sh
}

# ---- the run ----

readonly ALL=(formatting tests sanitizers second_compiler second_architecture build_report)
chosen=("${@:-${ALL[@]}}")
for section in "${chosen[@]}"; do
    [[ " ${ALL[*]} " == *" $section "* ]] || { echo "test.sh: no section '$section'; there are: ${ALL[*]}" >&2 && exit 2; }
done

echo "==== setup"
begin=$SECONDS
tools/setup.sh test
mkdir -p "$LOGS"
summary=("$(printf '%-20s %5d s  passed' setup $((SECONDS - begin)))")
passed=0 failed=0
for section in "${chosen[@]}"; do
    echo
    echo "==== $section"
    begin=$SECONDS
    if "$section"; then
        result=passed passed=$((passed + 1))
    else
        result=FAILED failed=$((failed + 1))
    fi
    summary+=("$(printf '%-20s %5d s  %s' "$section" $((SECONDS - begin)) $result)")
done

echo
echo "==== summary"
printf '%s\n' "${summary[@]}"
printf '%-20s %5d s\n' all "$SECONDS"
echo "sections: $passed passed, $failed failed"
[[ $failed == 0 ]]
