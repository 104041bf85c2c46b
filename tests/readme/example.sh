#!/bin/bash
# example.sh CMAKE BUILD EXAMPLES WORK CC CFLAGS: installs BUILD into WORK, builds the example against it as the README says, and runs it.
set -euo pipefail
cmake=$1 build=$2 examples=$3 work=$4 cc=$5 flags=$6

fail() {
    echo "FAIL $*"
    exit 1
}

rm -rf "$work/prefix"
"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null

for library in attune::attune attune::attune_static; do
    rm -rf "$work/attend"
    "$cmake" -S "$examples" -B "$work/attend" "-DCMAKE_PREFIX_PATH=$work/prefix" "-DATTUNE_LIBRARY=$library" \
        "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_C_FLAGS=$flags"
    "$cmake" --build "$work/attend"

    # the means of the values 0 to 896 and 0 to 1023
    answer=$("$work/attend/attend" cpu)
    echo "$answer"
    [[ $answer == *": first 448, last 511.5" ]] || fail "$library gives a wrong answer"

    if "$work/attend/attend" cpu:9 2>"$work/sentence"; then
        fail "a device that is not there works"
    fi
    cat "$work/sentence"
    [[ $(wc -l <"$work/sentence") == 1 ]] || fail "that is not one sentence"
done
