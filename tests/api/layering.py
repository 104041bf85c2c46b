"""Who may include whom: the table of the design, enforced over every #include line of the tree.

usage: layering.py ROOT
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Headers of the C standard, POSIX and the compiler; everything else in angle brackets is somebody's SDK.
SYSTEM = re.compile(
    r"""(arm_neon|assert|cpuid|ctype|dirent|dlfcn|elf|errno|fcntl|float|fnmatch|getopt|immintrin|inttypes|limits|locale|math|omp|poll|pthread
    |sched|setjmp|signal|spawn|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|sys/mman|sys/prctl|sys/resource
    |sys/stat|sys/types|sys/utsname|sys/wait|time|ucontext|unistd|utime)\.h""",
    re.VERBOSE,
)

PUBLIC = {"attune/attune.h", "attune/device.h", "attune/numerics.h", "attune/tuning.h"}
CONTRACT = {"backend.h", "kernel_abi.h"}

# Which run kernels on the CPU, by one parallel_for.
HOST_BACKENDS = {"backends/cpu", "backends/emulated"}

# Whose driver is the same under other names: backends/gpu is theirs together, and no backend by itself.
GPU_BACKENDS = {"backends/cuda", "backends/hip"}

# White-box tests, or folders of them, and what each may see beyond the public headers.
WHITE_BOX = {
    "tests/api/made_up.h": {"choose.h"},
    "tests/api/test_occupancy.c": {"occupancy.h"},
    "tests/api/test_options.c": {"context.h"},
    "tests/api/test_source.c": CONTRACT,
    "tests/cuda": CONTRACT | {"gpu.h"},
    "tests/emulated": CONTRACT | {"emulated/instructions.h", "gpus.h", "lds.h", "matrix_unit.h"},
    "tests/hip": CONTRACT | {"gpu.h"},
    "tests/golden/emulated": {"emulated/instructions.h"},
    "tests/tuning": {"tuning/schema.h", "tuning/sqlite.h"},
    "tests/opencl": CONTRACT | {"cl_loader.h", "opencl_device.h"},
}


def folder_of(path):
    """The layer that a file belongs to: a backend is one by itself."""
    return (
        "/".join(path.parts[:2])
        if path.parts[0] == "backends" and len(path.parts) > 2
        else path.parts[0]
    )


def is_system(name):
    return SYSTEM.fullmatch(name) is not None


def allowed(path, name, root):
    """Whether the file at `path` (below root) may include `name`."""
    folder = folder_of(path)
    places = [(root / path.parent / name).resolve(), (root / folder / name).resolve()]
    is_own = any(at.is_file() and root / folder in at.parents for at in places)
    if folder == "include":
        return is_system(name) or name in PUBLIC
    if folder == "src":
        return is_system(name) or name in PUBLIC | CONTRACT or is_own
    if folder == "backends":
        return is_system(name) or name in PUBLIC | CONTRACT | {"threads.h"}
    if folder.startswith("backends/"):
        shared = {"gpu.h"} if folder in GPU_BACKENDS else set()
        shared |= {"threads.h"} if folder in HOST_BACKENDS else set()
        return is_system(name) or name in PUBLIC | CONTRACT | shared or is_own
    if folder in ("tests", "tools"):
        seen = WHITE_BOX.get(path.as_posix(), set()) | WHITE_BOX.get(path.parent.as_posix(), set())
        return is_system(name) or name in PUBLIC | {"cmocka.h"} | seen or is_own
    return True


def violations(root):
    root = root.resolve()
    for top in ("include", "src", "backends", "tests", "tools"):
        for file in sorted((root / top).rglob("*.[ch]")):
            path = file.relative_to(root)
            for _, name in INCLUDE.findall(file.read_text(encoding="utf-8")):
                if not allowed(path, name, root):
                    yield f"{path} includes {name}"


def self_check(root):
    """The rules must be able to refuse."""
    root = root.resolve()
    forbidden = [
        ("include/attune/attune.h", "CL/cl.h"),
        ("include/attune/attune.h", "backend.h"),
        ("src/plan.c", "cuda.h"),
        ("src/plan.c", "threads.h"),
        ("src/plan.c", "../backends/cpu/cpu_features.h"),
        ("backends/backend.h", "problem.h"),
        ("backends/cpu/backend_cpu.c", "../../src/problem.h"),
        ("backends/cpu/backend_cpu.c", "../opencl/program.h"),
        ("backends/cuda/backend_cuda.c", "threads.h"),
        ("tests/api/test_run.c", "choose.h"),
        ("tests/api/test_run.c", "../../backends/backend.h"),
        ("tools/attune/main.c", "backend.h"),
    ]
    for path, name in forbidden:
        if allowed(pathlib.Path(path), name, root):
            yield f"the rules let {path} include {name}"


def main():
    root = pathlib.Path(sys.argv[1])
    found = list(self_check(root)) + list(violations(root))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
