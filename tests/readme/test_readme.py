#!/usr/bin/env python3
"""What README.md and docs/ show is what is there: the example, links, names of files, environment variables, verdicts, fills, kernels."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {page.relative_to(ROOT): page.read_text("utf-8") for page in PAGES}
README = TEXT[pathlib.Path("README.md")]


def source(folder):
    """All C text below a folder."""
    files = [path for pattern in ("*.c", "*.h") for path in sorted((ROOT / folder).rglob(pattern))]
    return "\n".join(path.read_text("utf-8") for path in files)


def table(heading, text):
    """First cells of the table that has `heading` in its first row."""
    start = text.index(f"| {heading} |")
    rows = text[start:].split("\n\n")[0].splitlines()[2:]
    return [row.split("|")[1].strip(" `") for row in rows]


class Readme(unittest.TestCase):
    """README.md and docs/."""

    def test_shown_files(self):
        shown = re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL)
        self.assertEqual(
            [name for name, _ in shown], ["examples/CMakeLists.txt", "examples/attend.c"]
        )
        for name, text in shown:
            self.assertEqual(text, (ROOT / name).read_text("utf-8"))

    def test_links(self):
        for page, text in TEXT.items():
            for target in re.findall(r"\]\(([^)#:]+)\)", text):
                self.assertTrue((ROOT / page.parent / target).exists(), f"{page}: {target}")

    def test_files(self):
        """Names that begin with a folder of the tree."""
        folders = "|".join(
            p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith((".", "build"))
        )
        name = re.compile(rf"(?<![\w/.-])(?:{folders})/[\w./-]*\w")
        for page, text in TEXT.items():
            found = set(name.findall(re.sub(r"\]\([^)]*\)", "]", text)))
            for path in sorted(found):
                self.assertTrue((ROOT / path).exists(), f"{page}: {path}")

    def test_engines_and_options(self):
        header = source("include")
        macro = re.search(r"#define ATTUNE_ENGINES\(X\)(.*?[^\\])\n", header, re.DOTALL)[1]
        self.assertEqual(table("engine", README), re.findall(r"X\((\w+),", macro))
        options = re.search(r"typedef struct attune_plan_options \{(.*?)\}", header, re.DOTALL)[1]
        members = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", options, flags=re.DOTALL))
        self.assertEqual(["struct_size", *table("`attune_plan_options`", README)], members)

    def test_environment(self):
        read = set(re.findall(r'(?:getenv|environment)\("(ATTUNE_\w+)"\)', source("src")))
        read |= set(re.findall(r'getenv\("(ATTUNE_\w+)"\)', source("backends")))
        self.assertEqual(set(table("environment variable", README)), read)

    def test_verdicts_and_fills(self):
        header = (ROOT / "include/attune/numerics.h").read_text("utf-8")
        members = re.findall(r"^ +X\((\w+),", header, re.MULTILINE)
        judging = TEXT[pathlib.Path("docs/judging.md")]
        self.assertEqual(table("verdict", README) + table("fill", judging), members)

    def test_exit_statuses(self):
        text = (ROOT / "tools/attune/fail.h").read_text("utf-8")
        self.assertEqual(table("exit status", README), re.findall(r"EXIT_\w+ = (\d)", text))

    def test_kernels(self):
        """Every kernel id that is shown is a point of the spec."""
        listed = subprocess.run(
            [sys.executable, "-B", ROOT / "codegen/generate.py", "--list", "--arch", "x86_64"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for page, text in TEXT.items():
            for kernel in re.findall(r"\bforward_\w+_d\d+_[a-z]+_[a-z0-9]+\b(?!\*)", text):
                self.assertIn(kernel, listed, page)


if __name__ == "__main__":
    unittest.main()
