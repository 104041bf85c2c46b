#!/bin/bash
# Builds Attune on a machine with an NVIDIA GPU, tests it there and times it against PyTorch, in under six minutes.
#
#     tools/gpu_session.sh [STEP]...       all steps, or those named: build suite same_bits bench
#
#   build      the library and its command into build/gpu-build, for the GPU's own compute capability; the programs of tests/suite
#   suite      cpu and cuda:0 are judged against the oracle and compared bit for bit: every fill, every dtype
#   same_bits  bits on cuda:0 depend on no kernel, batch, chunk or layout, and are those of cpu
#   bench      the sweep of tools/gpu/sweep.py, against the back ends of PyTorch's scaled_dot_product_attention where PyTorch is there
#
# Needs cmake, make or ninja, a C compiler, and a Python with Jinja2 (without one: network). A step that fails stops no other.
# $OUT (default build/gpu) receives results.md, results.jsonl (keys: tools/gpu/report.py, tools/gpu/sdpa.py) and a log of each step.
# Exit status 0 only where every step passed.
#
# ATTUNE_SESSION_COMMIT names the commit where the tree is a copy without .git. To rehearse without a GPU: ATTUNE_SESSION_DEVICE=cpu tests
# another device than cuda:0, ATTUNE_SESSION_REHEARSAL=1 leaves few tiny problems and ten times the time.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

readonly OUT=${OUT:-build/gpu} BUILD=build/gpu-build
readonly DEVICE=${ATTUNE_SESSION_DEVICE:-cuda:0} REHEARSAL=${ATTUNE_SESSION_REHEARSAL:-0}
readonly WORK=$BUILD/session
if [[ $REHEARSAL == 0 ]]; then readonly SWEEP=standard PATIENCE=1; else readonly SWEEP=tiny PATIENCE=10; fi
declare -rA LIMIT=([build]=120 [suite]=75 [same_bits]=45 [bench]=90) # seconds
readonly DTYPES=(f32 f16 bf16)
export PATH=$PATH:/usr/local/cuda/bin OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1
# cuda:0 and nvidia-smi must mean the same GPU
export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}

# within COMMAND...: stopped when the time of this step is over
within() {
    local left=$((deadline - SECONDS))
    timeout --kill-after=3 $((left > 1 ? left : 1)) "$@"
    local status=$?
    [[ $status != 124 && $status != 137 ]] || echo "FAIL: time is over for $1" >&2
    return $status
}

# python_that CODE [ARGUMENT]...: the path of the first Python that can run it
python_that() {
    local python code=$1
    shift
    for python in build/venv/bin/python3 python3 /usr/bin/python3 "$WORK/venv/bin/python3"; do
        within "$python" -c "$code"$'\nimport sys; print(sys.executable)' "$@" 2>/dev/null && return
    done
    return 1
}

fact() {
    printf '%s\t%s\n' "$1" "$2" >>"$WORK/facts"
}

# there FILE...: a step says in one sentence that the build lacks what it needs
there() {
    local file
    for file; do
        [[ -e $file ]] || { echo "FAIL: $file was not built" && return 1; }
    done
}

# of_gpu FIELDS: what nvidia-smi knows of them
of_gpu() {
    nvidia-smi -i "${CUDA_VISIBLE_DEVICES%%,*}" "--query-gpu=$1" --format=csv,noheader 2>/dev/null
}

# ---- build ----

readonly CAN_GENERATE='import jinja2, sys; sys.version_info >= (3, 11) or __import__("tomli")'

python_to_generate() {
    python_that "$CAN_GENERATE" && return
    { "$PYTHON" -m venv "$WORK/venv" && within "$WORK/venv/bin/python3" -m pip install --quiet --retries 0 jinja2 tomli; } >&2
    python_that "$CAN_GENERATE" && return
    echo "FAIL: no Python here has Jinja2 (and tomllib or tomli), and none could be installed: bring one" >&2
    return 1
}

build_program() {
    local suite=tests/suite
    within cc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Iinclude "$suite/$1.c" $suite/{device,options,tensors,tally}.c \
        -o "$BUILD/$1" "-L$BUILD" "-Wl,-rpath,$PWD/$BUILD" -lattune -lm
}

build() {
    local python capability options=()
    rm -f $BUILD/{suite,same_bits,libattune.so*,bin/attune} # an old one must not be tested in place of one that cannot be built
    python=$(python_to_generate) || return
    if capability=$(of_gpu compute_cap); then options+=("-DATTUNE_CUDA_ARCHS=${capability/./}"); fi
    if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
    within cmake -S . -B $BUILD -DCMAKE_BUILD_TYPE=Release -DATTUNE_BUILD_TESTS=OFF "-DPython3_EXECUTABLE=$python" "${options[@]}" &&
        within cmake --build $BUILD --parallel "$(nproc)" && build_program suite && build_program same_bits || return
    within $BUILD/bin/attune devices
    fact "devices" "$(within $BUILD/bin/attune devices --json | grep -F "\"${DEVICE%%:*}" | head -n 1)"
}

# ---- tests ----

# for_each_dtype PROGRAM OPTION...: side by side; each has its own tables
for_each_dtype() {
    local program=$1 dtype status=0 running=() devices=cpu
    shift
    [[ $DEVICE == cpu ]] || devices+=,$DEVICE
    there "$BUILD/$program" || return
    export OMP_NUM_THREADS=$((($(nproc) + 2) / 3))
    for dtype in "${DTYPES[@]}"; do
        within "$BUILD/$program" --devices "$devices" --require "$DEVICE" --dtype "$dtype" "$@" >"$WORK/$program-$dtype.log" 2>&1 &
        running+=($!)
    done
    for dtype in "${DTYPES[@]}"; do
        wait "${running[0]}" || status=1
        running=("${running[@]:1}")
        echo "==== $program $dtype"
        cat "$WORK/$program-$dtype.log"
    done
    return $status
}

# problem_files NAME...: as options
problem_files() {
    [[ $REHEARSAL == 0 ]] || set -- tiny
    printf -- '--problem-file tests/problems/%s.txt ' "$@"
}

suite() {
    local problems
    read -ra problems < <(problem_files edges dims masks heads layouts scales empty grids)
    for_each_dtype suite "${problems[@]}" --fill all
}

same_bits() {
    local problems
    read -ra problems < <(problem_files tiny masks heads)
    for_each_dtype same_bits "${problems[@]}" --fill normal,ramp,outlier
}

# ---- bench ----

readonly RESERVE=12 # seconds, for the start of PyTorch and for the row that is under way when the budget ends
readonly CAN_RACE='import sys, torch; sys.argv[1] == "cpu" or torch.zeros(1, device=sys.argv[1])'
readonly VERSIONS='import torch; print(torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'

bench() {
    local python options=(--device "$DEVICE" --sweep "$SWEEP")
    there $BUILD/libattune.so $BUILD/bin/attune || return
    if python=$(python_that "$CAN_RACE" "$DEVICE"); then
        fact "PyTorch" "$("$python" -c "$VERSIONS")"
        within "$python" tools/gpu/sdpa.py --library $BUILD/libattune.so "${options[@]}" --budget $((deadline - SECONDS - RESERVE))
    else
        fact "PyTorch" "none that can use $DEVICE"
        within "$PYTHON" tools/gpu/alone.py --command $BUILD/bin/attune "${options[@]}" --budget $((deadline - SECONDS - RESERVE))
    fi | tee "$WORK/rows"
}

# ---- the session ----

gather_facts() {
    local commit=${ATTUNE_SESSION_COMMIT:-unknown}
    if [[ -e .git ]]; then commit=$(git describe --always --dirty --abbrev=12); fi
    fact "date" "$(date --utc '+%Y-%m-%d %H:%M UTC')"
    fact "commit" "$commit"
    fact "device under test" "$DEVICE"
    [[ $REHEARSAL == 0 ]] || fact "REHEARSAL" "tiny problems; nothing here says how fast a GPU is"
    fact "GPU, driver, memory, highest clock, power limit" \
        "$(of_gpu name,driver_version,memory.total,clocks.max.sm,power.limit || echo unknown)"
    fact "nvcc" "$(nvcc --version 2>/dev/null | grep release || echo none)"
    fact "processor" "$(nproc) × $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
}

report() {
    "$PYTHON" tools/gpu/report.py --facts $WORK/facts --steps $WORK/steps --rows $WORK/rows --sweep "$SWEEP" --out "$OUT"
}

readonly ALL=(build suite same_bits bench)
chosen=("${@:-${ALL[@]}}")
for step in "${chosen[@]}"; do
    [[ -v LIMIT[$step] ]] || { echo "gpu_session.sh: no step '$step'; there are: ${ALL[*]}" >&2 && exit 2; }
done
mkdir -p "$OUT" $WORK
rm -f $WORK/{facts,steps,rows} "$OUT"/{results.md,results.jsonl} "$OUT"/{build,suite,same_bits,bench}.log
deadline=$((SECONDS + 20))
PYTHON=$(python_that '') || { echo "gpu_session.sh: no Python" >&2 && exit 2; }
readonly PYTHON
gather_facts

failed=0
for step in "${chosen[@]}"; do
    begin=$SECONDS limit=$((PATIENCE * LIMIT[$step]))
    deadline=$((begin + limit))
    echo "==== $step (at most $limit s)"
    if "$step" >"$OUT/$step.log" 2>&1; then
        result=passed
    else
        result=FAILED failed=1
        tail -n 25 "$OUT/$step.log"
    fi
    printf '%s\t%s\t%d\n' "$step" $result $((SECONDS - begin)) >>$WORK/steps
    report || failed=1
done

echo
sed '/^Milliseconds/,$d' "$OUT/results.md"
echo "The table and all logs are in $OUT."
exit $failed
