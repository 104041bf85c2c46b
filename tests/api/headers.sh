#!/bin/sh
# Each public header alone is clean C11 and C++17.
# usage: headers.sh INCLUDE_DIR CC [CXX]
set -eu
include=$1 cc=$2 cxx=${3-}
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
for header in "$include"/attune/*.h; do
    name=attune/$(basename "$header")
    echo "#include <$name>" | $cc -std=c11 $warnings -I "$include" -fsyntax-only -x c -
    [ -z "$cxx" ] || echo "#include <$name>" | $cxx -std=c++17 $warnings -I "$include" -fsyntax-only -x c++ -
    echo "$name"
done
