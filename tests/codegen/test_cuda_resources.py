#!/usr/bin/env python3
"""What ptxas says of every kernel that backends/cuda/tuned.tsv names: registers without spills, and shared memory as the spec counts it.

usage: test_cuda_resources.py [ARCHITECTURE...]      default: 75 80 86 89 90 100 120

Exit status 0 when all is well, 1 when something is not, 77 where there is no nvcc.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))
import generate  # noqa: E402

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
USUAL = ("75", "80", "86", "89", "90", "100", "120")
# The kernels ask for shared memory at launch, which ptxas does not see; here it is asked for in the text.
AT_LAUNCH = "extern __shared__ __align__(16) float fast[];"
IN_TEXT = "__shared__ __align__(16) float fast[sizeof(fast_tiles) / 4];"


def compile_kernel(text, flags, architectures):
    """What ptxas says, and whether it compiled; from the PTX of the oldest, as the build does."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "kernel.cu"
        source.write_text(text, "utf-8")
        codes = ",".join(f"sm_{arch}" for arch in architectures)
        command = [NVCC, "-fatbin", f"-gencode=arch=compute_{architectures[0]},code=[{codes}]"]
        command += [*flags, "-Xptxas", "-v", str(source), "-o", f"{folder}/kernel.fatbin"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout + done.stderr, done.returncode == 0


def shared_memory(said):
    """Bytes; beyond 48 KiB ptxas refuses and says how many there were."""
    refused = re.search(r"too much shared data \(0x([0-9a-f]+) bytes", said)
    found = re.search(r"(\d+) bytes smem", said)
    return int(refused[1], 16) if refused else int(found[1]) if found else 0


def faults(kernel, text, flags, fast_memory, architectures):
    """(lines for the table, what is wrong)."""
    said, compiled = compile_kernel(text, flags, architectures)
    if not compiled:
        return [], [f"{kernel} does not compile: {said.strip()[-300:]}"]
    if text.count(AT_LAUNCH) != 1:
        return [], [
            f"{kernel}: its text asks for shared memory in another way than this test knows"
        ]
    lines, wrong = [], []
    in_text = text.replace(AT_LAUNCH, IN_TEXT)
    used = shared_memory(compile_kernel(in_text, flags, architectures[:1])[0])
    if used != fast_memory:
        wrong.append(f"{kernel}: {used} bytes of shared memory, the spec says {fast_memory}")
    reports = re.findall(
        r"Compiling entry function '\w+' for '(sm_\d+)'(.*?)Used (\d+) reg", said, re.S
    )
    if len(reports) != len(architectures):
        wrong.append(
            f"{kernel}: ptxas reports on {len(reports)} of {len(architectures)} architectures"
        )
    for arch, report, registers in reports:
        lines.append(
            f"{kernel:40} {arch:7} {registers:>3} registers {used:6} bytes of shared memory"
        )
        for count, what in re.findall(r"([1-9]\d*) (bytes (?:stack frame|spill \w+))", report):
            wrong.append(f"{kernel}, {arch}: {count} {what}")
    return lines, wrong


def main():
    """All kernels for all architectures."""
    if NVCC is None:
        print("SKIPPED: no nvcc")
        return 77
    architectures = sys.argv[1:] or USUAL
    generator = generate.Generator(ROOT / "templates", ROOT / "backends")
    wanted = {}  # kernel: classes of devices
    for row in generator.tuned("cuda"):
        wanted.setdefault(row.kernel, set()).add(row.device_class)
    jobs = []
    for kernel, classes in wanted.items():
        point, _ = generator.spec.find("cuda", "x86_64", kernel)
        fast_memory = generator.spec.engine_value(point, "fast_memory")
        able = generator.spec.classes_for(point)
        suited = [
            arch for arch in architectures if f"sm_{arch}" in able and classes & {"*", f"sm_{arch}"}
        ]
        if suited:
            text = generator.renderer.kernel(point)
            jobs.append((kernel, text, point.variant.flags, fast_memory, suited))
    crowded = jobs[0][1].replace("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 8)")
    if not any("spill" in what for what in faults(jobs[0][0], crowded, *jobs[0][2:])[1]):
        print("FAIL this test would not see a spill")
        return 1
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines, wrong in pool.map(lambda job: faults(*job), jobs):
            print("\n".join([*lines, *(f"FAIL {what}" for what in wrong)]), flush=True)
            failures += len(wrong)
    print(
        f"{len(jobs)} kernels, {sum(len(job[3]) for job in jobs)} compilations, {failures} failures"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
