"""The spec, the names and the rendered texts: what every kernel has in common, and what may not go wrong unseen."""

import fnmatch
import hashlib
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))

import jinja2  # noqa: E402

import generate  # noqa: E402
import names  # noqa: E402
import render  # noqa: E402
import spec as specification  # noqa: E402

TARGETS = {"c": ("x86_64", "aarch64", "riscv64"), "opencl": ("x86_64",), "cuda": ("x86_64",)}
TARGETS["hip"] = TARGETS["emulated"] = TARGETS["cuda"]
ALGORITHM = re.compile(r"/\* ---- algorithm: forward ---- \*/\n(.*)/\* ---- end of algorithm", re.S)


def generator(templates=ROOT / "templates"):
    return generate.Generator(templates, ROOT / "backends")


def run(*arguments, **settings):
    """generate.py as its own process: (status, stdout, stderr)."""
    command = [sys.executable, "-B", ROOT / "codegen" / "generate.py", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    return done.returncode, done.stdout, done.stderr


class Names(unittest.TestCase):
    def test_every_point_round_trips(self):
        spec = generator().spec
        for target, archs in TARGETS.items():
            for arch in archs:
                points = spec.points(target, arch)
                self.assertEqual(len({point.id for point in points}), len(points))
                for point in points:
                    op, dtype, head_dim, engine, tuning = names.parse_kernel_id(point.id)
                    self.assertEqual((op, dtype, head_dim), point.key)
                    self.assertEqual(engine, point.engine)
                    self.assertEqual([value for _, value in tuning], [v for _, v in point.axes])
                    self.assertEqual(names.kernel_id(op, dtype, head_dim, engine, tuning), point.id)

    def test_garbage_is_refused(self):
        good = "forward_f32_d64_vector_q12r12k128n32w16"
        bad = ["", "forward", good + "_", good.upper(), good.replace("d64", "d"), good[:-1] + "x"]
        bad += [good.replace("q12", "q012"), good.replace("d64", "d064"), " " + good, good + "\n"]
        for text in bad:
            with self.assertRaises(names.KernelNameError, msg=text):
                names.parse_kernel_id(text)

    def test_random_bytes_never_do_worse(self):
        rng = random.Random(1)
        for _ in range(2000):
            text = "".join(rng.choice("forwadf32_kqntv10 \n") for _ in range(rng.randrange(40)))
            try:
                parsed = names.parse_kernel_id(text)
            except names.KernelNameError:
                continue
            self.assertEqual(names.kernel_id(*parsed), text)


class Expressions(unittest.TestCase):
    def test_values(self):
        values = {"a": 7, "b": 2}
        for text, expected in [
            ("a * b + 1", 15),
            ("a // b - 1 == b and a % b != 0", True),
            ("a < b or 1 <= b < 3", True),
            ("2**-24", 2.0**-24),
            ("-a", -7),
        ]:
            self.assertEqual(specification.evaluate(text, values), expected)

    def test_nothing_else_is_evaluated(self):
        for text in ["open('x')", "a.b", "c", "[1]", "a if b else 1", "1 +", "'x'", "a[0]"]:
            with self.assertRaises(specification.SpecError, msg=text):
                specification.evaluate(text, {"a": 1, "b": 2})


class Rules(unittest.TestCase):
    def test_each_rule_rejects_and_says_why(self):
        spec = generator().spec
        seen = set()
        for target in TARGETS:
            for _, reasons in spec.candidates(target, "x86_64"):
                seen |= set(reasons)
        self.assertEqual(seen, {rule["why"] for rule in spec.rules})

    def test_list_and_why(self):
        pattern = "forward_f32_d64_simt_q8k16t*"
        status, out, _ = run("--list", "--target", "opencl", "--glob", pattern)
        self.assertEqual(status, 0)
        listed = [line.split()[1] for line in out.splitlines()]
        self.assertIn("forward_f32_d64_simt_q8k16t64", listed)
        status, out, _ = run("--list", "--why", "--target", "opencl", "--glob", pattern)
        self.assertEqual(status, 0)
        self.assertIn("forward_f32_d64_simt_q8k16t256 - ", out)
        rejected = [line.split()[1] for line in out.splitlines()]
        self.assertTrue(all(fnmatch.fnmatchcase(name, pattern) for name in rejected))
        self.assertFalse(set(listed) & set(rejected))

    def test_fast_memory_of_small_devices(self):
        """Every simt kernel that OpenCL prefers on a GPU fits 32 KiB of local memory and groups of 256."""
        g = generator()
        points = {point.id: point for point in g.spec.points("opencl", "x86_64")}
        for row in g.tuned("opencl"):
            if row.device_class == "gpu":
                self.assertLessEqual(g.spec.engine_value(points[row.kernel], "fast_memory"), 32768)
                self.assertLessEqual(g.spec.engine_value(points[row.kernel], "threads"), 256)


class Engines(unittest.TestCase):
    def test_the_api_has_their_names(self):
        header = (ROOT / "include" / "attune" / "attune.h").read_text("utf-8")
        macro = re.search(r"#define ATTUNE_ENGINES\(X\)(.*?[^\\])\n", header, re.S)[1]
        named = re.findall(r"X\((\w+),", macro)
        self.assertGreater(len(named), 1)
        self.assertLessEqual(set(generator().spec.engines), set(named))


class Rows(unittest.TestCase):
    """What the runtime is told of a kernel may differ between the points of an engine."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(ROOT / "templates", self.folder / "templates")

    def spec_with(self, *changes):
        path = self.folder / "templates" / "attention.toml"
        head, simt, tail = path.read_text("utf-8").partition("[engine.simt]")
        for old, new in changes:
            self.assertIn(old, tail)
            tail = tail.replace(old, new, 1)
        path.write_text(head + simt + tail, "utf-8")
        return generator(self.folder / "templates")

    def row(self, g, kernel):
        """The members of the kernel's row in the rendered table."""
        point, _ = g.spec.find("cuda", "x86_64", kernel)
        table = g.renderer.table("cuda", [point], [])
        return dict(re.findall(r"^        \.(\w+) = ([^\n]+),$", table, re.M))

    def test_expressions_over_the_point(self):
        g = self.spec_with(
            ('u_in = "0"', 'u_in = "f32 * 2**-11"'),
            ('u_p = "2**-24"', 'u_p = "f32 * 2**-11 + f16 * 2**-12 + bf16 * 2**-8"'),
            ("qk_step = 1", 'qk_step = "32 // element_size"'),
            ('reproducible = "1"', 'reproducible = "1 - pair * bf16"'),
            ("axes.threads = ", 'axes.pair = { letter = "p", values = [0, 1] }\naxes.threads = '),
            (
                'fast_memory = "4 * (',
                'fast_memory = "element_size * (',
            ),
        )
        for dtype, pair, u_in, u_p, qk_step, reproducible in [
            ("f32", 0, 2**-11, 2**-11, "8", "1"),
            ("f16", 1, 0, 2**-12, "16", "1"),
            ("bf16", 0, 0, 2**-8, "16", "1"),
            ("bf16", 1, 0, 2**-8, "16", "0"),
        ]:
            row = self.row(g, f"forward_{dtype}_d64_simt_q32k32p{pair}t128")
            got = (row["qk_step"], row["pv_step"], row["reproducible"])
            self.assertEqual(got, (qk_step, "1", reproducible))
            numbers = [float.fromhex(row[name]) for name in ("u_in", "u_p", "u_acc")]
            self.assertEqual(numbers, [u_in, u_p, 2**-24])
            floats = 64 * 68 + 32 * 36
            self.assertEqual(int(row["fast_memory"]), floats * (4 if dtype == "f32" else 2))

    def test_values_that_cannot_be(self):
        for change, message in [
            (("qk_step = 1", 'qk_step = "2 * f32"'), "arithmetic: qk_step is 0 for forward_f16"),
            (("qk_step = 1", 'qk_step = "2**-1"'), "arithmetic: qk_step is 0.5"),
            (('u_p = "2**-24"', 'u_p = "-1"'), "arithmetic: u_p is -1"),
            (('u_p = "2**-24"', 'u_p = "f64"'), "cannot evaluate 'f64'"),
            (('reproducible = "1"', 'reproducible = "threads"'), "reproducible is 128 for"),
        ]:
            g = self.spec_with(change)
            with self.assertRaisesRegex(specification.SpecError, message):
                self.row(g, "forward_f16_d64_simt_q32k32t128")
            shutil.copy(ROOT / "templates" / "attention.toml", self.folder / "templates")


class Tuned(unittest.TestCase):
    def test_every_problem_has_a_kernel_everywhere(self):
        g = generator()
        problem = g.spec.data["problem"]
        for target, archs in TARGETS.items():
            for arch in archs:
                points, tuned = g.selected(target, arch, [])
                built = {point.id for point in points}
                self.assertTrue(all(row.kernel in built for row in tuned))
                found = {
                    (row.dtype, row.head_dim)
                    for row in tuned
                    if row.max_seqlen_q == "*" and row.op == "forward"
                }
                for dtype in problem["dtype"]:
                    for head_dim in problem["head_dim"]:
                        self.assertIn((dtype, head_dim), found, (target, arch))

    def test_several_rows_are_an_order_of_preference(self):
        """Not the order of their ids; the table that is rendered keeps it, for tuned rows and kernels alike."""
        kernels = [f"forward_f32_d64_simt_{tile}" for tile in ("q64k64t128", "q16k32t128")]
        kernels += ["forward_f32_d64_simt_q32k32t128"]
        lines = [f"*\tforward\tf32\t64\t9\t{kernel}" for kernel in kernels]
        lines += [f"*\tforward\tf32\t64\t*\t{kernels[1]}"]
        text = "\n".join([specification.TUNED_HEADER, *lines, ""])
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "cuda").mkdir()
        (folder / "cuda" / "tuned.tsv").write_text(text, "utf-8")
        shutil.copy(ROOT / "backends" / "kernel_abi.h", folder)
        g = generate.Generator(ROOT / "templates", folder)
        points, tuned = g.selected("cuda", "x86_64", [])
        self.assertEqual([point.id for point in points], kernels)
        table = g.renderer.table("cuda", points, tuned)
        self.assertEqual(re.findall(r"\.kernel = \"(\w+)\"", table), [*kernels, kernels[1]])

    def test_bad_tables_are_named(self):
        kernel = "forward_f32_d64_vector_q12r12k128n32w16"
        row = f"cpu\tforward\tf32\t64\t*\t{kernel}"
        other = row.replace("q12r12", "q4r4")
        head = specification.TUNED_HEADER
        for text, part in [
            ("", "first line"),
            (f"{head}\ncpu\tforward", "2 fields"),
            (f"{head}\n{row}x", "no kernel id"),
            (f"{head}\n{row.replace('f32', 'f16', 1)}", "computes something else"),
            (f"{head}\n{row.replace('*', '-1')}", "max_seqlen_q"),
            (f"{head}\n{row}\n{row.replace('*', '4')}", ":3: .*not sorted"),
            (f"{head}\n{row}\n{other}\n{row}", ":4: .*twice"),
        ]:
            with self.assertRaisesRegex(specification.SpecError, part):
                specification.parse_tuned(text, "x/tuned.tsv")


class EngineFeatures(unittest.TestCase):
    """An engine that needs a device of some class or later."""

    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.templates, self.backends = folder / "templates", folder / "backends"
        for name in ("templates", "backends"):
            shutil.copytree(ROOT / name, folder / name)
        spec = self.templates / "attention.toml"
        there = 'engine_features = { matrix = ["sm_80"] }'
        features = "engine_features = { simt = ['sm_86', 'sm_80'], matrix = ['sm_80'] }"
        text = spec.read_text("utf-8")
        self.assertEqual(text.count(there), 1)
        spec.write_text(text.replace(there, features), "utf-8")
        tuned = self.backends / "cuda" / "tuned.tsv"
        kernel = "forward_f32_d32_simt_q64k64t128"
        rows = f"sm_86\tforward\tf32\t32\t9\t{kernel}\n"
        tuned.write_text(f"{specification.TUNED_HEADER}\n{rows}", "utf-8")
        self.generator = generate.Generator(self.templates, self.backends)

    def outputs(self, globs):
        return list(self.generator.files("cuda", "x86_64", globs, "x"))

    def test_older_classes_are_left_out(self):
        kernels = ["forward_f32_d32_simt_q64k64*", "forward_f32_d32_simt_q32k32*"]
        classes = {path.name: names for path, names, _, _ in self.outputs(kernels)}
        every = self.generator.spec.device_classes("cuda")
        self.assertEqual(classes["kernel_table_cuda.c"], every)
        self.assertEqual(
            classes["forward_f32_d32_simt_q32k32t128.cu"], every[every.index("sm_86") :]
        )
        self.assertEqual(classes["forward_f32_d32_simt_q64k64t128.cu"], ["sm_86"])

    def test_rows_require_the_features(self):
        *_, (_, _, _, table) = self.outputs([])
        required = set(re.findall(r"requires_features = (.*),", table()))
        self.assertEqual(required, {'"sm_86 sm_80"', '"sm_80"'})


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
        table = self.generator.renderer.table("opencl", self.points_of("opencl"), [])
        for engine in ("vector", "simt"):
            quoted = re.search(rf"body_forward_{engine}\[\] =\n(.*?);\n\n", table, re.S).group(1)
            lines = re.findall(r'^ *"(.*)\\n"$', quoted, re.M)
            text = "".join(line.replace('\\"', '"').replace("\\\\", "\\") + "\n" for line in lines)
            point = next(p for p in self.points_of("opencl") if p.engine == engine)
            self.assertEqual(text, self.generator.renderer.body(point))

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
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

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
        named = {line.split("|")[0] for line in out.splitlines()}
        self.assertFalse((self.folder / "c").exists())
        self.assertEqual(run(*arguments)[0], 0)
        self.assertEqual(named, {str(path) for path in (self.folder / "c").iterdir()})

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
            text = (ROOT / "templates" / "engine" / f"{engine}.j2").read_text("utf-8")
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
        for target in TARGETS:
            for variant in self.spec.variants(target):
                text = "".join(
                    (ROOT / "templates" / name).read_text("utf-8") for name in variant.files
                )
                for name, row in self.contract["word"].items():
                    served = row.get("for", self.spec.target(target)["engines"])
                    if set(served) & set(self.spec.target(target)["engines"]):
                        self.assertTrue(
                            self.defines(text, name), f"{target} {variant.name} lacks {name}"
                        )


if __name__ == "__main__":
    unittest.main()
