"""The code generator for its tests: its modules on the path, its command line as a process of its own, copies of the tree."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))

import generate  # noqa: E402

TARGETS = {"c": ("x86_64", "aarch64", "riscv64"), "opencl": ("x86_64",), "cuda": ("x86_64",)}
TARGETS["hip"] = TARGETS["emulated"] = TARGETS["cuda"]


def generator(templates=ROOT / "templates", backends=ROOT / "backends"):
    return generate.Generator(templates, backends)


def folder_with(test, *names):
    """A folder that lasts as long as the test, with copies of these folders of the tree."""
    folder = pathlib.Path(tempfile.mkdtemp())
    test.addCleanup(shutil.rmtree, folder)
    for name in names:
        shutil.copytree(ROOT / name, folder / name)
    return folder


def run(*arguments, before="pass", **settings):
    """generate.py after the Python statements `before`, in its own process: (status, stdout, stderr)."""
    code = f"import sys; {before}; sys.path.insert(0, sys.argv.pop(1)); import generate; sys.exit(generate.main())"
    command = [sys.executable, "-B", "-c", code, ROOT / "codegen", *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **settings)
    return done.returncode, done.stdout, done.stderr
