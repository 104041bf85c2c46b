#!/usr/bin/env python3
"""What a build's machine code for NVIDIA's GPUs takes: every kernel that backends/cuda/tuned.tsv names is there, keeps to its registers and
spills nothing. (That local memory is what the spec says, each text asserts itself.)

usage: test_cuda_resources.py [--code] FOLDER ARCHITECTURE...
    FOLDER          of the fat binaries
    ARCHITECTURE    those that they were compiled for, such as 80 90
    --code          look at the code for the first architecture too: engine matrix loads, multiplies and copies by the instructions for it

Exit status 0 when all is well, 1 when something is not, 77 where nvcc, cuobjdump or nvdisasm is missing.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))
import generate  # noqa: E402
import names  # noqa: E402


def cuda_tool(name):
    """A program of the toolkit, or of its packages for Python; None where it is in neither."""
    packages = pathlib.Path(sysconfig.get_path("purelib")).glob(f"nvidia/*/bin/{name}")
    places = [name, f"/usr/local/cuda/bin/{name}", *map(str, packages)]
    return next(filter(None, map(shutil.which, places)), None)


NVCC, CUOBJDUMP, NVDISASM = map(cuda_tool, ("nvcc", "cuobjdump", "nvdisasm"))

# Operands of a matrix unit come by ldmatrix, products by mma.sync, tiles by cp.async.
MATRIX_CODE = {"LDSM": "ldmatrix", "HMMA": "mma.sync", "LDGSTS": "cp.async"}


def resources(image):
    """{architecture: (registers, bytes of stack and local memory)} of a fat binary with one kernel."""
    command = [CUOBJDUMP, "-res-usage", image]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(
        r"^arch = sm_(\d+)$(.*?)REG:(\d+) STACK:(\d+) \S+ LOCAL:(\d+)", said, re.M | re.S
    )
    return {arch: (int(reg), int(stack) + int(local)) for arch, _, reg, stack, local in found}


def lacking(image, arch):
    """The PTX words of MATRIX_CODE of which no instruction is in the machine code."""
    environment = dict(os.environ, PATH=f"{pathlib.Path(NVDISASM).parent}:{os.environ['PATH']}")
    command = [CUOBJDUMP, "-sass", "-arch", f"sm_{arch}", image]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    opcodes = set(
        re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)", done.stdout, re.M)
    )
    return [word for opcode, word in MATRIX_CODE.items() if opcode not in opcodes]


def compile_text(text, flags, folder):
    """A fat binary for one architecture; None where nvcc refuses."""
    source, image = pathlib.Path(folder) / "kernel.cu", pathlib.Path(folder) / "kernel.fatbin"
    source.write_text(text, "utf-8")
    command = [NVCC, "-fatbin", "-gencode=arch=compute_80,code=sm_80", *flags, source, "-o", image]
    done = subprocess.run(command, capture_output=True, text=True)
    return image if done.returncode == 0 else None


def judge_is_right(text, flags):
    """A spill is seen, and a text that needs other local memory than the spec says does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        crowded = text.replace("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 8)")
        image = compile_text(crowded, flags, folder)
        sees_spills = image is not None and resources(image)["80"][1] > 0
        larger = re.sub(r"(#define FAST_MEMORY \d+)", r"\1 + 4", text)
        return sees_spills and compile_text(larger, flags, folder) is None


def faults(kernel, image, architectures, code):
    """(lines for the table, what is wrong)."""
    if not image.exists():
        return [], [f"{kernel}: there is no {image.name}"]
    found = resources(image)
    lines = [
        f"{kernel:40} sm_{arch:4} {registers:3} registers" for arch, (registers, _) in found.items()
    ]
    wrong = [
        f"{kernel}, sm_{arch}: {spilt} bytes of stack"
        for arch, (_, spilt) in found.items()
        if spilt
    ]
    if set(found) != set(architectures):
        wrong.append(f"{kernel} is compiled for {sorted(found)}, not for {sorted(architectures)}")
    if code and names.parse_kernel_id(kernel)[3] == "matrix":
        wrong += [f"{kernel} has no {word}" for word in lacking(image, architectures[0])]
    return lines, wrong


def main():
    """All kernels of the build."""
    code = sys.argv[1:2] == ["--code"]
    arguments = sys.argv[1 + code :]
    if len(arguments) < 2:
        sys.exit(__doc__)
    if None in (NVCC, CUOBJDUMP, NVDISASM):
        print("SKIPPED: nvcc, cuobjdump or nvdisasm is missing")
        return 77
    folder, architectures = pathlib.Path(arguments[0]), arguments[1:]
    generator = generate.Generator(ROOT / "templates", ROOT / "backends")
    jobs = []
    for path, classes, _, _ in generator.files("cuda", "x86_64", [], folder):
        suited = [arch for arch in architectures if f"sm_{arch}" in classes]
        if path.suffix == ".cu" and suited:
            jobs.append((path.stem, path.with_suffix(".fatbin"), suited))
    point, _ = generator.spec.find("cuda", "x86_64", jobs[-1][0])
    if not judge_is_right(generator.renderer.kernel(point), point.variant.flags):
        print("FAIL this test would not see a spill, or local memory that the spec does not know")
        return 1
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines, wrong in pool.map(lambda job: faults(*job, code), jobs):
            print("\n".join([*lines, *(f"FAIL {what}" for what in wrong)]), flush=True)
            failures += len(wrong)
    print(f"{len(jobs)} kernels, {sum(len(job[2]) for job in jobs)} images, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
