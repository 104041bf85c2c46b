#!/usr/bin/env python3
"""Judges the judge: builds kernels from templates with one deliberate fault each, and requires that a named test catches it.

The faults are replacements in a copy of the templates; a text that is not found exactly once is an error, so no fault goes stale unseen.
A library is linked from the objects of a build and a few mutated kernels, and the suite's programs run with it. The unmutated copy must
pass every test that is used, else catching proves nothing.

usage: mutate.py BUILD_FOLDER [NAME...]      names of mutations; default: all
"""

import concurrent.futures
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import matrix_mutations
import mutations
from matrix_mutations import MATRIX_AXES
from mutation import ROOT, STANDIN
from mutations import FOLD

sys.path.insert(0, str(ROOT / "codegen"))
import generate  # noqa: E402
import render  # noqa: E402

MUTATIONS = [*mutations.MUTATIONS, *matrix_mutations.MUTATIONS]


def mutated(text, old, new, where):
    """The text with one replacement."""
    if text.count(old) != 1:
        sys.exit(f"stale mutation: {where} holds {text.count(old)} times, not once: {old}")
    return text.replace(old, new)


class Workshop:
    """Makes libraries with mutated kernels from the objects of a build."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.objects = build / "CMakeFiles" / "attune_objects.dir"
        devices = subprocess.run(
            [build / "bin" / "attune", "devices", "--json"],
            check=True,
            capture_output=True,
            text=True,
        )
        rows = [json.loads(line) for line in devices.stdout.splitlines()]
        self.device_class = next(row["platform"] for row in rows if row["device"] == "cpu")
        self.opencl = next(
            (row["device"] for row in rows if row["backend"] == "opencl" and not row["reason"]),
            None,
        )
        self.emulates = any(row["backend"] == "emulated" for row in rows)

    def narrow(self, templates, backends, dtypes, tuned):
        """Leaves in a copy of the spec head_dim 64, of the tables the rows of these dtypes for this processor, or with `tuned` unset none."""
        spec = templates / "attention.toml"
        text = spec.read_text("utf-8")
        text, count = re.subn(r"^head_dim = .*$", "head_dim = [64]", text, flags=re.M)
        assert count == 1
        others, matrix = text.split("[engine.matrix]", 1)
        for axis, values in MATRIX_AXES.items():
            pattern = rf"^(axes.{axis} = .*?values = )\[.*?\]"
            matrix, count = re.subn(pattern, rf"\g<1>{values}", matrix, count=1, flags=re.M)
            assert count == 1, axis
        spec.write_text(f"{others}[engine.matrix]{matrix}", "utf-8")
        kernels = tuple(f"_{dtype}_d64_" for dtype in dtypes)
        for path in (ROOT / "backends").glob("*/tuned.tsv"):
            header, *rows = path.read_text("utf-8").splitlines()
            ours = path.parent.name == "cpu" and tuned
            rows = [row for row in rows if ours and row.startswith(f"{self.device_class}\t")]
            rows = [row for row in rows if any(kernel in row for kernel in kernels)]
            copy = backends / path.parent.name / path.name
            copy.parent.mkdir(parents=True)
            copy.write_text("\n".join([header, *rows]) + "\n", "utf-8")
        shutil.copy(ROOT / "backends" / "kernel_abi.h", backends)

    def sources(self, target, templates, out, dtypes, tuned, kernel):
        """Renders the kernels that a check needs, one small one and with `tuned` others too: pairs (C file, compile flags). `kernel`: emulated."""
        self.narrow(templates, out / "backends", dtypes, tuned)
        generator = generate.Generator(templates, out / "backends")
        arch = generate.processor(platform.machine())
        variant = next(v for v in generator.spec.variants("c") if v.name == self.device_class)
        tile = f"vector_q4r4k64n16w{dict(variant.when)['lanes']}"
        globs = [f"forward_{dtype}_d64_{tile}" for dtype in dtypes]
        if target == "emulated":
            globs = [kernel]
        for path, _, flags, text in generator.files(target, arch, globs, out / target):
            if path.suffix == ".c":
                render.write_if_different(path, text())
                yield path, flags

    def library(self, mutation):
        """Folder of a libattune.so.0 with that fault (None: with none)."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        templates = out / "templates"
        shutil.copytree(ROOT / "templates", templates)
        if mutation:
            path = templates / mutation.file
            text = mutated(path.read_text("utf-8"), mutation.old, mutation.new, mutation.name)
            if "THIS_KERNEL_FOLDS_OTHERWISE" in mutation.new:
                text = mutated(text, *FOLD, mutation.name)
            path.write_text(text, "utf-8")
        target = mutation.check.target if mutation else "c"
        objects = [
            str(path)
            for path in self.objects.rglob("*.o")
            if f"generated/{target}/" not in path.as_posix()
        ]
        flags = ["-std=c11", "-O2", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-w"]
        flags += [f"-I{ROOT / folder}" for folder in ("backends", "backends/gpu", "include")]
        dtypes = mutation.check.dtypes() if mutation else ["f32"]
        tuned = not mutation or mutation.check.program == "same_bits"
        kernel = mutation.check.kernel if mutation else ""
        for file, own_flags in self.sources(target, templates, out, dtypes, tuned, kernel):
            subprocess.run(["cc", *flags, *own_flags, "-c", file, "-o", f"{file}.o"], check=True)
            objects.append(f"{file}.o")
        if target == "cuda":  # all kernels are compiled at run time
            images = out / "images.c"
            images.write_text(
                '#include "gpu.h"\nconst gpu_image attune_images_cuda[] = {{NULL}};\n'
                'const char attune_images_cuda_compiler[] = "";\n'
            )
            subprocess.run(["cc", *flags, "-c", images, "-o", f"{images}.o"], check=True)
            objects.append(f"{images}.o")
        link = ["cc", "-shared", "-Wl,-soname,libattune.so.0", "-o", str(out / "libattune.so.0")]
        subprocess.run([*link, *objects, "-fopenmp", "-lpthread", "-ldl", "-lm"], check=True)
        return out

    def run(self, library, check):
        """Runs a check with that library: its exit status and its last line, or what did not compile."""
        environment = dict(os.environ, LD_LIBRARY_PATH=str(library), OMP_WAIT_POLICY="passive")
        devices = {"c": "cpu", "opencl": self.opencl, "cuda": "cuda:0", "emulated": check.device}
        command = check.command(self.build, devices[check.target])
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        lines = (done.stderr + done.stdout).strip().splitlines()
        uncompiled = [line.strip() for line in lines if "cannot be compiled" in line]
        return (2, uncompiled[0]) if uncompiled else (done.returncode, lines[-1] if lines else "")

    def judge(self, mutation):
        """(mutation, whether it was caught, what happened)."""
        library = self.library(mutation)
        status, line = self.run(library, mutation.check)
        shutil.rmtree(library)
        return mutation, status == 1, f"exit {status}: {line}"


def main():
    """Exit status 0 when the right kernels pass and every mutation is caught."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    chosen = [m for m in MUTATIONS if not sys.argv[2:] or m.name in sys.argv[2:]]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(build, pathlib.Path(folder))
        if workshop.opencl is None:
            print("SKIPPED: the simt mutations, for there is no OpenCL device")
            chosen = [m for m in chosen if m.check.target != "opencl"]
        standin = subprocess.run([*STANDIN, "plain", "true"], capture_output=True, text=True)
        if standin.returncode != 0:
            print(f"SKIPPED: the cuda mutations: {standin.stdout.strip()}")
            chosen = [m for m in chosen if m.check.target != "cuda"]
        if not workshop.emulates:
            print("SKIPPED: AMD's mutations, for this build emulates no GPU")
            chosen = [m for m in chosen if m.check.target != "emulated"]
        right = workshop.library(None)
        for check in sorted({m.check for m in chosen}):
            library = right if check.target == "c" and check.dtypes() == ["f32"] else build
            status, line = workshop.run(library, check)
            if status != 0:
                print(f"WRONG   the right kernels fail {check}: exit {status}: {line}")
                failures += 1
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for mutation, caught, what in pool.map(workshop.judge, chosen):
                print(f"{'caught' if caught else 'MISSED':7} {mutation.name}  ({what})", flush=True)
                failures += not caught
    print(f"{len(chosen)} mutations, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
