#!/usr/bin/env python3
"""What a build's machine code for AMD's GPUs takes: each architecture has a kernel for every dtype and head_dim, and each kernel that is there is for
waves of the width that its architecture has, spills no vector register, has neither scratch nor LDS of its own (what it gets at launch is what the spec says: each text asserts
that itself), and engine matrix multiplies by its unit's instruction, loads its operands 16 bytes at a time, and puts no scalar register away in its loop.

usage: test_resources.py FOLDER ARCHITECTURE...
    FOLDER          of the code objects
    ARCHITECTURE    those that they were compiled for, such as gfx942 gfx1100

Exit status 0 when all is well, 1 when something is not, 77 where llvm-readelf or llvm-objdump is missing.
"""

import concurrent.futures
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "codegen"), str(ROOT / "tools")]
import hip_resources  # noqa: E402

import generate  # noqa: E402

INSTRUCTIONS = {
    "mfma_32x32x8": "v_mfma_f32_32x32x8",
    "mfma_16x16x16": "v_mfma_f32_16x16x16",
    "wmma_rdna3": "v_wmma_f32_16x16x16",
    "wmma_rdna4": "v_wmma_f32_16x16x16",
}
WIDE_LOADS = {"ds_read_b128", "ds_load_b128"}


def kernel_faults(code, arch):
    """What is wrong with any kernel's code."""
    expected = {
        "wavefront_size": 64 if arch.startswith("gfx9") else 32,
        "vgpr_spill_count": 0,
        "private_segment_fixed_size": 0,
        "group_segment_fixed_size": 0,
    }
    return [
        f"{key} is {code[key]}, not {value}"
        for key, value in expected.items()
        if code[key] != value
    ]


def loop_faults(code, unit):
    """What is wrong with the loop of a kernel of engine matrix."""
    loop = code.loop()
    if not loop:
        return ["has no matrix instruction"]
    used = set(filter(hip_resources.MATRIX_INSTRUCTION.match, loop))
    wrong = [
        f"multiplies by {name}" for name in used if not name.startswith(INSTRUCTIONS[unit["name"]])
    ]
    if not WIDE_LOADS & set(loop):
        wrong.append("loads no 16 bytes at a time from LDS")
    if "v_writelane_b32" in loop:
        wrong.append("puts scalar registers away in its loop")
    return wrong


def trouble(job):
    """(vector registers, what is wrong) with a kernel's code."""
    point, arch, image = job
    code = hip_resources.Code(image)
    wrong = kernel_faults(code, arch)
    if point.unit:
        wrong += loop_faults(code, point.unit)
    return code["vgpr_count"], [f"{point.id} for {arch}: {what}" for what in wrong]


def main(folder, archs):
    """The exit status."""
    if None in (hip_resources.READELF, hip_resources.OBJDUMP):
        print("SKIPPED: no llvm-readelf or no llvm-objdump")
        return 77
    generator = generate.Generator(ROOT / "templates", ROOT / "backends")
    jobs = [
        (generator.spec.find("hip", "x86_64", path.stem)[0], arch, path.with_suffix(f".{arch}.co"))
        for path, classes, _, _ in generator.files("hip", "x86_64", [], folder)
        if path.suffix == ".hip"
        for arch in archs
        if arch in classes
    ]
    lacking = {(arch, *point.key) for point, arch, _ in jobs}
    jobs = [job for job in jobs if job[2].exists()]
    lacking -= {(arch, *point.key) for point, arch, _ in jobs}
    for names in sorted(lacking):
        print("FAIL there is no kernel:", *names)
    most, failures = 0, len(lacking)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for registers, wrong in pool.map(trouble, jobs):
            most, failures = max(most, registers), failures + len(wrong)
            print(*(f"FAIL {what}\n" for what in wrong), sep="", end="")
    print(f"hip: {len(jobs)} code objects, {most} vector registers at most, {failures} failures")
    return 1 if failures or not jobs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
