#!/bin/bash
# The demo: standard attention against tiled attention on the Q, K and V of two real transformers (tests/data), in three types, on every
# device of this machine; at the end, what two vendors' GPUs, emulated, make of the same input. Installs what is missing (tools/setup.sh), builds into
# build/demo, prints the error table. Exit 1 where an error exceeds its bound.
#
#     tools/demo.sh
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BUILD=build/demo
readonly ATTUNE=$BUILD/bin/attune

build() {
    tools/setup.sh demo
    export PATH=$PWD/build/venv/bin:$PATH
    local options=(-DCMAKE_BUILD_TYPE=Release -DATTUNE_BUILD_TESTS=OFF -DATTUNE_WITH_EMULATED=ON)
    options+=("-DATTUNE_TUNED_KERNELS=*_vector_*;forward_*_d32_*;forward_*_d64_*") # of GPUs those that tests/data needs
    command -v ninja >/dev/null && options+=(-G Ninja)
    # nothing here would run what takes minutes to compile
    nvidia-smi >/dev/null 2>&1 || options+=(-DATTUNE_CUDA_ARCHS=none)
    [[ -e /dev/kfd ]] || options+=(-DATTUNE_HIP_ARCHS=none)
    mkdir -p "$BUILD"
    echo "building, log in $BUILD/build.log"
    if ! { cmake -S . -B "$BUILD" "${options[@]}" &&
        cmake --build "$BUILD" --parallel "$(nproc)"; } >"$BUILD/build.log" 2>&1; then
        tail -n 30 "$BUILD/build.log" >&2
        echo "demo.sh: the build failed, see $BUILD/build.log" >&2
        exit 1
    fi
}

# Every driver that the system has registered, and Intel's, which needs no root. A folder that is set already stays.
find_drivers() {
    [[ -n ${OCL_ICD_VENDORS:-} ]] && return
    local vendors=$PWD/$BUILD/vendors
    mkdir -p "$vendors"
    find /etc/OpenCL/vendors -name '*.icd' -exec cp {} "$vendors" \; 2>/dev/null || true
    if tools/opencl_runtimes.sh build/opencl cpu >/dev/null 2>"$BUILD/opencl.log"; then
        cp build/opencl/icd/*.icd "$vendors"
    else
        echo "without Intel's OpenCL runtime: $(tail -n 1 "$BUILD/opencl.log")"
    fi
    export OCL_ICD_VENDORS=$vendors
}

# compare NAME MASK TEXT: the rows of one input in each type
compare() {
    local name=$1 mask=$2 text=$3 dtype data=tests/data/$1 status=0
    printf '\n%s, layer %s (%s)\n' "${name%/*}" "${name#*/layer}" "$text"
    for dtype in f32 f16 bf16; do
        "$ATTUNE" compare --q "${data}_q.npy" --k "${data}_k.npy" --v "${data}_v.npy" --mask "$mask" \
            --dtype "$dtype" >"$BUILD/compare.txt" || status=1
        grep '^  ' "$BUILD/compare.txt" | { [[ $dtype == f32 ]] && cat || tail -n +2; } | tee -a "$BUILD/rows.txt"
    done
    return "$status"
}

# The rows of all inputs in two lines. Columns: device, kernel, max_abs, rms_rel, …, verdict; pairs: a ~ b …
summarise() {
    awk '
        $1 == "device" { next }
        $2 == "~" { pairs++; identical += $4 == "identical"; next }
        $1 == "standard" { keep(standard, $5, $7); next }
        $2 ~ /:$/ { verdicts[substr($2, 1, length($2) - 1)]++; runs++; next }
        { split($2, id, "_"); keep(tiled, id[2], $4); verdicts[$NF]++; runs++ }
        function keep(worst, dtype, rms_rel) { if (rms_rel + 0 > worst[dtype] + 0) worst[dtype] = rms_rel }
        function errors(worst) { return "f32 " worst["f32"] ", f16 " worst["f16"] ", bf16 " worst["bf16"] }
        END {
            printf "\nLargest rms error relative to the exact answer: tiled %s; standard %s\n", errors(tiled), errors(standard)
            printf "%d runs:", runs
            for (verdict in verdicts) printf " %d %s", verdicts[verdict], verdict
            printf "; %d pairs of devices, bit for bit identical: %d\n", pairs, identical
        }' "$BUILD/rows.txt"
}

# compare_vendors DTYPE DEVICES TEXT OPTION...: one input on emulated GPUs
compare_vendors() {
    local dtype=$1 devices=$2 text=$3 data=tests/data/minilm/layer5 status=0
    shift 3
    printf '\n%s\n' "$text"
    "$ATTUNE" compare --devices "$devices" --q "${data}_q.npy" --k "${data}_k.npy" --v "${data}_v.npy" --dtype "$dtype" "$@" \
        >"$BUILD/compare.txt" || status=1
    grep '^  ' "$BUILD/compare.txt"
    return "$status"
}

build
find_drivers
"$ATTUNE" devices
: >"$BUILD/rows.txt"
status=0
compare minilm/layer0 none "an encoder: 256 tokens, 12 heads of 32, no mask" || status=1
compare minilm/layer5 none "the same, its last layer" || status=1
compare smollm2/layer0 causal "a decoder: 512 tokens, 9 query heads on 3 key heads of 64, causal" || status=1
compare smollm2/layer15 causal "the same, in its middle" || status=1
summarise
pocl=
! "$ATTUNE" devices | grep -q '^opencl.*Portable Computing Language' || pocl=opencl:pocl,
compare_vendors f32 "cpu,${pocl}emulated:nvidia,emulated:amd" "The encoder's last layer on emulated GPUs of two vendors, without matrix units" || status=1
compare_vendors f16 emulated:nvidia-hopper,emulated:amd-cdna3 "The same on their matrix units, which round as H100's and MI300's do" --engine matrix || status=1
exit "$status"
