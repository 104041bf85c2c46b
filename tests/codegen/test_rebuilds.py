"""Touching a template rebuilds what it feeds and nothing else. usage: test_rebuilds.py CMAKE GENERATOR"""

import os
import subprocess
import sys
import unittest

from fixture import folder_with

CMAKE, GENERATOR = sys.argv.pop(1), sys.argv.pop(1)

# A project with the kernels alone, few of them and compiled fast.
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(attune LANGUAGES C)
include(codegen/codegen.cmake)
set(ATTUNE_KERNEL_FLAGS -O0)
add_library(kernels STATIC)
attune_add_kernels(kernels c)
attune_add_kernels(kernels opencl)
attune_add_kernels("" cuda)
attune_add_kernels("" hip)
"""


def keep(path, part):
    """Leaves the header and the lines that hold `part`."""
    lines = path.read_text("utf-8").splitlines(True)
    path.write_text("".join([lines[0], *(line for line in lines[1:] if part in line)]), "utf-8")


class Rebuilds(unittest.TestCase):
    def setUp(self):
        self.root = folder_with(self, "codegen", "templates", "backends", "include")
        for name in ("cpu", "opencl"):
            keep(self.root / "backends" / name / "tuned.tsv", "_f32_d32_")
        (self.root / "CMakeLists.txt").write_text(PROJECT, "utf-8")
        self.build = self.root / "build"
        python = f"-DPython3_EXECUTABLE={sys.executable}"
        self.run_command(CMAKE, "-S", self.root, "-B", self.build, "-G", GENERATOR, python)
        self.stamps = {}
        self.make()

    def run_command(self, *command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def make(self):
        """Builds; the names of the sources whose objects were made anew."""
        before = self.objects()
        self.run_command(CMAKE, "--build", self.build)
        after = self.objects()
        return {path.name for path, time in after.items() if before.get(path) != time}

    def rendered(self):
        """The targets whose texts the last build rendered."""
        stamps = {
            path.stem: path.stat().st_mtime_ns for path in self.build.glob("generated/*.stamp")
        }
        before, self.stamps = self.stamps, stamps
        return {name for name, time in stamps.items() if before.get(name) != time}

    def objects(self):
        return {path: path.stat().st_mtime_ns for path in self.build.rglob("*.c.o")}

    def append(self, name, text):
        path = self.root / name
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
        os.utime(path)  # also where nothing was appended

    def test_what_is_fed_is_rebuilt(self):
        everything = {path.name for path in self.objects()}
        table_c, table_opencl = "kernel_table_c.c.o", "kernel_table_opencl.c.o"
        kernels = everything - {table_c, table_opencl}
        self.assertGreaterEqual(len(kernels), 3)
        self.assertEqual(self.rendered(), {"c", "opencl", "cuda", "hip"})
        self.assertEqual(self.make(), set())
        self.assertEqual(self.rendered(), set())

        self.append("templates/forward.j2", "")
        self.assertEqual(self.make(), set(), "the bytes are the same")
        self.assertEqual(self.rendered(), {"c", "opencl", "cuda", "hip"})
        self.append("templates/dialect/hip.j2", "\n/* touched */\n")
        self.assertEqual(self.make(), set())
        self.assertEqual(self.rendered(), {"hip"})
        self.append("templates/engine/simt.j2", "\n/* touched */\n")
        self.assertEqual(self.make(), {table_opencl})
        self.assertEqual(self.rendered(), {"opencl", "cuda", "hip"})
        self.append("templates/forward.j2", "\n/* touched */\n")
        self.assertEqual(self.make(), everything, "a table has the hash of its texts")
        self.append("templates/dialect/c_avx2.j2", "\n/* touched */\n")
        self.assertEqual(self.make(), {table_c, *(name for name in kernels if "w8" in name)})

        row = "*\tforward\tf32\t64\t*\tforward_f32_d64_vector_q4r4k64n8w4\n"
        self.append("backends/cpu/tuned.tsv", row)
        # Make compiles the others again too: CMake keeps the flags of all sources of a library in one file.
        self.assertLessEqual({table_c, "forward_f32_d64_vector_q4r4k64n8w4.c.o"}, self.make())


if __name__ == "__main__":
    unittest.main()
