#!/usr/bin/env python3
"""What a build's machine code for AMD's GPUs takes: every kernel that backends/hip/tuned.tsv names is there, for waves of the width that its
architecture has, and spills no vector register. (That local memory is what the spec says, each text asserts itself.)

usage: test_resources.py FOLDER ARCHITECTURE...
    FOLDER          of the code objects
    ARCHITECTURE    those that they were compiled for, such as gfx942 gfx1100

Exit status 0 when all is well, 1 when something is not, 77 where llvm-readelf is missing.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))
import generate  # noqa: E402

NAMES = ("llvm-readelf", *(f"llvm-readelf-{n}" for n in (21, 20, 19)))
READELF = next(filter(None, map(shutil.which, (*NAMES, "/opt/rocm/llvm/bin/llvm-readelf"))), None)
KEYS = ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size", "wavefront_size")


def resources(image):
    """The metadata of a code object with one kernel ("Code Object V5 Metadata" of LLVM's AMDGPU guide)."""
    command = [READELF, "--notes", image]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {key: int(re.search(rf"\.{key}: +(\d+)", said)[1]) for key in KEYS}


def trouble(image, arch):
    """(vector registers, what is wrong) with a kernel's code."""
    if not image.exists():
        return 0, ["is not there"]
    found = resources(image)
    wave = 64 if arch.startswith("gfx9") else 32
    wrong = []
    if found["wavefront_size"] != wave:
        wrong += [f"is for waves of {found['wavefront_size']}, not {wave}"]
    if found["vgpr_spill_count"] or found["private_segment_fixed_size"]:
        spilled = found["private_segment_fixed_size"]
        wrong += [f"spills {found['vgpr_spill_count']} registers, {spilled} bytes of scratch"]
    return found["vgpr_count"], wrong


def main(folder, archs):
    """The exit status."""
    if READELF is None:
        print("SKIPPED: no llvm-readelf")
        return 77
    generator = generate.Generator(ROOT / "templates", ROOT / "backends")
    most, count, failures = 0, 0, 0
    for path, classes, _, _ in generator.files("hip", "x86_64", [], folder):
        for arch in set(archs) & set(classes) if path.suffix == ".hip" else ():
            registers, wrong = trouble(path.with_suffix(f".{arch}.co"), arch)
            most, count, failures = max(most, registers), count + 1, failures + bool(wrong)
            for what in wrong:
                print(f"FAIL {path.stem} for {arch}: {what}")
    print(f"hip: {count} code objects, {most} vector registers at most, {failures} failures")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
