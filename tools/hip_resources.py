#!/usr/bin/env python3
"""What kernels take on AMD's GPUs, read off their machine code: compiles every kernel that backends/hip/tuned.tsv names, for every architecture that it is
for and that the compiler knows, and prints docs/measurements/hip-resources.md. Exit status 1 where one does not compile, or spills vector registers.

usage: tools/hip_resources.py [--compiler CLANG] [--archs ARCH,...]
"""

import argparse
import collections
import concurrent.futures
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "codegen"))
import generate  # noqa: E402

COMPILERS = ("/opt/rocm/llvm/bin/clang++", "clang++-21", "clang++-20", "clang++-19", "amdclang++")


def llvm_tool(name):
    """A program of LLVM, the newest first, for an old one does not know every GPU; None where there is none."""
    names = (f"/opt/rocm/llvm/bin/{name}", *(f"{name}-{n}" for n in (21, 20, 19)), name)
    return next(filter(None, map(shutil.which, names)), None)


READELF, OBJDUMP = map(llvm_tool, ("llvm-readelf", "llvm-objdump"))

MATRIX_INSTRUCTION = re.compile("v_mfma_|v_wmma_")


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Code:
    """A code object with one kernel. Its numbers are those of "Code Object V5 Metadata" in LLVM's AMDGPU guide; where vector and accumulation registers
    are one file (gfx90a and later of gfx9), vgpr_count is of both."""

    def __init__(self, image):
        self.image = image
        self.notes = said(READELF, "--notes", image)
        symbols = said(READELF, "--dyn-symbols", "--wide", image)
        self.size = int(re.search(r"(\d+) FUNC +GLOBAL", symbols)[1])

    def __getitem__(self, key):
        found = re.search(rf"\.{key}: +(\d+)", self.notes)
        return int(found[1]) if found else 0

    def instructions(self):
        """The mnemonics, in the order of their addresses."""
        return re.findall(r"^\t([a-z]\w+)", said(OBJDUMP, "--disassemble", self.image), re.M)

    def loop(self):
        """Those from the first to the last matrix instruction: the loop over keys, and what lies among it. Empty where there is none."""
        names = self.instructions()
        places = [place for place, name in enumerate(names) if MATRIX_INSTRUCTION.match(name)]
        return names[places[0] : places[-1] + 1] if places else []


def compile_for(compiler, flags, arch, source, image):
    """(seconds of processor time, what the compiler said) where it compiled; else (None, that)."""
    command = [compiler, "-c", *flags, f"--offload-arch={arch}", source, "-o", image]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        seconds = usage.ru_utime + usage.ru_stime if process.returncode == 0 else None
        return seconds, log.read()


def known(compiler, flags, archs, folder):
    """Those of the architectures that the compiler compiles and links for."""
    source = folder / "probe.hip"
    source.write_text('extern "C" __attribute__((global)) void probe(int *x) { *x = 1; }\n')
    image = folder / "probe.co"
    return [
        arch for arch in archs if compile_for(compiler, flags, arch, source, image)[0] is not None
    ]


def cell(code):
    """A cell of the table; ABOUT explains it."""
    registers, held, spilled = (
        code[key] for key in ("vgpr_count", "agpr_count", "sgpr_spill_count")
    )
    text = f"{registers} ({held})" if held else f"{registers}"
    if spilled:
        text += f", {spilled} ↓ {code.loop().count('v_readlane_b32')} ↑"
    return f"{text}, {code.size / 1000:.1f} kB"


ABOUT = """# What the HIP kernels take, {date}

{count} code objects by {compiler}: every kernel that `backends/hip/tuned.tsv` names, for every architecture that it is for and that this compiler
knows. Nothing here ran.

    tools/hip_resources.py > docs/measurements/hip-resources.md

LDS: bytes of a group. A cell: vector registers of a work-item (accumulation registers among them), and the bytes of code. "20 ↓ 5 ↑": 20 scalar registers
are kept in lanes of vector registers, and five are fetched from there between the first matrix instruction and the last. No kernel may spill
vector registers or have scratch, else the script fails; `tests/hip/test_resources.py` holds those of a build to that.
"""


class Compiled(typing.NamedTuple):
    arch: str
    seconds: float  # of processor time; None where it does not compile, or spills
    said: str  # by the compiler, or of its code
    size: int  # bytes of the code object
    cell: str


def compile_all(compiler, jobs, folder):
    """A Compiled for each (id, flags, text, architecture)."""

    def one(job):
        kernel, flags, text, arch = job
        source, image = folder / f"{kernel}.{arch}.hip", folder / f"{kernel}.{arch}.co"
        source.write_text(text, "utf-8")
        seconds, log = compile_for(compiler, flags, arch, source, image)
        if seconds is None:
            return kernel, Compiled(arch, None, log, 0, "")
        code = Code(image)
        if code["vgpr_spill_count"] or code["private_segment_fixed_size"]:
            return kernel, Compiled(arch, None, "spills vector registers", 0, "")
        return kernel, Compiled(arch, seconds, log, image.stat().st_size, cell(code))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(one, jobs)


def rows(cells):
    return f"| {' | '.join(cells)} |"


def kernel_tables(spec, found):
    """A table for the kernels of each set of architectures."""
    groups = collections.defaultdict(list)
    for kernel, codes in found.items():
        groups[tuple(code.arch for code in codes)].append(kernel)
    for archs, kernels in groups.items():
        yield ""
        yield rows(["kernel", "LDS", *archs])
        yield "|---" * (2 + len(archs)) + "|"
        for kernel in kernels:
            point, _ = spec.find("hip", "x86_64", kernel)
            lds = str(spec.engine_value(point, "fast_memory"))
            yield rows([f"`{kernel}`", lds, *(code.cell for code in found[kernel])])


def total_table(found):
    """What a build pays for each architecture."""
    totals = collections.defaultdict(list)
    for codes in found.values():
        for code in codes:
            totals[code.arch].append(code)
    yield from ("", rows(["architecture", "kernels", "processor time", "code objects"]))
    yield "|---|---|---|---|"
    for arch, codes in totals.items():
        seconds, size = sum(code.seconds for code in codes), sum(code.size for code in codes)
        yield rows([arch, str(len(codes)), f"{seconds:.0f} s", f"{size / 1e6:.1f} MB"])


def main():
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    parser.add_argument("--compiler", default=compiler, help="a clang; default: %(default)s")
    parser.add_argument("--archs", help="default: all that the compiler knows")
    arguments = parser.parse_args()
    if None in (arguments.compiler, READELF, OBJDUMP):
        parser.error("a clang for AMD's GPUs, llvm-readelf or llvm-objdump is missing")
    generator = generate.Generator(ROOT / "templates", ROOT / "backends")
    archs = generator.spec.device_classes("hip")
    found, failures = collections.defaultdict(list), 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wanted = arguments.archs.split(",") if arguments.archs else archs
        archs = [arch for arch in archs if arch in wanted]
        files = list(generator.files("hip", "x86_64", [], folder))
        archs = known(arguments.compiler, files[-1][2], archs, folder)
        jobs = [
            (path.stem, flags, text(), arch)
            for path, classes, flags, text in files
            if path.suffix == ".hip"
            for arch in archs
            if arch in classes
        ]
        for kernel, code in compile_all(arguments.compiler, jobs, folder):
            if code.seconds is None:
                print(f"FAIL {kernel} for {code.arch}: {code.said}", file=sys.stderr)
                failures += 1
            else:
                found[kernel].append(code)
    version = said(arguments.compiler, "--version").splitlines()[0]
    print(
        ABOUT.format(date=datetime.date.today(), count=len(jobs) - failures, compiler=version),
        end="",
    )
    print(*kernel_tables(generator.spec, found), *total_table(found), sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
