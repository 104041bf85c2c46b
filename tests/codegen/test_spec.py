"""What the spec says: names, expressions, rules, the rows that the runtime sees, tuned kernels."""

import fnmatch
import itertools
import random
import re
import shutil
import unittest

from fixture import ROOT, TARGETS, folder_with, generator, run  # first: it finds the modules below

# isort: split
import expressions
import names
import spec as specification
import tuned_table


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
            self.assertEqual(expressions.evaluate(text, values), expected)

    def test_nothing_else_is_evaluated(self):
        for text in ["open('x')", "a.b", "c", "[1]", "a if b else 1", "1 +", "'x'", "a[0]"]:
            with self.assertRaises(specification.SpecError, msg=text):
                expressions.evaluate(text, {"a": 1, "b": 2})


class Rules(unittest.TestCase):
    def test_each_rule_rejects_and_says_why(self):
        spec = generator().spec
        unseen = {rule["why"] for rule in spec.rules}
        for target in TARGETS:
            for point in spec.candidates(target, "x86_64"):
                unseen.difference_update(spec.rejections(point))
                if not unseen:
                    return
        self.assertEqual(unseen, set())

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

    def test_emulated_devices_have_simt_kernels_of_every_head_dim(self):
        """Of AMD's local memory a group has 64 KiB, of NVIDIA's more."""
        g = generator()
        points = {point.id: point for point in g.selected("emulated", "x86_64", [])[0]}
        fit = {
            (point.dtype, point.head_dim)
            for point in (points[row.kernel] for row in g.tuned("emulated"))
            if point.engine == "simt" and g.spec.engine_value(point, "fast_memory") <= 65536
        }
        problem = g.spec.data["problem"]
        self.assertEqual(fit, set(itertools.product(problem["dtype"], problem["head_dim"])))

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
        self.folder = folder_with(self, "templates")

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
        table = g.renderer.table("cuda", "x86_64", [point], [])
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

    def test_tf32_is_preferred_where_it_is_allowed(self):
        """Else allowing it would change nothing."""
        g = generator()
        for target in ("cuda", "emulated"):
            points = {point.id: point for point in g.spec.points(target, "x86_64")}
            groups = {}
            for row in g.tuned(target):
                is_tf32 = g.spec.arithmetic(points[row.kernel])["u_in"] > 0
                place = row.device_class, row.dtype, row.head_dim, row.max_seqlen_q
                groups.setdefault(place, []).append(is_tf32)
            for place, tf32 in groups.items():
                self.assertEqual(tf32, sorted(tf32, reverse=True), place)
            self.assertIn([True, False], groups.values())

    def test_several_rows_are_an_order_of_preference(self):
        """Not the order of their ids; the table that is rendered keeps it, for tuned rows and kernels alike."""
        kernels = [f"forward_f32_d64_simt_{tile}" for tile in ("q64k64t128", "q16k32t128")]
        kernels += ["forward_f32_d64_simt_q32k32t128"]
        lines = [f"*\tforward\tf32\t64\t9\t{kernel}" for kernel in kernels]
        lines += [f"*\tforward\tf32\t64\t*\t{kernels[1]}"]
        text = "\n".join([tuned_table.HEADER, *lines, ""])
        folder = folder_with(self)
        (folder / "cuda").mkdir()
        (folder / "cuda" / "tuned.tsv").write_text(text, "utf-8")
        shutil.copy(ROOT / "backends" / "kernel_abi.h", folder)
        g = generator(ROOT / "templates", folder)
        points, tuned = g.selected("cuda", "x86_64", [])
        self.assertEqual([point.id for point in points], kernels)
        table = g.renderer.table("cuda", "x86_64", points, tuned)
        self.assertEqual(re.findall(r"\.kernel = \"(\w+)\"", table), [*kernels, kernels[1]])

    def test_bad_tables_are_named(self):
        kernel = "forward_f32_d64_vector_q12r12k128n32w16"
        row = f"cpu\tforward\tf32\t64\t*\t{kernel}"
        other = row.replace("q12r12", "q4r4")
        head = tuned_table.HEADER
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
                tuned_table.parse(text, "x/tuned.tsv")


class DeviceClasses(unittest.TestCase):
    """Which devices may run a kernel, as the names of their classes tell."""

    def setUp(self):
        folder = folder_with(self, "backends")
        self.backends = folder / "backends"
        self.generator = generator(backends=self.backends)

    def tune(self, target, *rows):
        lines = [tuned_table.HEADER, *("\t".join(row) for row in rows)]
        (self.backends / target / "tuned.tsv").write_text("\n".join(lines) + "\n", "utf-8")

    def outputs(self, target, globs):
        return list(self.generator.files(target, "x86_64", globs, "x"))

    def classes(self, target, *globs):
        return {path.stem: names for path, names, _, _ in self.outputs(target, globs)}

    def test_older_classes_are_left_out(self):
        tuned = "forward_f16_d64_matrix_q128k64t128b2h1r0u0"
        more = "forward_f16_d64_matrix_q128k64t128b2h1r1u0"
        self.tune("cuda", ("sm_86", "forward", "f16", "64", "9", tuned))
        classes = self.classes("cuda", more)
        every = self.generator.spec.device_classes("cuda")
        self.assertEqual(classes["kernel_table_cuda"], every)
        self.assertEqual(classes[more], every[every.index("sm_80") :])
        self.assertEqual(classes[tuned], ["sm_86"])

    def test_other_vendors_units_are_left_out(self):
        point = "forward_f16_d64_matrix_q128k32t256b2h0r0u"
        self.tune("hip")
        classes = self.classes("hip", *(f"{point}{number}" for number in (1, 2, 3, 4)), "*simt_q8*")
        every = self.generator.spec.device_classes("hip")
        self.assertEqual(classes[f"{point}1"], ["gfx90a", "gfx942", "gfx950"])
        self.assertEqual(classes[f"{point}3"], [name for name in every if name[:5] == "gfx11"])
        self.assertEqual(classes[f"{point}4"], ["gfx1200", "gfx1201"])
        self.assertEqual(classes["forward_f16_d64_simt_q8k32t128"], every)

    def test_rows_require_the_features(self):
        for target, required in [
            ("cuda", {"", "sm_80"}),
            ("hip", {"", "mfma", "wmma_rdna3", "wmma_rdna4"}),
        ]:
            *_, (_, _, _, table) = self.outputs(target, [])
            self.assertEqual(set(re.findall(r'requires_features = "(.*)",', table())), required)

    def test_what_rows_say_of_subnormals_is_told_by_a_class(self):
        *_, (_, _, _, table) = self.outputs("hip", [])
        (word,) = set(re.findall(r'subnormals = "(.*)",', table()))
        told = self.generator.spec.target("hip")["class_features"]
        self.assertEqual(told[word], [name for name in told["mfma"] if name != "gfx90a"])


class Reproducible(unittest.TestCase):
    def test_a_device_has_one_unit_for_a_head_dim(self):
        """Another unit has other bits: the kernels that a plan may get for one head_dim, whatever its other sizes, are of one."""
        g = generator()
        for target in ("cuda", "hip"):
            points = {point.id: point for point in g.selected(target, "x86_64", [])[0]}
            units = {}
            for row in g.tuned(target):
                point = points[row.kernel]
                if not point.unit or not g.spec.reproducible(point):
                    continue
                named = (
                    (row.device_class,) if row.device_class != "*" else g.spec.classes_for(point)
                )
                for name in named:
                    units.setdefault((name, row.dtype, row.head_dim), set()).add(point.unit["name"])
            self.assertGreater(len(units), 10)
            self.assertEqual({key: names for key, names in units.items() if len(names) > 1}, {})


if __name__ == "__main__":
    unittest.main()
