#!/usr/bin/env python3
"""Templates that every dialect shares hold no word of a dialect, and the code generator imports little.

Every rule is shown to bite by a made-up text that breaks it. (Who may #include whom: tests/api/layering.py.)
"""

import ast
import pathlib
import re
import sys
import unittest

try:
    import tomllib
except ModuleNotFoundError:  # Python < 3.11
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What codegen may import beyond the standard library.
PACKAGES = {"jinja2", "tomli"}

# What only a dialect may spell: reserved names, built-in functions and types of C, OpenCL, CUDA, HIP and instruction sets.
DIALECT_WORD = re.compile(
    r"""\b(?: __\w+ | _mm\d*_\w+ | (?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b
        | get_(?:local|global|group)_\w+ | barrier\s*\( | (?:float|int|uint|half|double)(?:2|3|4|8|16)\b
        | v(?:load|store)\d* | as_\w+\s*\( | convert_\w+ | native_\w+ | v\w+q_[fsu]\d+ )""",
    re.VERBOSE,
)


def import_faults(path, text, packages):
    """Each import of a Python text that is neither the standard library, nor beside it, nor one of `packages`."""
    beside = {file.stem for file in (ROOT / path).parent.glob("*.py")}
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    known = beside | packages | set(getattr(sys, "stdlib_module_names", names))
    return [f"{path}: may not import {name}" for name in sorted(names - known)]


def template_faults(path, text):
    """Each dialect word, and each decision about the dialect, in a text that every dialect shares."""
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    faults = [
        f"{path}: '{word}' is a dialect's word" for word in sorted(set(DIALECT_WORD.findall(code)))
    ]
    if re.search(r"\{%|\{\{", code):
        faults.append(f"{path}: the text must not depend on values; only frames do")
    if re.search(r"^\s*#\s*include", code, re.MULTILINE):
        faults.append(f"{path}: includes a header")
    return faults


def contract():
    """templates/contract.toml."""
    return tomllib.loads((ROOT / "templates" / "contract.toml").read_text("utf-8"))


def without_comments(text):
    """The code of a C text, with single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL))


def defined_words(text):
    """What a dialect's text defines: macros, types and functions."""
    names = set(re.findall(r"^#define (\w+)", text, re.MULTILINE))
    names |= set(re.findall(r"^typedef [^;{}]*?(\w+)(?: __attribute__.*)?;", text, re.MULTILINE))
    return names | set(re.findall(r"^INLINE [\w ]*?\*?(\w+)\(", text, re.MULTILINE))


def shared_templates():
    """The templates whose text is the same in every dialect."""
    templates = ROOT / "templates"
    frames = {"body.j2", "kernel.j2", "kernel_table.j2", "unit.j2"}
    files = [path for path in templates.glob("*.j2") if path.name not in frames]
    return sorted(files + list(templates.glob("engine/*.j2")))


class Tree(unittest.TestCase):
    """The tree as it is."""

    def test_imports(self):
        files = list((ROOT / "codegen").glob("*.py"))
        self.assertGreaterEqual(len(files), 3)
        for path in files:
            name = str(path.relative_to(ROOT))
            self.assertEqual(import_faults(name, path.read_text("utf-8"), PACKAGES), [])

    def test_templates(self):
        self.assertGreaterEqual(len(shared_templates()), 5)
        for path in shared_templates():
            name = str(path.relative_to(ROOT))
            self.assertEqual(template_faults(name, path.read_text("utf-8")), [])

    def test_algorithm(self):
        """The algorithm knows no vectors and no work-items either: those are the engines'."""
        text = (ROOT / "templates" / "forward.j2").read_text("utf-8")
        code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
        self.assertEqual(re.findall(r"\b(?:vec\w*|THREAD\w*|LANE\w*|BARRIER|PANEL\w*)\b", code), [])

    def test_signatures(self):
        """Each engine defines a primitive exactly as the contract says."""
        spec = tomllib.loads((ROOT / "templates" / "attention.toml").read_text("utf-8"))
        for engine, table in spec["engine"].items():
            texts = ((ROOT / "templates" / file).read_text("utf-8") for file in table["files"])
            code = without_comments("\n".join(texts))
            for name, row in contract()["primitive"].items():
                if engine in row.get("for", [engine]):
                    self.assertIn(f"INLINE {row['signature']} {{", code, f"{engine}: {name}")

    def test_words(self):
        """What a dialect defines and a shared text uses is a word of the contract."""
        files = list((ROOT / "templates" / "dialect").glob("*.j2"))
        defined = set().union(*(defined_words(path.read_text("utf-8")) for path in files))
        self.assertGreater(defined, {"vec", "vec_fma", "BARRIER", "int64", "KERNEL_ENTRY"})
        used = set()
        for path in shared_templates():
            used |= set(re.findall(r"\w+", without_comments(path.read_text("utf-8"))))
        words = set(contract()["word"])
        self.assertEqual((defined & used) - words, set())
        self.assertEqual(
            words - used, {"KERNEL_ENTRY", "widen_f16"}, "only the frame, and a pasted name"
        )


class Bites(unittest.TestCase):
    """Files that break the rules."""

    def test_imports(self):
        self.assertEqual(
            len(import_faults("codegen/new.py", "import jinja2\nimport ast", {"jinja2"})), 0
        )
        if hasattr(sys, "stdlib_module_names"):
            self.assertEqual(
                len(import_faults("codegen/new.py", "from numpy import array", set())), 1
            )

    def test_templates(self):
        for text in [
            "x = __shfl_xor_sync(m, x, 1);",
            "x = _mm256_add_ps(x, y);",
            "float4 x;",
            "int i = threadIdx.x;",
            "barrier(CLK_LOCAL_MEM_FENCE);",
            "x = vaddq_f32(x, y);",
            "x = as_float(3);",
            '{% if dialect == "hip" %}',
            "{{ block_q }}",
            "#include <math.h>",
            "#ifdef __HIP__",
        ]:
            with self.subTest(text=text):
                self.assertEqual(len(template_faults("templates/engine/new.j2", text)), 1)
        self.assertEqual(template_faults("templates/engine/new.j2", "/* as float4 */ vec x;"), [])


if __name__ == "__main__":
    unittest.main()
