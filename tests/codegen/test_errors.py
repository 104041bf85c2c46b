"""What goes wrong is one sentence that names the place: a bad spec, a bad table, a missing package, a glob without a match."""

import re
import sys
import unittest

from fixture import ROOT, folder_with, generator, run  # first: it finds the modules below

# isort: split
import generate
import spec as specification
import tuned_table

SPEC = (ROOT / "templates" / "attention.toml").read_text("utf-8")


class Spec(unittest.TestCase):
    def test_mistakes_are_named(self):
        for pattern, replacement, message in [
            (r"^op = .*$", "", r"\[problem\]: the key 'op' is missing"),
            (r"^head_dim = .*$", "head_dim = []", r"\[problem\]: 'head_dim' is empty"),
            (r'^expr = "panel.*$', "", r"\[\[rule\]\] 1: the key 'expr' is missing"),
            (r"^why = .*$", "why = 3", r"\[\[rule\]\] 1: 'why' is of type int where str belongs"),
            (r'^engine = "vector"$', 'engine = "vectr"', r"rule\]\] 1: engine 'vectr' is unknown"),
            (r'^engine = "vector"$', 'engin = "vector"', r"rule\]\] 1: unknown key 'engin'"),
            (
                r"^lanes = 32$",
                "lanes = 48",
                r"unit\]\] 1: the lanes cannot share the sums of a step",
            ),
            (
                r"transposed = true",
                "transposed = false",
                r"unit\]\] 1 values: either transposed, or",
            ),
            (r", key = .*", " }", r"unit\]\] 2 values: either transposed, or"),
            (
                r'^dtypes = \["f32"\]',
                'dtypes = ["f32", "f16"]',
                r"unit\]\] 2: its dtypes are not of one size",
            ),
            (
                r"^number = 2",
                "number = 1",
                r"unit\]\] 4: another of hip takes f16 as number 1",
            ),
            (
                r"^class_features = .*",
                "class_features = { mfma = 'gfx9' }",
                r"\[target.hip\] class_features: 'mfma' is no list of words",
            ),
            (r"^row_masks = .*", "row_masks = [1]", r"unit\]\] 1: row_masks are two integers"),
            (
                r"^dialects = .*",
                'dialects = { metal = "" }',
                r"unit\]\] 1: target 'metal' is unknown",
            ),
            (r'^dtypes = \["f32"\]', 'dtypes = ["f8"]', r"unit\]\] 2: dtype 'f8' is unknown"),
            (
                r'^name = "mma_m16n8k8_tf32"',
                'name = "mma_m16n8k16"',
                "another is called 'mma_m16n8k16'",
            ),
            (r"^keys = \{ row", "keys = { line", r"unit\]\] 1 keys: the key 'row' is missing"),
            (r'^target = "opencl"$', 'target = "ocl"', r"rule\]\] \d+: target 'ocl' is unknown"),
            (r'^engines = \["vector"\]', 'engines = ["v"]', r"\[target.c\]: engine 'v' is unknown"),
            (r'^suffix = "\.c"$', "", r"\[target.c\]: the key 'suffix' is missing"),
            (r"^embed = false", "embed = 0", r"\[target.c\]: 'embed' is of type int"),
            (r'letter = "k"', 'letter = "q"', r"axes.block_k: letter 'q' belongs to another axis"),
            (r'letter = "k"', 'letter = "kk"', r"axes.block_k: letter 'kk' is not one letter"),
            (
                r"values = \[1, ",
                "values = [-1, ",
                r"axes.block_q: the value -1 is no integer from 0 up",
            ),
            (r"when = \{ lanes", "when = { lane", r"variant 1: axis 'lane' is unknown"),
            (r"qk_step = 1", "qk_step = [1]", r"'qk_step' is of type list where str or int bel"),
            (r'u_in = "0", ', "", r"\[engine.vector\] arithmetic: the key 'u_in' is missing"),
            (r'^reproducible = "1"$', "", r"\[engine.vector\]: the key 'reproducible' is missing"),
            (r"^\[target\.", "[targets.", r"unknown key 'targets'; there are problem"),
        ]:
            changed, count = re.subn(
                pattern, replacement, SPEC, count=0 if "target." in pattern else 1, flags=re.M
            )
            self.assertGreaterEqual(count, 1, pattern)
            with self.assertRaisesRegex(specification.SpecError, message, msg=pattern):
                specification.Spec(changed)

    def test_expressions_name_their_rule(self):
        for expression, message in [
            ("pannel % lanes == 0", "cannot evaluate 'pannel'"),
            ("panel % 0 == 0", "modulo by zero"),
            ("9**9**9 == 0", "beyond 1000"),
        ]:
            changed = SPEC.replace("panel % lanes == 0", expression, 1)
            pattern = f"rule 'a panel is a whole number of vectors': .*{re.escape(message)}"
            with self.assertRaisesRegex(specification.SpecError, pattern):
                specification.Spec(changed).points("c", "x86_64")

    def test_find(self):
        spec = specification.Spec(SPEC)
        for point in spec.points("opencl", "x86_64")[::97]:
            self.assertEqual(spec.find("opencl", "x86_64", point.id), (point, []))
        self.assertTrue(spec.find("c", "x86_64", "forward_f32_d64_vector_q12r12k128n8w16")[1])
        for kernel, message in [
            ("nonsense", "no kernel id"),
            ("forward_f64_d64_vector_q12r12k128n32w16", "no dtype f64"),
            ("forward_f32_d65_vector_q12r12k128n32w16", "no head_dim 65"),
            ("forward_f32_d64_simt_q32k32t128", "no engine simt"),
            ("forward_f32_d64_vector_k128q12n32w16", "letters of engine vector are qrknw"),
            ("forward_f32_d64_vector_q13r13k128n32w16", "13 is no value of block_q"),
        ]:
            with self.assertRaisesRegex(specification.SpecError, message):
                spec.find("c", "x86_64", kernel)
        with self.assertRaisesRegex(specification.SpecError, "none such for aarch64"):
            spec.find("c", "aarch64", "forward_f32_d64_vector_q12r12k128n32w16")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = folder_with(self, "templates", "backends")

    def generator(self):
        return generator(self.folder / "templates", self.folder / "backends")

    def test_tuned_rows_that_cannot_be(self):
        for row, message in [
            ("x86-64-v5 forward f32 64 * forward_f32_d64_vector_q4r4k64n8w4", "no device class"),
            ("x86-64 forward f64 64 * forward_f64_d64_vector_q4r4k64n8w4", "no dtype 'f64'"),
            ("x86-64 forward f32 d64 * forward_f32_d64_vector_q4r4k64n8w4", "something else"),
            (
                "x86-64 forward f32 64 * forward_f32_d64_vector_q4r4k64n64w4",
                "rejected: .*registers",
            ),
            (
                "aarch64 forward f32 64 * forward_f32_d64_vector_q4r4k64n8w8",
                "none such for aarch64",
            ),
            ("x86-64 forward f32 64 * forward_f32_d64_vector_q5r5k64n8w4", "no value of block_q"),
        ]:
            text = "\n".join([tuned_table.HEADER, row.replace(" ", "\t"), ""])
            (self.folder / "backends" / "cpu" / "tuned.tsv").write_text(text, "utf-8")
            with self.assertRaisesRegex(specification.SpecError, f"cpu/tuned.tsv:2: .*{message}"):
                self.generator().tuned("c")

    def test_a_tuned_row_for_a_device_without_the_unit(self):
        for target, device, kernel, lacks in [
            ("cuda", "sm_75", "forward_f16_d64_matrix_q128k64t128b2h1r0u0", "sm_80"),
            ("hip", "gfx1100", "forward_f16_d64_matrix_q128k64t256b2h1r0u1", "mfma"),
            ("hip", "gfx1201", "forward_f16_d64_matrix_q128k32t256b2h0r0u3", "wmma_rdna3"),
        ]:
            row = f"{device}\tforward\tf16\t64\t*\t{kernel}"
            path = self.folder / "backends" / target / "tuned.tsv"
            path.write_text(f"{tuned_table.HEADER}\n{row}\n", "utf-8")
            with self.assertRaisesRegex(
                specification.SpecError, f"{target}/tuned.tsv:2: .*{device} lacks {lacks}"
            ):
                self.generator().tuned(target)

    def test_a_tuned_row_may_name_what_holds_its_class(self):
        """A family, or one vendor's part of a class; each is about the devices that it holds."""
        matrix = "forward_f16_d64_matrix_q128k64t128b2h1r0u0"
        simt = "forward_f16_d64_simt_q32k32t128"
        for target, name, kernel, classes in [
            ("cuda", "nvidia", simt, self.generator().spec.device_classes("cuda")),
            ("cuda", "nvidia", matrix, self.generator().spec.device_classes("cuda")[1:]),
            ("hip", "amd", simt, self.generator().spec.device_classes("hip")),
            ("opencl", "gpu-intel", simt, ["gpu"]),
            ("cuda", "amd", simt, None),
            ("cuda", "sm_80-intel", simt, None),
            ("opencl", "npu-intel", simt, None),
            ("opencl", "gpu-", simt, None),
            ("opencl", "intel", simt, None),
        ]:
            row = f"{name}\tforward\tf16\t64\t*\t{kernel}"
            path = self.folder / "backends" / target / "tuned.tsv"
            path.write_text(f"{tuned_table.HEADER}\n{row}\n", "utf-8")
            if classes is None:
                with self.assertRaisesRegex(specification.SpecError, f"no device class '{name}'"):
                    self.generator().tuned(target)
                continue
            files = self.generator().files(target, "x86_64", [], self.folder)
            built = {path.stem: found for path, found, _, _ in files}
            self.assertEqual(built[kernel], classes, (target, name))

    def test_a_row_twice(self):
        path = self.folder / "backends" / "cpu" / "tuned.tsv"
        lines = path.read_text("utf-8").splitlines(True)
        path.write_text("".join([*lines[:2], *lines[1:]]), "utf-8")
        with self.assertRaisesRegex(specification.SpecError, "cpu/tuned.tsv:3: .*twice"):
            self.generator().tuned("c")

    def test_a_file_that_is_no_text(self):
        (self.folder / "templates" / "attention.toml").write_bytes(b"\xff")
        places = ["--templates", self.folder / "templates", "--backends", self.folder / "backends"]
        status, _, errors = run("--list", *places)
        self.assertEqual((status, errors.count("\n")), (2, 1))

    def test_a_template_that_is_missing(self):
        (self.folder / "templates" / "dialect" / "hip.j2").unlink()
        places = ["--templates", self.folder / "templates", "--backends", self.folder / "backends"]
        status, _, errors = run("--render", "hip", "--out", self.folder / "o", *places)
        self.assertEqual((status, errors.count("\n")), (2, 1))
        self.assertIn("dialect/hip.j2", errors)


class CommandLine(unittest.TestCase):
    def test_a_glob_without_a_match(self):
        arguments = ["--render", "c", "--arch", "x86_64", "--out", "x", "--outputs", "--points"]
        status, _, errors = run(*arguments, "forward_*_simt_*,forward_f64_*")
        self.assertEqual(status, 2)
        self.assertIn("'forward_f64_*' matches no kernel", errors)
        self.assertEqual(run(*arguments, "forward_*_simt_q16*")[0], 0)

    def test_names_of_processors(self):
        spelled = ["x86_64", "AMD64", "amd64", "aarch64", "arm64"]
        self.assertEqual(
            [generate.processor(name) for name in spelled],
            ["x86_64", "x86_64", "x86_64", "aarch64", "aarch64"],
        )

    def test_why_is_a_summary_without_a_glob(self):
        status, out, _ = run("--list", "--why", "--target", "opencl")
        self.assertEqual(status, 0)
        for rule in specification.Spec(SPEC).rules:
            here = rule.get("engine") != "matrix"
            self.assertEqual(out.count(rule["why"]), int(here), rule["why"])
        self.assertLess(out.count("\n"), 12)

    def test_only_kernels_for_this_processor(self):
        """The rows of a variant that a better one replaces here cost no kernels."""
        g = generator()
        for arch, classes in [
            ("x86_64", {"x86-64-v4", "x86-64-v3", "x86-64"}),
            ("aarch64", {"aarch64"}),
            ("riscv64", {"portable"}),
        ]:
            points, tuned = g.selected("c", arch, [])
            self.assertEqual({row.device_class for row in tuned}, classes)
            self.assertEqual({point.id for point in points}, {row.kernel for row in tuned})


class Packages(unittest.TestCase):
    """A name that sys.modules maps to None cannot be imported."""

    def test_tomli_serves_where_tomllib_is_missing(self):
        if sys.version_info < (3, 11):
            self.skipTest("this Python has no tomllib: every other test shows it")
        stand_in = "import tomllib; sys.modules['tomli'] = tomllib; sys.modules['tomllib'] = None"
        arguments = ["--list", "--target", "hip"]
        self.assertEqual(run(*arguments, before=stand_in), run(*arguments))

    def test_what_to_install(self):
        none = "sys.modules['tomllib'] = sys.modules['tomli'] = None"
        for before, package in [(none, "tomli"), ("sys.modules['jinja2'] = None", "jinja2")]:
            status, _, errors = run("--list", before=before)
            self.assertNotEqual(status, 0)
            self.assertIn(f"Debian: python3-{package}", errors)
            self.assertNotIn("Traceback", errors)


if __name__ == "__main__":
    unittest.main()
