"""`attune compare`: rows, verdicts and exit statuses."""

from command import (
    BAD_INPUT,
    DATA,
    FAILED,
    FAULTY,
    CommandTest,
    Problem,
    as_f16,
    main,
)

PROBLEM = "op=forward,b=1,hq=4,hkv=2,sq=33,sk=65,d=40,dtype={},mask=causal"
F32 = PROBLEM.format("f32")


class Compare(CommandTest):
    def compare(self, *words, **options):
        return self.good("compare", "--json", *words, **options).rows()

    def test_rows(self):
        rows = self.compare("--devices", "cpu,cpu", "--problem", F32)
        names = [(row["device"], row["against"], row["verdict"]) for row in rows]
        expected = [("standard", None), ("cpu", None), ("cpu", None), ("cpu", "cpu")]
        self.assertEqual(names, [(*name, "PASS") for name in expected])
        standard, cpu, _, pair = rows
        self.assertEqual((standard["kernel"], standard["milliseconds"]), (None, None))
        self.assertTrue(cpu["kernel"].startswith("forward_f32_d64_"))
        self.assertEqual((pair["differ"], pair["max_abs"]), (0, 0))
        self.assertGreater(cpu["milliseconds"], 0)
        for row in (standard, cpu):
            self.assertEqual(row["problem"], F32 + ",lse=1")
            self.assertEqual((row["fill"], row["seed"], row["reason"]), ("normal", 1, None))
            self.assertTrue(0 < row["bound_ratio"] < 1 and 0 < row["lse_bound_ratio"] < 1)
            self.assertTrue(1e-9 < row["rms_rel"] < 1e-6 and 1e-9 < row["max_abs"] < 1e-5)
            self.assertTrue(0.4 < row["max_ulp"] < 1e6 and 0 < row["lse_max_abs"] < 1e-5)

    def test_errors_are_those_of_the_type(self):
        for dtype, low, high in (("f32", 1e-8, 1e-6), ("f16", 5e-5, 5e-4), ("bf16", 5e-4, 4e-3)):
            row = self.compare("--devices", "cpu", "--problem", PROBLEM.format(dtype))[1]
            self.assertTrue(low < row["rms_rel"] < high, row)

    def test_options_replace_what_a_problem_says(self):
        words = ["--dtype", "bf16", "--mask", "none", "--scale", "0.5"]
        row = self.compare("--devices", "cpu", "--problem", F32, *words)[1]
        expected = "op=forward,b=1,hq=4,hkv=2,sq=33,sk=65,d=40,dtype=bf16,scale=0.5,lse=1"
        self.assertEqual(row["problem"], expected)

    def test_all_fills(self):
        rows = self.compare("--devices", "cpu", "--problem", F32, "--fill", "all")
        fills = [row["fill"] for row in rows if row["device"] == "cpu"]
        self.assertEqual(len(fills), len(set(fills)))
        self.assertTrue({"normal", "outlier", "huge", "poison"} <= set(fills))

    def test_an_output_that_proves_nothing_is_no_failure(self):
        words = ["--devices", "cpu", "--problem", F32.replace("sk=65", "sk=0")]
        self.assertEqual(self.compare(*words)[1]["verdict"], "MISTRUSTED")
        self.assertIn("1 run: 1 MISTRUSTED", self.good("compare", *words).out)

    def test_seeds(self):
        errors = []
        for seed in (1, 2, 1, 18446744073709551615):
            row = self.compare("--devices", "cpu", "--problem", F32, "--seed", seed)[1]
            self.assertEqual(row["seed"], seed)
            errors.append(row["max_abs"])
        self.assertEqual(errors[0], errors[2])
        self.assertEqual(len(set(errors)), 3)

    def test_files(self):
        files = Problem(sq=9, sk=9, rounding=as_f16).files(self, "bhsd", "<f2")
        words = ["--devices", "cpu", "--layout", "bhsd", "--mask", "causal", *files]
        row = self.compare(*words)[1]
        expected = "op=forward,b=1,hq=2,hkv=1,sq=9,sk=9,d=8,dtype=f16,mask=causal,lse=1,layout=bhsd"
        self.assertEqual((row["fill"], row["seed"]), (None, None))
        self.assertEqual(sorted(row["problem"].split(",")), sorted(expected.split(",")))
        self.bad(BAD_INPUT, "compare", "--devices", "cpu", *files[:4], says="together")

    def test_real_activations(self):
        for name, mask in (("minilm/layer0", "none"), ("smollm2/layer15", "causal")):
            files = [word for x in "qkv" for word in (f"--{x}", DATA / f"{name}_{x}.npy")]
            for dtype, limit in (("f32", 1e-6), ("f16", 5e-4), ("bf16", 4e-3)):
                row = self.compare("--devices", "cpu", *files, "--mask", mask, "--dtype", dtype)[1]
                self.assertEqual(row["verdict"], "PASS")
                self.assertLess(row["rms_rel"], limit)

    def test_every_device_agrees(self):
        rows = self.compare("--problem", F32)
        runs = [row for row in rows if row["against"] is None and row["verdict"] != "SKIPPED"]
        pairs = [row for row in rows if row["against"]]
        devices = len(runs) - 1
        self.assertEqual(len(pairs), devices * (devices - 1) // 2)
        self.assertEqual([row["differ"] for row in pairs], [0] * len(pairs))

    # ---- the table ----

    def test_table(self):
        out = self.good("compare", "--devices", "cpu,cpu", "--problem", F32).out
        self.assertRegex(out, r"\n  cpu ~ cpu +identical\n")
        self.assertIn("fill normal, seed 1", out)
        self.assertRegex(out, r"\n  standard +three steps in f32 ")
        self.assertTrue(
            out.endswith(
                "2 runs: 2 PASS; pairs of devices: 1 identical, "
                "0 different within their bounds, 0 beyond\n"
            ),
            out,
        )
        table = out.split("\n\n")[1].splitlines()[1:4]
        self.assertEqual(len({len(line.rstrip()) - len(line.split()[-1]) for line in table}), 1)

    # ---- verdicts that are no PASS ----

    def test_skipped(self):
        words = ["compare", "--devices", "cpu", "--kernel", "nothing*", "--problem", F32]
        result = self.attune(*words, "--json")
        self.assertEqual(
            (result.code, result.error), (FAILED, "attune: every device was skipped\n")
        )
        row = result.rows()[1]
        self.assertEqual((row["verdict"], row["kernel"], row["max_abs"]), ("SKIPPED", None, None))
        self.assertIn("nothing*", row["reason"])
        self.assertRegex(self.attune(*words).out, r"\n  cpu +SKIPPED: .*nothing")

    def test_one_that_ran_is_enough(self):
        words = ["--devices", "cpu", "--kernel", "*_f32_*"]
        rows = self.compare(*words, "--problem", F32, "--problem", PROBLEM.format("f16"))
        self.assertEqual(
            [row["verdict"] for row in rows if row["device"] == "cpu"], ["PASS", "SKIPPED"]
        )

    def test_an_output_that_is_not_written_fails(self):
        words = ["compare", "--devices", "cpu,cpu", "--problem", F32]
        result = self.attune(*words, "--json", command=FAULTY)
        self.assertEqual((result.code, result.error), (FAILED, ""))
        standard, first, second, pair = result.rows()
        self.assertEqual(standard["verdict"], "PASS")
        for row in (first, second):
            self.assertEqual((row["verdict"], row["bound_ratio"]), ("FAIL", None))
        self.assertEqual(pair["differ"], 0)
        out = self.attune(*words, command=FAULTY).out
        self.assertIn("2 runs: 2 FAIL", out)
        self.assertRegex(out, r"\n  cpu +forward_f32_.* inf .*FAIL\n")

    def test_a_device_that_reports_an_error_fails(self):
        fault = {"environment": {"TEST_FAULT": "error"}, "command": FAULTY}
        words = ["compare", "--devices", "cpu", "--problem", F32, "--json"]
        result = self.attune(*words, **fault)
        self.assertEqual((result.code, result.error), (FAILED, ""))
        row = result.rows()[1]
        self.assertEqual((row["verdict"], row["max_abs"]), ("FAIL", None))
        self.assertIsNotNone(row["reason"])
        files = Problem().files(self)
        result = self.attune("run", *files, "--out", self.path("o.npy"), **fault)
        self.assertEqual(result.code, FAILED)
        self.assertFalse(self.path("o.npy").exists())


if __name__ == "__main__":
    main()
