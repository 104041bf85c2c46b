#!/bin/bash
# Builds Attune on a machine with an NVIDIA GPU, tests it there and times it, in at most seven minutes.
#
#     tools/gpu_session.sh [STEP]...       all steps, or those named: build suite same_bits exp2 units modes bench tiles
#
#   build      the library and its command into build/gpu-build, for the GPU's own compute capability; the programs of tests/suite
#   suite      cpu and cuda:0 are judged against the oracle and compared bit for bit: every engine and numeric mode meets every fill and dtype
#   same_bits  engine simt: bits on cuda:0 depend on no kernel, batch, chunk or layout, and are those of cpu. Engine matrix, reproducible: the same, on
#              cuda:0 alone
#   exp2       the GPU's 2^x on every grid point that reproducible kernels can meet (tools/gpu/exp2.py)
#   units      which emulated model of a matrix unit has the bits of the GPU's (tools/gpu/units.py)
#   modes      what reproducible bits cost (tools/gpu/modes.py)
#   bench      the sweep of tools/gpu/sweep.py, against each back end of PyTorch's scaled_dot_product_attention where PyTorch is there
#   tiles      the best tiles for some shapes, as lines of backends/cuda/tuned.tsv (tools/gpu/tiles.py)
#
# Needs cmake, make or ninja, a C compiler, and a Python with Jinja2 (without one: network). Every step has a limit, at which it stops with what it has;
# a step that fails stops no other. $OUT (default build/gpu) receives results.md, results.jsonl (keys: the files of tools/gpu), tuned.tsv, and
# session.log, the output of all steps. Exit status 0 only where every step passed or had nothing to do on this device.
#
# ATTUNE_SESSION_COMMIT names the commit where the tree is a copy without .git. To rehearse without a GPU: ATTUNE_SESSION_DEVICE=cpu tests
# another device than cuda:0, ATTUNE_SESSION_REHEARSAL=1 leaves few tiny problems and twenty times the time; tests/standin/with_cuda.sh brings a
# stand-in for cuda:0.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

readonly OUT=${OUT:-build/gpu} BUILD=build/gpu-build
readonly DEVICE=${ATTUNE_SESSION_DEVICE:-cuda:0} REHEARSAL=${ATTUNE_SESSION_REHEARSAL:-0}
readonly WORK=$BUILD/session
if [[ $REHEARSAL == 0 ]]; then readonly SWEEP=standard PATIENCE=1; else readonly SWEEP=tiny PATIENCE=20; fi
declare -rA LIMIT=([build]=120 [suite]=80 [same_bits]=45 [exp2]=15 [units]=20 [modes]=20 [bench]=60 [tiles]=60) # seconds
readonly SKIPPED=77 # a step's status where it has nothing to do
readonly DTYPES=(f32 f16 bf16)
export PATH=$PATH:/usr/local/cuda/bin OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1
# What is compiled at run time, for all steps.
export ATTUNE_CACHE=${ATTUNE_CACHE:-$PWD/$WORK/kernels}
# What was measured here before has no say.
export ATTUNE_DB=off
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

# has_engine NAME: whether the device has kernels of it
has_engine() {
    [[ -n $(within $BUILD/bin/attune kernels --device "$DEVICE" --engine "$1") ]]
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
    within cmake -S . -B $BUILD -DCMAKE_BUILD_TYPE=Release -DATTUNE_BUILD_TESTS=OFF -DATTUNE_WITH_OPENCL=OFF -DATTUNE_WITH_HIP=OFF -DATTUNE_WITH_EMULATED=ON \
        "-DPython3_EXECUTABLE=$python" "${options[@]}" &&
        within cmake --build $BUILD --parallel "$(nproc)" && build_program suite && build_program same_bits || return
    within $BUILD/bin/attune devices
    fact "device" "$(within $BUILD/bin/attune devices --json | grep -F "\"${DEVICE%%:*}" | head -n 1)"
}

# ---- tests ----

RUNS=() # for side_by_side

# run TITLE OPTION...
run() {
    RUNS+=("$(printf '%q ' "$@")")
}

# side_by_side PROGRAM: all RUNS at once, each in as many shards as use all processors
side_by_side() {
    local program=$1 run title shard shards=$((($(nproc) + ${#RUNS[@]} - 1) / ${#RUNS[@]})) status=0 number running=()
    there "$BUILD/$program" || return
    export OMP_NUM_THREADS=1
    for run in "${RUNS[@]}"; do
        eval "local options=($run)"
        title=${options[0]}
        for ((shard = 0; shard < shards; shard++)); do
            {
                echo "==== $title"
                within "$BUILD/$program" "${options[@]:1}" --shard $shard/$shards 2>&1
            } >"$WORK/$program-${#running[@]}.log" &
            running+=($!)
        done
    done
    for number in "${!running[@]}"; do
        wait "${running[number]}" || status=1
        cat "$WORK/$program-$number.log"
    done
    return $status
}

# problem_files NAME...: as options
problem_files() {
    [[ $REHEARSAL == 0 ]] || set -- tiny
    printf -- '--problem-file tests/problems/%s.txt ' "$@"
}

suite() {
    local dtype all few devices=cpu judge=(--require "$DEVICE" --fill all)
    read -ra all < <(problem_files edges dims masks heads layouts scales empty grids)
    read -ra few < <(problem_files tiny scales)
    [[ $DEVICE == cpu ]] || devices+=,$DEVICE
    judge+=(--devices "$devices")
    RUNS=()
    for dtype in "${DTYPES[@]}"; do
        if ! has_engine matrix; then
            run "$dtype" "${judge[@]}" "${all[@]}" --dtype "$dtype"
        elif [[ $dtype == f32 ]]; then
            run "f32 simt" "${judge[@]}" "${all[@]}" --dtype f32 --engine simt
            run "f32 matrix (tf32)" "${judge[@]}" "${all[@]}" --dtype f32 --engine matrix
            run "f32 matrix (tf32) reproducible" "${judge[@]}" "${few[@]}" --dtype f32 --engine matrix --reproducible
        else
            run "$dtype simt" "${judge[@]}" "${few[@]}" --dtype "$dtype" --engine simt
            run "$dtype matrix" "${judge[@]}" "${all[@]}" --dtype "$dtype" --engine matrix
            run "$dtype matrix reproducible" "${judge[@]}" "${all[@]}" --dtype "$dtype" --engine matrix --reproducible
        fi
    done
    side_by_side suite
}

same_bits() {
    local dtype dim problems devices=cpu wide=() compare=(--require "$DEVICE" --fill "normal,ramp,outlier")
    read -ra problems < <(problem_files tiny masks heads)
    [[ $REHEARSAL == 0 ]] || compare=(--require "$DEVICE" --fill ramp)
    for dim in 64 96 128 192 256; do
        wide+=(--problem "op=forward,b=2,hq=2,hkv=1,sq=200,sk=333,d=$dim,dtype=f16,mask=causal,lse=1")
    done
    [[ $DEVICE == cpu ]] || devices+=,$DEVICE
    RUNS=()
    for dtype in "${DTYPES[@]}"; do
        if ! has_engine matrix; then
            run "$dtype" "${compare[@]}" --devices "$devices" "${problems[@]}" --dtype "$dtype"
            continue
        fi
        run "$dtype simt" "${compare[@]}" --devices "$devices" "${problems[@]}" --dtype "$dtype" --engine simt
        [[ $REHEARSAL == 0 ]] || wide=()
        run "$dtype matrix reproducible" "${compare[@]}" --devices "$DEVICE" "${problems[@]}" "${wide[@]}" --dtype "$dtype" \
            --engine matrix --reproducible
    done
    side_by_side same_bits
}

exp2() {
    [[ $DEVICE == cuda:* ]] || { echo "SKIPPED: $DEVICE is no GPU of NVIDIA" && return $SKIPPED; }
    within "$PYTHON" tools/gpu/exp2.py --device "${DEVICE#cuda:}"
}

# rehearsal_option TEXT...: it, in a rehearsal
rehearsal_option() {
    [[ $REHEARSAL == 0 ]] || printf '%s\n' "$@"
}

# rows_of PROGRAM OPTION...: a program of tools/gpu whose lines the report reads
rows_of() {
    local program=$1
    shift
    within "$PYTHON" "tools/gpu/$program.py" --device "$DEVICE" "$@" --budget $((deadline - SECONDS - ROW_RESERVE)) | tee "$WORK/$program.rows"
}

units() {
    local options
    mapfile -t options < <(rehearsal_option --rehearsal)
    there $BUILD/bin/attune && rows_of units --command $BUILD/bin/attune "${options[@]}"
}

# ---- times ----

readonly ROW_RESERVE=4 # seconds, for the row that is under way when the budget ends

modes() {
    there $BUILD/libattune.so && rows_of modes --library $BUILD/libattune.so --sweep "$SWEEP"
}

tiles() {
    local capability options
    mapfile -t options < <(rehearsal_option --most 3)
    if capability=$(of_gpu compute_cap); then options+=(--device-class "sm_${capability/./}"); fi
    there $BUILD/libattune.so && rows_of tiles --library $BUILD/libattune.so --sweep "$SWEEP" "${options[@]}"
}

readonly RESERVE=12 # seconds, for the start of PyTorch and for the row that is under way when the budget ends
readonly CAN_RACE='import sys, torch; sys.argv[1] == "cpu" or torch.zeros(1, device=sys.argv[1])'
readonly VERSIONS='import torch; print(torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'

bench() {
    local python program=sdpa
    there $BUILD/libattune.so || return
    if python=$(python_that "$CAN_RACE" "$DEVICE"); then
        fact "PyTorch" "$("$python" -c "$VERSIONS")"
    else
        python=$PYTHON program=alone
        fact "PyTorch" "none that can use $DEVICE"
    fi
    within "$python" tools/gpu/$program.py --library $BUILD/libattune.so --device "$DEVICE" --sweep "$SWEEP" \
        --budget $((deadline - SECONDS - RESERVE)) | tee "$WORK/bench.rows"
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
    "$PYTHON" tools/gpu/report.py --work $WORK --sweep "$SWEEP" --out "$OUT"
}

readonly ALL=(build suite same_bits exp2 units modes bench tiles)
chosen=("${@:-${ALL[@]}}")
for step in "${chosen[@]}"; do
    [[ -v LIMIT[$step] ]] || { echo "gpu_session.sh: no step '$step'; there are: ${ALL[*]}" >&2 && exit 2; }
done
mkdir -p "$OUT" $WORK
rm -f $WORK/{facts,steps} $WORK/*.{rows,log} "$OUT"/{results.md,results.jsonl,tuned.tsv,session.log}
deadline=$((SECONDS + 20))
PYTHON=$(python_that '') || { echo "gpu_session.sh: no Python" >&2 && exit 2; }
readonly PYTHON
gather_facts

failed=0
for step in "${chosen[@]}"; do
    begin=$SECONDS limit=$((PATIENCE * LIMIT[$step]))
    deadline=$((begin + limit))
    echo "==== $step (at most $limit s)"
    "$step" >$WORK/"$step".log 2>&1
    case $? in
    0) result=passed ;;
    "$SKIPPED") result=skipped ;;
    *)
        result=FAILED failed=1
        tail -n 25 $WORK/"$step".log
        ;;
    esac
    {
        echo "======== $step: $result"
        cat $WORK/"$step".log
    } >>"$OUT/session.log"
    printf '%s\t%s\t%d\n' "$step" $result $((SECONDS - begin)) >>$WORK/steps
    report || failed=1
done

echo
sed '/^## /,$d' "$OUT/results.md"
echo "The tables and the log are in $OUT."
exit $failed
