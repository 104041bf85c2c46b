"""The rendered texts: what all kernels have in common, how they are written, what an engine and a dialect must define."""

import fnmatch
import hashlib
import re
import shutil
import unittest

import jinja2
from fixture import ROOT, TARGETS, folder_with, generator, run  # first: it finds the modules below

# isort: split
import render
import spec as specification

ALGORITHM = re.compile(r"/\* ---- algorithm: forward ---- \*/\n(.*)/\* ---- end of algorithm", re.S)


def templates(names):
    """Their texts, one after the other."""
    return "".join((ROOT / "templates" / name).read_text("utf-8") for name in names)


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.generator = generator()
        cls.points = [
            point
            for target, archs in TARGETS.items()
            for arch in archs
            for point in cls.generator.selected(target, arch, [])[0]
        ]

    def test_the_algorithm_is_one_text(self):
        """Byte for byte the same in every target, instruction set, engine, type and tile."""
        digests = {}
        for point in self.points:
            text = ALGORITHM.search(self.generator.renderer.kernel(point)).group(1)
            digest = hashlib.sha256(text.encode()).hexdigest()
            digests.setdefault(digest, point.id)
        self.assertEqual(len(digests), 1, digests)
        engines = {(point.target, point.variant.name, point.engine) for point in self.points}
        self.assertGreaterEqual(len(engines), 8)

    def test_a_file_is_constants_and_the_shared_body(self):
        """What is embedded for a compiler at run time is what the rendered file holds."""
        for point in self.points:
            constants = self.generator.renderer.constants(point)
            text = self.generator.renderer.kernel(point)
            body = self.generator.renderer.body(point)
            self.assertTrue(text.endswith(f"{constants}\n{body}"), point.id)
            self.assertNotIn(point.id, body)
            self.assertIn(f"#define KERNEL_NAME {point.symbol}\n", constants)

    def test_the_table_embeds_that_body(self):
        """Undoes C's quoting and finds the body again."""
        table = self.generator.renderer.table("opencl", "x86_64", self.points_of("opencl"), [])
        for engine in ("vector", "simt"):
            quoted = re.search(rf"body_forward_{engine}\[\] =\n(.*?);\n\n", table, re.S).group(1)
            lines = re.findall(r'^ *"(.*)\\n"$', quoted, re.M)
            text = "".join(line.replace('\\"', '"').replace("\\\\", "\\") + "\n" for line in lines)
            point = next(p for p in self.points_of("opencl") if p.engine == engine)
            self.assertEqual(text, self.generator.renderer.body(point))

    def test_vendors_differ_in_their_dialects_alone(self):
        """A rendering less the lines of constants, unit and dialect is the same in CUDA and HIP, byte for byte; so the lines that differ are as many as these files have."""
        for engine, kernels in {
            "simt": [
                ("cuda", "forward_f16_d64_simt_q32k32t128"),
                ("hip", "forward_f16_d64_simt_q32k32t128"),
            ],
            "matrix": [
                ("cuda", "forward_f16_d64_matrix_q128k64t128b2h1r1u0"),
                *(
                    ("hip", f"forward_f16_d64_matrix_q128k32t256b2h0r1u{unit}")
                    for unit in (1, 2, 3, 4)
                ),
            ],
        }.items():
            shared = set()
            for target, kernel in kernels:
                point, reasons = self.generator.spec.find(target, "x86_64", kernel)
                self.assertEqual(reasons, [])
                text = self.generator.renderer.body(point)
                for name in point.dialect_files:
                    spelled = templates([name])
                    self.assertEqual(text.count(spelled), 1, name)
                    text = text.replace(spelled, "")
                text, units = re.subn(r"/\* Matrix unit .*?(?=\n\n)", "", text, flags=re.S)
                self.assertEqual(units, int(engine == "matrix"))
                shared.add(text)
            self.assertEqual(len(shared), 1, engine)

    def points_of(self, target):
        return [point for point in self.points if point.target == target]

    def test_no_template_syntax_is_left(self):
        for point in self.points:
            self.assertNotRegex(self.generator.renderer.kernel(point), r"\{\{|\{%|\{#")

    def test_goldens(self):
        status, out, errors = run("--check")
        self.assertEqual((status, out, errors), (0, "", ""))


class Rendering(unittest.TestCase):
    def setUp(self):
        self.folder = folder_with(self)

    def test_undefined_names_are_errors(self):
        templates = self.folder / "templates"
        shutil.copytree(ROOT / "templates", templates)
        with open(templates / "block.j2", "a", encoding="utf-8") as file:
            file.write("{{ no_such_name }}\n")
        g = generator(templates)
        with self.assertRaises(jinja2.UndefinedError):
            g.renderer.kernel(g.spec.points("c", "x86_64")[0])
        status, _, errors = run("--render", "c", "--out", self.folder, "--templates", templates)
        self.assertEqual(status, 2)
        self.assertIn("no_such_name", errors)

    def test_bad_spec_is_one_sentence(self):
        templates = self.folder / "templates"
        shutil.copytree(ROOT / "templates", templates)
        (templates / "attention.toml").write_text("[problem\n", "utf-8")
        status, _, errors = run("--list", "--templates", templates)
        self.assertEqual((status, errors.count("\n")), (2, 1))
        self.assertIn("attention.toml", errors)
        status, _, errors = run("--render", "metal", "--out", self.folder)
        self.assertEqual(status, 2)
        self.assertIn("no target 'metal'", errors)

    def test_only_what_differs_is_written(self):
        path = self.folder / "a" / "b.c"
        self.assertTrue(render.write_if_different(path, "one"))
        before = path.stat().st_mtime_ns
        self.assertFalse(render.write_if_different(path, "one"))
        self.assertEqual(path.stat().st_mtime_ns, before)
        self.assertTrue(render.write_if_different(path, "two"))
        self.assertEqual(path.read_text(), "two")

    def test_two_runs_give_the_same_bytes(self):
        texts = []
        for seed in ("1", "2"):
            out = self.folder / seed
            status, _, errors = run(
                "--render", "opencl", "--out", out, env={"PYTHONHASHSEED": seed, "PATH": ""}
            )
            self.assertEqual((status, errors), (0, ""))
            texts.append({path.name: path.read_bytes() for path in out.iterdir()})
        self.assertEqual(texts[0], texts[1])

    def test_outputs_are_what_is_written(self):
        arguments = ["--render", "c", "--arch", "x86_64", "--out", self.folder / "c"]
        _, out, _ = run(*arguments, "--outputs")
        *files, common = out.splitlines()
        self.assertEqual(common, "|")  # no flags are those of all processors
        named = {line.split("|")[0] for line in files}
        self.assertFalse((self.folder / "c").exists())
        self.assertEqual(run(*arguments)[0], 0)
        self.assertEqual(named, {str(path) for path in (self.folder / "c").iterdir()})

    def test_outputs_tell_the_flags_of_all_texts(self):
        arguments = ["--render", "hip", "--arch", "x86_64", "--out", self.folder / "hip"]
        _, out, _ = run(*arguments, "--outputs")
        *files, common = out.splitlines()
        flags = {
            tuple(line.split("|")[2:]) for line in files if not line.split("|")[0].endswith(".c")
        }
        self.assertEqual({tuple(common.split("|")[2:])}, flags)
        self.assertIn("--cuda-device-only", common)
        table = next(line for line in files if "kernel_table_hip.c" in line)
        self.assertEqual(table.split("|")[2:], [])  # which the host's compiler reads

    def hashes(self, templates=ROOT / "templates"):
        """Of the texts of {(target, processor): 16 digits}."""
        renderer = generator(templates).renderer
        return {
            (target, arch): renderer.text_hash(target, arch)
            for target, archs in TARGETS.items()
            for arch in archs
        }

    def test_the_hash_tells_a_change(self):
        """Of the spec, and of each text that the target has."""
        before = self.hashes()
        self.assertEqual(len(set(before.values())), len(before))
        for name, line, changed in [
            ("forward.j2", "/* changed */\n", set(before)),
            ("attention.toml", "# changed\n", set(before)),
            ("engine/simt.j2", "/* changed */\n", {key for key in before if key[0] != "c"}),
            ("dialect/c_avx512.j2", "/* changed */\n", {("c", "x86_64")}),
            ("dialect/c_neon.j2", "/* changed */\n", {("c", "aarch64")}),
            ("dialect/cuda_mma.j2", "/* changed */\n", {("cuda", "x86_64")}),
        ]:
            folder = folder_with(self, "templates") / "templates"
            with open(folder / name, "a", encoding="utf-8") as file:
                file.write(line)
            after = self.hashes(folder)
            self.assertEqual({key for key in before if before[key] != after[key]}, changed, name)

    def test_the_table_has_the_hash_whatever_is_built(self):
        more = "forward_f16_d64_matrix_q128k128t256b2h0r1u3,forward_f32_d64_vector_q8r8k64*"
        for target in ("c", "opencl", "emulated"):
            tables = set()
            for number, globs in enumerate([("--tuned", "*_d64_*"), ("--points", more)]):
                out = self.folder / f"{target}{number}"
                options = ["--arch", "x86_64", "--out", out, *globs]
                self.assertEqual(run("--render", target, *options)[0], 0)
                table = (out / f"kernel_table_{target}.c").read_text("utf-8")
                tables.add(re.search(r'text_hash = "(.*)"', table).group(1))
            self.assertEqual(tables, {generator().renderer.text_hash(target, "x86_64")})

    def test_the_hash_leaves_no_text_out(self):
        g = generator()
        for target, archs in TARGETS.items():
            for arch in archs:
                exist, examples = (
                    {(point.variant.name, render.body_name(point)) for point in points}
                    for points in (g.spec.points(target, arch), g.spec.examples(target, arch))
                )
                self.assertEqual(exist - examples, set(), target)

    def test_fewer_tuned_points(self):
        g = generator()
        _, every = g.selected("c", "x86_64", [])
        for globs in (["*"], ["forward_f16_d64_*", "forward_f32_*"], ["nothing"]):
            points, tuned = g.selected("c", "x86_64", [], globs)
            matching = [r for r in every if any(fnmatch.fnmatchcase(r.kernel, g) for g in globs)]
            self.assertEqual(tuned, matching)
            self.assertEqual({point.id for point in points}, {row.kernel for row in matching})

    def test_extra_points(self):
        extra = "forward_f32_d64_vector_q8r8k64n32w16"
        arguments = ["--render", "c", "--arch", "x86_64", "--out", "x", "--outputs"]
        self.assertNotIn(extra, run(*arguments)[1])
        self.assertIn(extra, run(*arguments, "--points", "forward_f32_d64_vector_q8r8k64*")[1])


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = (ROOT / "templates" / "contract.toml").read_text("utf-8")
        cls.contract = specification.tomllib.loads(text)
        cls.spec = generator().spec

    def defines(self, text, name):
        macro = rf"^#define {name}\b"
        function = rf"^INLINE [^;{{}}\n]*?\b{name}\([^;{{}}]*\)\s*\{{"
        typedef = rf"^typedef [^;{{}}]*\b{name}\b[^;{{}}]*;|^\}} {name};"
        return re.search(f"{macro}|{function}|{typedef}", text, re.M | re.S) is not None

    def test_every_engine_defines_every_primitive(self):
        primitives = self.contract["primitive"]
        self.assertLessEqual(len(primitives), 22)
        for engine in self.spec.engines:
            text = templates(self.spec.engines[engine]["files"])
            for name, row in primitives.items():
                if engine in row.get("for", [engine]):
                    self.assertTrue(self.defines(text, name), f"{engine} lacks {name}")
                    self.assertIn("synchronises", row)
            for name in self.contract["type"]:
                self.assertTrue(self.defines(text, name), f"{engine} lacks the type {name}")

    def test_the_algorithm_uses_primitives_only(self):
        text = (ROOT / "templates" / "forward.j2").read_text("utf-8")
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        called = set(re.findall(r"\b([a-z_]+)\(", code)) - {"for", "if", "forward"}
        self.assertEqual(called - set(self.contract["primitive"]), {"block_locate"})

    def test_every_dialect_spells_every_word(self):
        """Those of matrix units in the text of each unit."""
        for target in TARGETS:
            for variant in self.spec.variants(target):
                for engine in self.spec.target(target)["engines"]:
                    units = [row for row in self.spec.units if target in row["dialects"]]
                    for unit in units if engine == "matrix" else [None]:
                        own = [unit["dialects"][target]] if unit else []
                        text = templates([*variant.files, *own])
                        for name, row in self.contract["word"].items():
                            if engine in row["for"]:
                                place = f"{target} {variant.name} {unit and unit['name']}"
                                self.assertTrue(self.defines(text, name), f"{place} lacks {name}")


if __name__ == "__main__":
    unittest.main()
