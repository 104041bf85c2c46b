"""`attune bench`: times, and what is derived from them."""

from command import BAD_INPUT, FAILED, FAULTY, CommandTest, main

PROBLEM = "op=forward,b=2,hq=4,hkv=2,sq=65,sk=96,d=40,dv=24,dtype=f32"


class Bench(CommandTest):
    def row(self, *words):
        (row,) = self.good("bench", "--device", "cpu", "--json", *words).rows()
        return row

    def test_figures(self):
        pairs = {
            "none": 65 * 96,
            "causal": sum(range(32, 97)),
            "causal-top-left": sum(range(1, 66)),
        }
        for mask, count in pairs.items():
            problem = PROBLEM + ("" if mask == "none" else f",mask={mask}")
            row = self.row("--problem", problem, "--threads", 1)
            self.assertEqual((row["problem"], row["device"]), (problem, "cpu"))
            self.assertEqual((row["fill"], row["seed"], row["threads"]), ("normal", 1, 1))
            times = [row[f"milliseconds{at}"] for at in ("_min", "_q1", "", "_q3")]
            self.assertEqual(times, sorted(times))
            self.assertGreater(times[0], 0)
            self.assertGreaterEqual(row["runs"], 5)
            flops = 2 * count * (40 + 24) * 2 * 4
            self.assertAlmostEqual(row["gflops"] * row["milliseconds"] * 1e6 / flops, 1, places=6)
            self.assertGreater(row["peak_rss_bytes"], 100_000)

    def test_share_of_the_peak(self):
        for _ in range(5):  # a busy machine may have time for one and none for the other
            row = self.row("--problem", PROBLEM, "--threads", 1)
            if row["peak_gflops"] is None:
                self.skipTest("this processor's FMA is not known")
            self.assertTrue(1 < row["peak_gflops"] < 1000, row)
            share = row["gflops"] / row["peak_gflops"]
            self.assertAlmostEqual(row["peak_share"], share, places=6)
            if 0 < share < 1:
                break
        self.assertTrue(0 < share < 1, row)

    def test_several_problems_and_a_table(self):
        path = self.write("problems.txt", f"{PROBLEM}\n{PROBLEM},mask=causal\n".encode())
        out = self.good("bench", "--device", "cpu", "--problem-file", path).out
        self.assertEqual(out.count("GFLOP/s"), out.count("FMA peak") + 2)
        self.assertEqual(out.count("median"), 2)
        self.assertIn(f"{PROBLEM},mask=causal  fill normal\n", out)

    def test_an_empty_problem(self):
        row = self.row("--problem", PROBLEM.replace("sq=65", "sq=0"))
        self.assertEqual((row["milliseconds"], row["gflops"]), (0, 0))

    def test_a_fill(self):
        self.assertEqual(self.row("--problem", PROBLEM, "--fill", "peaked")["fill"], "peaked")

    def test_kernels(self):
        names = self.kernels("--device", "cpu", "--problem", PROBLEM)
        self.assertEqual(self.row("--problem", PROBLEM, "--kernel", names[-1])["kernel"], names[-1])
        words = ["bench", "--device", "cpu", "--problem", PROBLEM, "--kernel", "nothing"]
        self.bad(BAD_INPUT, *words, says="nothing")

    def test_a_device_that_reports_an_error(self):
        environment = {"TEST_FAULT": "error"}
        words = ["bench", "--device", "cpu", "--problem", PROBLEM]
        result = self.attune(*words, command=FAULTY, environment=environment)
        self.assertEqual((result.code, result.out), (FAILED, ""))


if __name__ == "__main__":
    main()
