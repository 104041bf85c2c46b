#!/usr/bin/env python3
"""What a model says of every CUDA kernel that backends/cuda/tuned.tsv names: counts of an emulator and published rates, no measurement.

usage: cuda_model.py BUILD_FOLDER [--check]

Prints a table (docs/measurements/cuda-model.md holds one): each kernel runs on the stand-in driver with its profiler on, two blocks of queries
against 2048 keys; its pipe model takes those counts to the standard sweep's shape (S 2048, batch · S 16384, heads · head_dim 2048).
--check: only the counts, of some; exit 1 where local memory has bank conflicts or global memory wasted sectors.
Exit 77 where the stand-in is not at hand (tests/standin/with_cuda.sh).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))
import generate  # noqa: E402

FOLDER = ROOT / "build" / "standin" / "cuda"
TOOLS = (
    pathlib.Path(os.environ.get("ATTUNE_STANDINS", ROOT.parent / "shared" / "tools")) / "fakecuda"
)
# Bytes of shared memory that a block may have: CUDA C++ Programming Guide, technical specifications per compute capability.
ARCHITECTURES = {"80": 163 << 10, "90": 227 << 10, "120": 99 << 10}
SEQLEN, TOKENS, WIDTH = 2048, 16384, 2048  # S, batch · S, heads · head_dim
# The head_dims of --check: rows of whole and of half groups of banks; bf16 goes the way of f16, and the modes of engine matrix load alike.
CHECKED = {("simt", "f32"): (64, 96), ("simt", "f16"): (64, 96), ("matrix", "f16"): (64, 96, 128)}
MOST_WASTE = 1.1  # wavefronts, or sectors, for each that is needed


def profile(build, row, block_q):
    """The profile of one launch; a batch of aligned tensors."""
    sizes = f"b=1,hq=1,hkv=1,sq={2 * block_q},sk={SEQLEN},d={row.head_dim}"
    problem = f"op=forward,{sizes},dtype={row.dtype}"
    with tempfile.TemporaryDirectory() as folder:
        counts = pathlib.Path(folder) / "profile.json"
        environment = dict(os.environ, FAKECUDA_PROFILE=str(counts), ATTUNE_KERNEL=row.kernel)
        command = [ROOT / "tests" / "standin" / "with_cuda.sh", FOLDER, "plain"]
        command += [
            build / "bin" / "attune",
            "compare",
            "--devices",
            "cuda:0",
            "--problem",
            problem,
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == 77:
            print(done.stdout.strip())
            sys.exit(77)
        if done.returncode != 0:
            sys.exit(f"{row.kernel}: {done.stdout}{done.stderr}")
        lines = [json.loads(line) for line in counts.read_text("utf-8").splitlines()]
        return next(line for line in lines if line["kernel"] == row.kernel)


def model(counts, text, flags, row, block_q, arch):
    """What the pipe model makes of a profile on one architecture."""
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        (base / "kernel.cu").write_text(text, "utf-8")
        (base / "profile.json").write_text(json.dumps(counts), "utf-8")
        nvcc = ["nvcc", "-cubin", f"-arch=sm_{arch}", *flags]
        subprocess.run([*nvcc, base / "kernel.cu", "-o", base / "kernel.cubin"], check=True)
        heads = WIDTH // row.head_dim * (TOKENS // SEQLEN)
        size = 4 if row.dtype == "f32" else 2
        command = [sys.executable, TOOLS / "ptxcost.py", base / "profile.json", "-a", arch]
        command += ["--cubin", base / "kernel.cubin", "--json"]
        command += [
            "--grid",
            f"{SEQLEN // block_q},{heads}",
            "--bytes",
            str(4 * TOKENS * WIDTH * size),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)


def describe(m, flops):
    """A cell of the table."""
    at_most = flops / m["lower_us"] / 1e6
    blocks = m["blocks_per_sm"]
    occupancy = f"{m['registers']} registers, {blocks} block{'s' if blocks != 1 else ''} of 4 warps"
    return f"{occupancy}; at most {at_most:.0f} TFLOP/s ({m['bound']})"


def waste(counts, space):
    """What was moved for each that is needed."""
    key = "wavefronts" if space == "shared" else "sectors"
    return counts[space]["all"][key] / counts[space]["all"]["least"]


def main():
    """The table, or the check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    generator = generate.Generator(ROOT / "templates", ROOT / "backends")
    rows = [row for row in generator.tuned("cuda") if row.device_class == "*"]
    failures = 0
    if not options.check:
        print(
            "| kernel | local memory | sectors | fp32 of all | " + " | ".join(ARCHITECTURES) + " |"
        )
        print("|---|---|---|---|" + "---|" * len(ARCHITECTURES))
    for row in rows:
        point, _ = generator.spec.find("cuda", "x86_64", row.kernel)
        checked = row.head_dim in CHECKED.get((point.engine, row.dtype), ())
        if options.check and not (checked and point.values.get("reproducible", 1)):
            continue
        block_q = point.values["block_q"]
        counts = profile(options.build.resolve(), row, block_q)
        shared, sectors = waste(counts, "shared"), waste(counts, "global")
        if options.check:
            bad = shared > MOST_WASTE or sectors > MOST_WASTE
            failures += bad
            print(
                f"{'FAIL' if bad else 'good'} {row.kernel}: {shared:.2f}, {sectors:.2f}", flush=True
            )
            continue
        classes = counts["classes"]
        issued = sum(c["issued"] for name, c in classes.items() if name != "move")
        cells = [f"`{row.kernel}`", f"{shared:.2f}", f"{sectors:.2f}"]
        cells += [f"{classes['fp32']['issued'] / issued:.0%}"]
        flops = 4 * TOKENS * SEQLEN * WIDTH
        text, needs = (
            generator.renderer.kernel(point),
            generator.spec.engine_value(point, "fast_memory"),
        )
        for arch, most in ARCHITECTURES.items():
            if needs > most:
                cells += ["does not fit"]
                continue
            m = model(counts, text, point.variant.flags, row, block_q, arch)
            cells += [describe(m, flops)]
        print("| " + " | ".join(cells) + " |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
