# What with_cuda.sh and with_hip.sh share, which source it. A stand-in's source is looked for in $ATTUNE_STANDINS, else in ../shared/tools beside the
# checkout.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

skip() {
    echo "SKIPPED: $*"
    exit 77
}

# find_driver NAME: its folder in $source
find_driver() {
    source=${ATTUNE_STANDINS:-$root/../shared/tools}/$1
    [[ -r $source/Makefile ]] || skip "no stand-in driver in $source (ATTUNE_STANDINS names another folder)"
}

# build_driver FOLDER [VARIABLE=VALUE...]: into FOLDER, whose whole path is $folder then, and onto the loader's path
build_driver() {
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    shift
    if ! flock "$folder/lock" make -s -C "$folder" -f "$source/Makefile" OUT="$folder/driver" "$@" >"$folder/make.log" 2>&1; then
        cat "$folder/make.log"
        echo "FAIL: the stand-in driver does not build"
        exit 1
    fi
    export LD_LIBRARY_PATH=$folder/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export ATTUNE_CACHE=${ATTUNE_CACHE:-$folder/kernels} ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
}

bad_mode() {
    echo "$(basename "$0"): no mode '$1'" >&2
    exit 2
}
