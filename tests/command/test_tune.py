"""attune tune: every candidate is judged before it is timed, and costs nobody but itself."""

import fnmatch
import json
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

from command import BAD_INPUT, COMMAND, DONE, FAILED, FAULTY, NO_DEVICE, CommandTest

PROBLEM = "op=forward,b=1,hq=2,hkv=1,sq=40,sk=64,d=64,dtype=f32"
OTHERS = [PROBLEM.replace("sq=40", f"sq={sq}") for sq in (1, 7, 24)]


def common_pattern(one, other):
    """What matches both: the start that they share, anything, and the end that they share."""
    start = os.path.commonprefix([one, other])
    end = os.path.commonprefix([one[len(start) :][::-1], other[len(start) :][::-1]])[::-1]
    return f"{start}*{end}"


class TuneTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.db = self.folder / "tuning.db"

    def tune(self, *arguments, device="cpu", problem=PROBLEM, **options):
        return self.attune(
            "tune", "--device", device, "--db", self.db, "--problem", problem, *arguments, **options
        )

    def rows(self, what="show"):
        return self.attune("db", what, "--db", self.db, "--json").rows()

    def kernels(self, *arguments, problem=PROBLEM):
        """Ids that can run, in order of preference."""
        result = self.attune(
            "kernels", "--device", "cpu", "--problem", problem, "--json", *arguments,
            environment={"ATTUNE_DB": str(self.db)},
        )  # fmt: skip
        return [row["kernel"] for row in result.rows() if not row["reason"]]

    def other(self):
        """A kernel of the smallest head_dim that is not the default, and of the same width, so that it is not hopeless."""
        default, *others = self.kernels("--deterministic")
        width = default[default.rindex("w") :]
        return next(k for k in others if "_d64_" in k and k.endswith(width))

    # ---- what it finds ----

    def test_the_result_is_kept_and_used(self):
        result = self.tune("--json", "--budget", "20")
        self.assertEqual(result.code, DONE, result.error)
        (row,) = result.rows()
        self.assertEqual(row["untried"], 0)
        self.assertEqual(row["rejected"], 0)
        self.assertEqual(row["judged"], row["candidates"])
        self.assertEqual(row["timed"], row["candidates"])
        self.assertEqual(row["same_bits"], row["candidates"] - 1)
        self.assertEqual(row["default_kernel"], self.kernels("--deterministic")[0])
        (best,) = self.rows("best")
        self.assertEqual(best["kernel"], row["kernel"])
        self.assertEqual(self.kernels()[0], row["kernel"])
        shown = self.rows()
        self.assertTrue(all(r["invalid"] is None and r["milliseconds"] > 0 for r in shown))
        self.assertTrue(all(0 < r["bound_ratio"] <= 1 for r in shown))
        self.assertEqual(len({r["bits"] for r in shown}), 1)
        text = self.attune(
            "kernels", "--device", "cpu", "--problem", PROBLEM, "--why",
            environment={"ATTUNE_DB": str(self.db)},
        ).out  # fmt: skip
        self.assertIn(f"measurements: {self.db}, 1 for this device and build", text)
        self.assertIn("won here: ", text.splitlines()[1])

    def test_a_faster_kernel_wins(self):
        default = self.kernels("--deterministic")[0]
        result = self.tune(
            "--json", "--budget", "20", command=FAULTY,
            environment={"TEST_FAULT": "slow", "TEST_FAULT_KERNEL": default},
        )  # fmt: skip
        self.assertEqual(result.code, DONE, result.error)
        (row,) = result.rows()
        self.assertNotEqual(row["kernel"], default)
        self.assertGreater(row["default_milliseconds"], 1e3)
        self.assertLess(row["milliseconds"], row["default_milliseconds"])
        self.assertEqual(self.kernels()[0], row["kernel"])
        self.assertEqual(self.kernels("--deterministic")[0], default)

    def test_a_kernel_alone_says_nothing_of_the_default(self):
        fast = self.other()
        self.tune("--kernel", fast)
        self.assertEqual(self.rows("best")[0]["options"], f"kernel={fast}")
        self.assertEqual(self.kernels()[0], self.kernels("--deterministic")[0])

    def test_options_are_tuned_apart(self):
        for arguments in ((), ("--reproducible",)):
            result = self.tune("--budget", "10", *arguments)
            self.assertEqual(result.code, DONE, result.error)
        self.assertEqual({r["options"] for r in self.rows("best")}, {"", "reproducible"})

    def test_resume_goes_on_and_finished_runs_are_left_alone(self):
        first = self.tune("--json", "--budget", "0.001").rows()[0]
        self.assertEqual(first["judged"], 1)  # the default, whatever the time
        self.assertGreater(first["untried"], 0)
        second = self.tune("--json", "--resume", "--budget", "30").rows()[0]
        self.assertEqual(second["known"], 1)
        self.assertEqual(second["judged"], second["candidates"] - 1)
        self.assertEqual(len({r["run"] for r in self.rows()}), 1)
        third = self.tune("--json", "--resume").rows()[0]
        self.assertTrue(third["already_tuned"])
        self.assertEqual(third["kernel"], second["kernel"])
        fourth = self.tune("--json", "--budget", "10").rows()[0]
        self.assertFalse(fourth["already_tuned"])
        self.assertEqual(len({r["run"] for r in self.rows()}), 2)

    def test_times_of_another_session_rule_nobody_out(self):
        self.tune("--budget", "0.001")
        (row,) = self.rows()
        fast = self.other()
        row.update(kernel=fast, milliseconds=1e-6)
        file = self.folder / "row.jsonl"
        file.write_text(json.dumps(row) + "\n")
        self.attune("db", "import", "--file", file, "--db", self.db)
        (result,) = self.tune("--json", "--resume", "--budget", "20").rows()
        self.assertEqual(result["known"], 2)
        in_turns = {r["kernel"] for r in self.rows() if r["rung"] >= 2}  # 0 and 1 are first timings
        self.assertGreater(len(in_turns | {fast}), 2)
        self.assertGreater(result["milliseconds"], 1e-6)

    def test_a_machine_that_becomes_busier_rules_nobody_out(self):
        result = self.tune(
            "--budget", "20", command=FAULTY, environment={"TEST_FAULT": "busier"}
        )  # fmt: skip
        self.assertEqual(result.code, DONE, result.error)
        rows = self.rows()
        quiet = [r for r in rows if r["rung"] == 0]
        in_turns = [r for r in rows if r["rung"] > 0]
        self.assertTrue(all(r["milliseconds_q3"] < 1 for r in quiet))
        self.assertTrue(all(r["milliseconds_min"] > 1e3 for r in in_turns))
        self.assertGreater(len({r["kernel"] for r in in_turns if r["samples"] >= 7}), 1)

    def test_emulated_devices_go_the_same_way_without_times(self):
        if not any(r["backend"] == "emulated" for r in self.attune("devices", "--json").rows()):
            self.skipTest("this build emulates no GPU")
        problem = "op=forward,b=1,hq=1,hkv=1,sq=9,sk=17,d=32,dtype=f16"
        for device, engine in (("emulated:nvidia", "simt"), ("emulated:amd", "matrix")):
            result = self.tune(
                "--json", "--engine", engine, "--kernel", "*_d32_*k64*", device=device,
                problem=problem,
            )  # fmt: skip
            self.assertEqual(result.code, DONE, result.error + result.out)
            (row,) = result.rows()
            self.assertTrue(row["untimed_device"])
            self.assertIsNone(row["kernel"])
            self.assertEqual(row["timed"], 0)
            self.assertGreater(row["judged"], 0)
        self.assertTrue(all(r["milliseconds"] is None for r in self.rows()))
        self.assertEqual(self.rows("best"), [])
        self.assertIn(
            "say nothing",
            self.attune(
                "kernels", "--device", "emulated:amd", "--problem", problem, "--why",
                environment={"ATTUNE_DB": str(self.db)},
            ).out,
        )  # fmt: skip

    # ---- candidates that must not win ----

    def plant(self, fault, *arguments):
        """Tunes with a faulty kernel: its row, and the rows of all."""
        kernel = self.other()
        result = self.tune(
            "--budget", "20", *arguments, command=FAULTY,
            environment={"TEST_FAULT": fault, "TEST_FAULT_KERNEL": kernel},
        )  # fmt: skip
        self.assertEqual(result.code, DONE, result.error)
        self.assertIn(f"rejected {kernel}: ", result.out)
        rows = self.rows()
        (bad,) = (r for r in rows if r["invalid"] is not None)
        self.assertEqual(bad["kernel"], kernel)
        (best,) = self.rows("best")
        self.assertNotEqual(best["kernel"], kernel)
        right = {r["kernel"] for r in rows if r["invalid"] is None}
        self.assertEqual(len(right), len([k for k in self.kernels() if "_d64_" in k]) - 1)
        return bad["invalid"]

    def test_a_wrong_but_fast_kernel_is_rejected(self):
        self.assertRegex(self.plant("wrong"), r"is wrong: an error of .* its bound")

    def test_a_kernel_with_other_bits_is_rejected(self):
        self.assertRegex(self.plant("bits"), r"its bits are not those of forward_")

    def test_a_hanging_kernel_costs_itself_only(self):
        self.assertEqual(self.plant("hang", "--timeout", "1.5"), "gives no answer within 1.5 s")

    def test_a_crashing_kernel_costs_itself_only(self):
        self.assertEqual(self.plant("crash"), "crashes its process: Segmentation fault")

    def test_a_failing_kernel_costs_itself_only(self):
        self.assertRegex(self.plant("error"), r"^fails: ")

    def test_a_kernel_that_fails_while_it_is_timed_cannot_win(self):
        kernel = self.other()
        result = self.tune(
            "--budget", "20", command=FAULTY,
            environment={"TEST_FAULT": "late", "TEST_FAULT_KERNEL": kernel},
        )  # fmt: skip
        self.assertEqual(result.code, DONE, result.error)
        self.assertIn(f"rejected {kernel}: crashes its process", result.out)
        self.assertEqual(
            [(r["rung"], bool(r["invalid"])) for r in self.rows() if r["kernel"] == kernel],
            [(0, False), (1, True)],
        )
        self.assertNotEqual(self.rows("best")[0]["kernel"], kernel)

    def test_a_wrong_default_is_an_error_and_another_wins(self):
        kernel = self.kernels("--deterministic")[0]
        result = self.tune(
            "--budget", "20", command=FAULTY,
            environment={"TEST_FAULT": "wrong", "TEST_FAULT_KERNEL": kernel},
        )  # fmt: skip
        self.assertEqual(result.code, FAILED)
        self.assertIn(f"the default kernel {kernel} cannot be used: it is wrong", result.error)
        self.assertNotEqual(self.rows("best")[0]["kernel"], kernel)

    def test_one_kernel_is_enough_to_win_where_the_default_is_wrong(self):
        default, *others = self.kernels("--deterministic")
        pair = next(p for p in (common_pattern(default, k) for k in others)
                    if len(fnmatch.filter([default, *others], p)) == 2)  # fmt: skip
        result = self.tune(
            "--kernel", pair, command=FAULTY,
            environment={"TEST_FAULT": "wrong", "TEST_FAULT_KERNEL": default},
        )  # fmt: skip
        self.assertEqual(result.code, FAILED)
        self.assertIn(f"the default kernel {default} cannot be used", result.error)
        (best,) = self.rows("best")
        self.assertNotEqual(best["kernel"], default)
        self.assertTrue(fnmatch.fnmatch(best["kernel"], pair))

    def test_what_was_late_is_tried_again_and_what_was_wrong_is_not(self):
        for number, (reason, known) in enumerate(
            (("gives no answer within 1 s", 1), ("is wrong: by far", 2))
        ):
            self.db = self.folder / f"resumed{number}.db"
            self.tune("--budget", "0.001")
            (row,) = self.rows()
            row.update(kernel=self.other(), invalid=reason, milliseconds=None)
            file = self.folder / "row.jsonl"
            file.write_text(json.dumps(row) + "\n")
            self.attune("db", "import", "--file", file, "--db", self.db)
            (result,) = self.tune("--json", "--resume", "--budget", "20").rows()
            self.assertEqual(result["known"], known)
            self.assertEqual(result["judged"], result["candidates"] - known)
            self.assertEqual(result["rejected"], 0)

    def test_one_bad_problem_does_not_end_the_rest(self):
        file = self.folder / "problems.txt"
        file.write_text(
            f"{PROBLEM.replace('hq=2,hkv=1,sq=40', 'hq=4096,hkv=4096,sq=1000000')}\n{PROBLEM}\n"
        )
        result = self.attune(
            "tune", "--device", "cpu", "--db", self.db, "--problem-file", file, "--budget", "20"
        )
        self.assertEqual(result.code, FAILED)
        self.assertIn("no kernel of op=", result.error)
        self.assertEqual({r["problem"] for r in self.rows("best")}, {PROBLEM})

    # ---- interruptions ----

    def start(self, *arguments, problem=PROBLEM):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ATTUNE_")}
        return subprocess.Popen(
            [COMMAND, "tune", "--device", "cpu", "--threads", "1", "--db", self.db, "--problem",
             problem, *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_for_rows(self, count):
        for _ in range(300):
            result = self.attune("db", "show", "--db", self.db, "--json")
            if result.code == DONE and len(result.rows()) >= count:
                return
            time.sleep(0.05)
        self.fail("nothing is recorded")

    def test_an_interrupt_keeps_what_was_measured(self):
        long = "op=forward,b=1,hq=8,hkv=8,sq=1024,sk=1024,d=64,dtype=f32"
        process = self.start("--budget", "100", problem=long)
        self.wait_for_rows(2)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
        self.assertEqual(process.returncode, FAILED, error)
        self.assertIn("interrupted; what was measured is kept", error)
        self.assertIn("best: ", out)
        self.assertGreaterEqual(len(self.rows()), 2)
        self.assertEqual(len(self.rows("best")), 1)

    def test_killed_tuners_leave_no_worker_and_lose_nothing(self):
        moments = random.Random(2)
        seen = 0
        for number in range(12):
            process = self.start("--budget", "60")
            time.sleep(moments.uniform(0.1, 0.6) * (1 + number / 6))
            rows = len(self.rows()) if self.db.exists() else 0
            process.kill()
            process.communicate()
            after = self.rows()
            self.assertGreaterEqual(len(after), rows)
            self.assertGreaterEqual(len(after), seen)
            seen = len(after)
        self.assertGreater(seen, 0)
        end = time.monotonic() + 20
        while (left := self.workers()) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(left, [])

    def workers(self):
        return [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if self.is_worker(p)]

    def is_worker(self, cmdline):
        try:
            return (
                b"tune-worker" in cmdline.read_bytes() and PROBLEM.encode() in cmdline.read_bytes()
            )
        except OSError:
            return False

    def test_four_tuners_share_a_database(self):
        processes = [self.start("--budget", "40", problem=p) for p in [PROBLEM, *OTHERS]]
        for process in processes:
            _, error = process.communicate(timeout=110)
            self.assertEqual(process.returncode, DONE, error)
        self.assertEqual({r["problem"] for r in self.rows("best")}, {PROBLEM, *OTHERS})
        self.assertTrue(all(r["finished"] for r in self.rows("best")))

    # ---- bad input ----

    def test_bad_input(self):
        for arguments, code, sentence in (
            (("tune",), BAD_INPUT, "--problem or --problem-file is needed"),
            (("tune", "--problem", PROBLEM, "--budget", "0"), BAD_INPUT, "no number of seconds"),
            (("tune", "--problem", PROBLEM, "--db", "/proc/x/y.db"), BAD_INPUT, "cannot be opened"),
            (("tune", "--problem", PROBLEM), BAD_INPUT, "--db FILE names one"),
            (("tune", "--problem", PROBLEM, "--device", "cuda:99"), NO_DEVICE, ""),
            (("tune", "--problem", PROBLEM.replace("sk=64", "sk=0")), BAD_INPUT, "nothing to be"),
            (("tune", "--problem", PROBLEM, "--kernel", "none", "--db", self.db), BAD_INPUT, "pinned"),
        ):  # fmt: skip
            result = self.attune(*arguments)
            self.assertEqual(result.code, code, (arguments, result.error))
            self.assertIn(sentence, result.error)
            self.assertEqual(len(result.error.splitlines()), 1)

    def test_a_foreign_file_is_left_alone(self):
        self.db.write_text("notes " * 100)
        result = self.tune()
        self.assertEqual(result.code, BAD_INPUT)
        self.assertIn("is no database of Attune", result.error)
        self.assertEqual(self.db.read_text(), "notes " * 100)


if __name__ == "__main__":
    unittest.main()
