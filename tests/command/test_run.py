"""`attune run`: what it computes from what files hold, against attention in plain Python."""

import math

from command import BAD_INPUT, DATA, CommandTest, Problem, as_bf16, as_f16, main, transposed


class Run(CommandTest):
    def run_files(self, files, *words):
        out = ["--out", self.path("o.npy"), "--lse", self.path("lse.npy")]
        return self.good("run", "--device", "cpu", *files, *out, *words)

    def results(self, problem, descr="<f4", layout="bshd"):
        o = self.load("o.npy", descr, problem.shapes(layout)[3])
        lse = self.load("lse.npy", "<f4", (problem.b, problem.hq, problem.sq))
        return o, lse

    def check(self, problem, *words, scale=None, mask="none", tolerance=2e-6):
        self.run_files(problem.files(self), *words)
        o, lse = self.results(problem)
        expected_o, expected_lse = problem.attention(scale, mask)
        self.assert_close(o, expected_o, tolerance)
        self.assert_close(lse, expected_lse, 4e-6)
        return o, lse

    # ---- problems ----

    def test_sizes(self):
        for sizes in (
            {},
            {"b": 2, "hq": 3, "hkv": 3, "sq": 1, "sk": 1, "d": 1},
            {"hq": 4, "hkv": 2, "sq": 13, "sk": 33, "d": 40},
            {"hq": 6, "hkv": 1, "sq": 3, "sk": 130, "d": 16},
            {"d": 24, "dv": 7},
            {"d": 3, "dv": 65},
        ):
            with self.subTest(sizes):
                self.check(Problem(**sizes))

    def test_masks(self):
        for sq, sk in ((2, 5), (5, 2), (1, 4), (4, 1), (4, 4)):
            for mask in ("none", "causal", "causal-top-left"):
                with self.subTest(sq=sq, sk=sk, mask=mask):
                    self.check(Problem(sq=sq, sk=sk), "--mask", mask, mask=mask)

    def test_a_row_without_keys_is_zero(self):
        o, lse = self.check(Problem(hq=1, sq=5, sk=2), "--mask", "causal", mask="causal")
        self.assertEqual((o[:24], lse[:3]), ((0.0,) * 24, (-math.inf,) * 3))
        self.assertNotIn(0.0, o[24:])

    def test_no_mask_is_the_default(self):
        problem = Problem(sq=4, sk=4)
        self.check(problem)
        unmasked = self.path("o.npy").read_bytes()
        self.check(problem, "--mask", "none")
        self.assertEqual(self.path("o.npy").read_bytes(), unmasked)

    def test_scales(self):
        for scale in (0, -0.5, 1, 1e-30, 7.25):
            with self.subTest(scale=scale):
                self.check(Problem(), f"--scale={scale}", scale=scale, tolerance=1e-5)

    def test_the_default_scale_is_that_of_head_dim(self):
        problem = Problem(d=40)
        self.check(problem)
        default = self.path("o.npy").read_bytes()
        self.check(problem, "--scale", repr(1 / math.sqrt(40)))
        self.assertEqual(self.path("o.npy").read_bytes(), default)

    def test_empty_problems(self):
        for sizes in ({"sk": 0}, {"sq": 0}, {"b": 0}, {"sq": 0, "sk": 0}):
            with self.subTest(sizes):
                problem = Problem(**sizes)
                self.run_files(problem.files(self))
                o, lse = self.results(problem)
                self.assertTrue(all(x == 0 for x in o) and all(x == -math.inf for x in lse))

    def test_infinities_and_nan_reach_the_rows_that_see_them(self):
        problem = Problem(hq=1, sq=3, sk=3, d=4)
        problem.v[-1] = math.nan
        self.run_files(problem.files(self), "--mask", "causal")
        o, _ = self.results(problem)
        self.assertEqual([math.isnan(x) for x in o], [False] * 11 + [True])

    # ---- layouts ----

    def test_layouts_give_the_same_numbers(self):
        problem = Problem(b=2, hq=4, hkv=2, sq=5, sk=6, d=8, dv=3)
        self.run_files(problem.files(self), "--layout", "bshd")
        o, lse = self.results(problem)
        self.run_files(problem.files(self, "bhsd"), "--layout", "bhsd")
        o_bhsd, lse_bhsd = self.results(problem, layout="bhsd")
        self.assertEqual(o_bhsd, tuple(transposed(problem.shapes()[3], o)))
        self.assertEqual(lse_bhsd, lse)

    # ---- types ----

    def one_key(self, values, dtype, descr):
        """With one key the output is v: bit for bit in 16-bit types."""
        shape = (1, 1, 1, len(values))
        files = []
        for name, numbers in (
            ("q", [0.0] * len(values)),
            ("k", [0.0] * len(values)),
            ("v", values),
        ):
            files += [f"--{name}", self.save(f"{name}.npy", shape, numbers)]
        self.run_files(files, "--dtype", dtype)
        return self.load("o.npy", descr, shape)

    def test_f16_rounds_to_nearest_even(self):
        ties = [1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 2049, 2051]
        near = [1 + 2**-11 + 2**-20, 1 + 2**-11 - 2**-20, 0.1, math.pi, -1e-3]
        small = [2**-24, 2**-25, 2**-25 * 1.5, 2**-24 * 1.5, 2**-14, 6e-5, 1e-30, -0.0]
        large = [65504, 65519, -65504]
        values = ties + near + small + large
        self.assertEqual(self.one_key(values, "f16", "<f2"), tuple(map(as_f16, values)))

    def test_bf16_rounds_to_nearest_even_and_is_written_as_float32(self):
        ties = [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 257, 259]
        near = [1 + 2**-8 + 2**-20, 1 + 2**-8 - 2**-20, 0.1, math.pi, -1e-3, 3e38]
        values = ties + near
        self.assertEqual(self.one_key(values, "bf16", "<f4"), tuple(map(as_bf16, values)))

    def test_16_bit_results(self):
        for dtype, rounding, descr, tolerance in (
            ("f16", as_f16, "<f2", 2e-3),
            ("bf16", as_bf16, "<f4", 2e-2),
        ):
            exact = Problem(sk=40, rounding=rounding)
            self.run_files(Problem(sk=40).files(self), "--dtype", dtype)
            o, lse = self.results(exact, descr)
            expected_o, expected_lse = exact.attention()
            self.assert_close(o, expected_o, tolerance)
            # The inputs are rounded, LSE is not: an unrounded input would show here.
            self.assert_close(lse, expected_lse, 4e-6)
            self.assertTrue(all(x == rounding(x) for x in o))

    def test_the_type_of_the_files_is_the_default(self):
        problem = Problem(rounding=as_f16)
        self.run_files(problem.files(self, descr="<f2"))
        half, _ = self.results(problem, "<f2")
        self.run_files(problem.files(self, descr="<f4"), "--dtype", "f16")
        self.assertEqual(self.results(problem, "<f2")[0], half)

    def test_f16_files_in_f32(self):
        problem = Problem(rounding=as_f16)
        self.run_files(problem.files(self, descr="<f2"), "--dtype", "f32")
        self.assert_close(self.results(problem)[0], problem.attention()[0], 2e-6)

    def test_f16_files_in_bf16(self):
        exact = Problem(rounding=lambda x: as_bf16(as_f16(x)))
        self.run_files(Problem(rounding=as_f16).files(self, descr="<f2"), "--dtype", "bf16")
        self.assert_close(self.results(exact)[1], exact.attention()[1], 4e-6)

    def test_mixed_types_need_a_choice(self):
        files = Problem().files(self)
        half = Problem(rounding=as_f16)
        files[3] = self.save("half.npy", half.shapes()[1], half.k, "<f2")
        out = ["--out", self.path("o.npy")]
        self.bad(BAD_INPUT, "run", *files, *out, says="--dtype")
        self.good("run", *files, *out, "--dtype", "f32")

    # ---- how it ran ----

    def test_threads_do_not_show(self):
        files = Problem(hq=4, hkv=2, sq=70, sk=90, d=16).files(self)
        outputs = set()
        for threads in (1, 2, 3, 7):
            self.run_files(files, "--threads", threads)
            outputs.add(self.path("o.npy").read_bytes() + self.path("lse.npy").read_bytes())
        self.assertEqual(len(outputs), 1)

    def test_lse_does_not_change_o(self):
        files = Problem().files(self)
        self.run_files(files)
        with_lse = self.path("o.npy").read_bytes()
        self.good("run", *files, "--out", self.path("alone.npy"))
        self.assertEqual(self.path("alone.npy").read_bytes(), with_lse)

    def test_report(self):
        files = Problem().files(self)
        row = self.run_files(files, "--json").rows()[0]
        keys = ["problem", "device", "kernel", "engine", "reproducible"]
        keys += ["milliseconds", "gflops", "peak_rss_bytes"]
        self.assertEqual(list(row), keys)
        self.assertEqual(row["problem"], "op=forward,b=1,hq=2,hkv=1,sq=5,sk=7,d=8,dtype=f32,lse=1")
        self.assertGreater(row["peak_rss_bytes"], 100_000)
        out = self.run_files(files).out
        self.assertIn(row["kernel"], out)
        self.assertIn("peak RSS", out)

    def test_a_kernel_by_glob(self):
        problem = "op=forward,b=1,hq=2,hkv=1,sq=5,sk=7,d=8,dtype=f32"
        last = self.kernels("--device", "cpu", "--problem", problem)[-1]
        row = self.run_files(Problem().files(self), "--kernel", last, "--json").rows()[0]
        self.assertEqual(row["kernel"], last)
        words = ["--out", self.path("none.npy"), "--kernel", "nothing*", "--device", "cpu"]
        self.bad(BAD_INPUT, "run", *Problem().files(self), *words, says="nothing*")
        self.assertFalse(self.path("none.npy").exists())

    def test_real_activations_against_numpy(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no NumPy")
        for name, mask in (("minilm/layer5", "none"), ("smollm2/layer0", "causal")):
            files = [word for x in "qkv" for word in (f"--{x}", DATA / f"{name}_{x}.npy")]
            self.run_files(files, "--mask", mask)
            q, k, v = (np.load(path).astype(np.float64) for path in files[1::2])
            k, v = (x.repeat(q.shape[2] // k.shape[2], axis=2) for x in (k, v))
            scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[3])
            if mask == "causal":
                scores[..., np.triu(np.ones(scores.shape[2:], dtype=bool), 1)] = -np.inf
            m = scores.max(axis=-1, keepdims=True)
            p = np.exp(scores - m)
            total = p.sum(axis=-1, keepdims=True)
            exact = np.einsum("bhij,bjhd->bihd", p / total, v)
            o, lse = np.load(self.path("o.npy")), np.load(self.path("lse.npy"))
            self.assertEqual((o.dtype, o.shape, lse.dtype), (np.float32, exact.shape, np.float32))
            self.assertLess(np.sqrt(((o - exact) ** 2).mean() / (exact**2).mean()), 1e-6)
            self.assertLess(np.abs(lse - (m + np.log(total))[..., 0]).max(), 1e-4)


if __name__ == "__main__":
    main()
