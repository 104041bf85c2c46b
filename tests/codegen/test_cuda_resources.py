#!/usr/bin/env python3
"""What ptxas says of every kernel that backends/cuda/tuned.tsv names: registers without spills, and shared memory as the spec counts it.

usage: test_cuda_resources.py [ARCHITECTURE...]      default: 75 80 86 89 90 100 120, all that Attune supports

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
SUPPORTED = ("75", "80", "86", "89", "90", "100", "120")
# The kernels ask for shared memory at launch, which ptxas does not see; here it is asked for in the text.
AT_LAUNCH = "extern __shared__ __align__(16) float fast[];"
IN_TEXT = "__shared__ __align__(16) float fast[sizeof(fast_tiles) / 4];"


def compile_kernel(text, arch):
    """What ptxas says, and whether it compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "kernel.cu"
        source.write_text(text, "utf-8")
        command = [NVCC, "-cubin", f"-arch=sm_{arch}", "-O3", "-fmad=false", "-Xptxas", "-v"]
        command += ["-diag-suppress", "177", str(source), "-o", f"{folder}/kernel.cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout + done.stderr, done.returncode == 0


def shared_memory(said):
    """Bytes; beyond 48 KiB ptxas refuses and says how many there were."""
    refused = re.search(r"too much shared data \(0x([0-9a-f]+) bytes", said)
    found = re.search(r"(\d+) bytes smem", said)
    return int(refused[1], 16) if refused else int(found[1]) if found else 0


def faults(kernel, text, fast_memory, arch):
    """(a line for the table, what is wrong)."""
    said, compiled = compile_kernel(text, arch)
    if not compiled:
        return "", [f"{kernel} does not compile for sm_{arch}: {said.strip()[-300:]}"]
    wrong = []
    registers = int(re.search(r"Used (\d+) registers", said)[1])
    for what in ("bytes stack frame", "bytes spill stores", "bytes spill loads"):
        count = int(re.search(rf"(\d+) {what}", said)[1])
        if count:
            wrong.append(f"{kernel}, sm_{arch}: {count} {what}")
    if text.count(AT_LAUNCH) != 1:
        return "", [
            f"{kernel}: its text asks for shared memory in another way than this test knows"
        ]
    used = shared_memory(compile_kernel(text.replace(AT_LAUNCH, IN_TEXT), arch)[0])
    if used != fast_memory:
        wrong.append(
            f"{kernel}, sm_{arch}: {used} bytes of shared memory, the spec says {fast_memory}"
        )
    return f"{kernel:40} sm_{arch:4} {registers:3} registers {used:6} bytes of shared memory", wrong


def main():
    """All kernels for all architectures."""
    if NVCC is None:
        print("SKIPPED: no nvcc")
        return 77
    architectures = sys.argv[1:] or SUPPORTED
    generator = generate.Generator(ROOT / "templates", ROOT / "backends")
    jobs = []
    for row in generator.tuned("cuda"):
        point, _ = generator.spec.find("cuda", "x86_64", row.kernel)
        fast_memory = generator.spec.engine_value(point, "fast_memory")
        text = generator.renderer.kernel(point)
        jobs += [
            (row.kernel, text, fast_memory, arch)
            for arch in architectures
            if row.device_class in ("*", f"sm_{arch}")
        ]
    crowded = jobs[0][1].replace("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 8)")
    said, _ = compile_kernel(crowded, jobs[0][3])
    if re.search(r"[1-9]\d* bytes spill stores", said) is None:
        print("FAIL this test would not see a spill")
        return 1
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for line, wrong in pool.map(lambda job: faults(*job), jobs):
            print("\n".join([line, *(f"FAIL {what}" for what in wrong)]).strip(), flush=True)
            failures += len(wrong)
    print(f"{len(jobs)} kernels compiled, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
