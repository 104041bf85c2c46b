"""The code generator for its tests: its modules on the path, and its command line as a process of its own."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))

import generate  # noqa: E402

TARGETS = {"c": ("x86_64", "aarch64", "riscv64"), "opencl": ("x86_64",), "cuda": ("x86_64",)}
TARGETS["hip"] = TARGETS["emulated"] = TARGETS["cuda"]


def generator(templates=ROOT / "templates", backends=ROOT / "backends"):
    return generate.Generator(templates, backends)


def run(*arguments, before="pass", **settings):
    """generate.py after the Python statements `before`, in its own process: (status, stdout, stderr)."""
    code = f"import sys; {before}; sys.path.insert(0, sys.argv.pop(1)); import generate; sys.exit(generate.main())"
    command = [sys.executable, "-B", "-c", code, ROOT / "codegen", *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **settings)
    return done.returncode, done.stdout, done.stderr
