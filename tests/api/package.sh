#!/bin/sh
# Installs the build, moves the installation elsewhere, and builds and runs the project in package/ against it.
# usage: package.sh BUILD PROJECT SCRATCH CFLAGS CC [CXX]
set -eu
build=$1 project=$2 scratch=$3 flags=$4 cc=$5 cxx=${6-}
rm -rf "$scratch"
cmake --install "$build" --prefix "$scratch/installed" > /dev/null
mv "$scratch/installed" "$scratch/moved"
pc=$(find "$scratch/moved" -name attune.pc)
languages=C
[ -z "$cxx" ] || languages="C;CXX"
PKG_CONFIG_PATH=$(dirname "$pc") cmake -S "$project" -B "$scratch/build" -DLANGUAGES="$languages" \
    -DCMAKE_PREFIX_PATH="$scratch/moved" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" \
    ${cxx:+"-DCMAKE_CXX_COMPILER=$cxx" "-DCMAKE_CXX_FLAGS=$flags"}
cmake --build "$scratch/build"

# pkg-config alone, static
PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --static --libs --cflags attune > "$scratch/flags"
sed -i 's/-lattune/-l:libattune.a/' "$scratch/flags"
$cc $flags "$project/ones.c" $(cat "$scratch/flags") -o "$scratch/ones"
"$scratch/ones"
