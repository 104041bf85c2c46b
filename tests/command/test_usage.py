"""Usage, help, exit statuses, the environment, and standard output that cannot be written."""

import os
import re
import signal
import subprocess

from command import BAD_INPUT, COMMAND, DONE, FAILED, NO_DEVICE, CommandTest, main

SUBCOMMANDS = ("devices", "kernels", "run", "compare", "bench")
VARIABLES = {
    f"ATTUNE_{name}" for name in ("CACHE", "DB", "DEVICE", "EMULATED", "KERNEL", "VERBOSE")
}
PROBLEM = "op=forward,b=1,hq=2,hkv=1,sq=5,sk=7,d=8,dtype=f32"


def documented_keys(help_text):
    """The keys that a help text promises after --json."""
    words = help_text.split("--json: ", 1)[1]
    words = re.split(r"[.,\n]\s*(?=null|Exit|$)|\(null", words, maxsplit=1)[0]
    return re.sub(r"\([^)]*\)", "", words).split()


class Help(CommandTest):
    def test_help_lists_every_command_and_variable(self):
        for words in (["help"], ["--help"], ["-h"]):
            out = self.good(*words).out
            for word in SUBCOMMANDS:
                self.assertIn(word, out)
            self.assertEqual(set(re.findall(r"ATTUNE_\w+", out)), VARIABLES)

    def test_each_command_has_help(self):
        for name in SUBCOMMANDS:
            out = self.good(name, "--help").out
            self.assertIn(f"usage: attune {name} ", out)
            self.assertEqual(out, self.good(name, "--json", "-h").out)
            self.assertEqual(out, self.good("help", name).out)
            self.assertLess(max(map(len, out.splitlines())), 130)

    def test_version(self):
        self.assertRegex(self.good("--version").out, r"^attune \d+\.\d+\.\d+\n$")

    def test_json_keys_are_those_of_the_help(self):
        examples = {
            "devices": [],
            "kernels": ["--device", "cpu"],
            "compare": ["--devices", "cpu,cpu", "--problem", PROBLEM],
            "bench": ["--device", "cpu", "--problem", PROBLEM],
            "tune": ["--problem", PROBLEM, "--budget", "0.01", "--db", self.folder / "tuning.db"],
        }
        for name, options in examples.items():
            keys = documented_keys(self.good(name, "--help").out)
            rows = self.good(name, "--json", *options).rows()
            self.assertTrue(rows)
            for row in rows:
                self.assertEqual(list(row), keys, name)


class BadUsage(CommandTest):
    def test_no_or_no_known_command(self):
        self.bad(BAD_INPUT, says="no command")
        self.bad(BAD_INPUT, "", says="no command ''")
        self.bad(BAD_INPUT, "devicess", says="devicess")
        self.bad(BAD_INPUT, "help", "devicess", says="devicess")

    def test_options(self):
        for words in (
            ["devices", "--jsom"],
            ["devices", "json"],
            ["devices", "--"],
            ["devices", ""],
            ["devices", "-"],
            ["devices", "--json=1"],
            ["devices", "--device", "cpu"],
            ["run", "--q"],
            ["run", "--problem", PROBLEM],
            ["run", "--fill", "normal"],
            ["kernels", "--j"],
            ["kernels", "--" + "x" * 5000],
            ["kernels", "--problem", PROBLEM, "--problem", PROBLEM],
            ["compare"],
            ["compare", "--devices", "", "--problem", PROBLEM],
            ["compare", "--q", "q.npy", "--problem", PROBLEM],
            ["compare", "--q", "q.npy", "--fill", "normal"],
            ["compare", "--problem", PROBLEM, "--layout", "bhsd"],
            ["bench"],
            ["bench", "--problem", PROBLEM, "--fill", "all"],
            ["bench", "--problem", PROBLEM, "--engine"],
            ["bench", "--problem", PROBLEM, "--reproducible=1"],
            ["kernels", "--tf32=1"],
            ["devices", "--engine", "simt"],
        ):
            self.bad(BAD_INPUT, *words)

    def test_values(self):
        for option, values in {
            "--dtype": ["", "f64", "F32", "f32 "],
            "--mask": ["", "Causal", "bottom-right"],
            "--scale": ["", "x", "nan", "inf", "-inf", "1e999", "1,5", "1 "],
            "--seed": ["", "-1", " 1", "+1", "1.5", "18446744073709551616", "0x10"],
            "--threads": ["", "0", "-1", "1.5", "4097", "99999999999999999999"],
            "--fill": ["", "Normal", "none"],
            "--engine": ["", "Simt", "tensor", "simt,matrix"],
        }.items():
            for value in values:
                words = ["compare", "--devices", "cpu", "--problem", PROBLEM, f"{option}={value}"]
                self.bad(BAD_INPUT, *words, says=option)

    def test_layout(self):
        words = ["run", "--q", "q", "--k", "k", "--v", "v", "--out", "o"]
        self.bad(BAD_INPUT, *words, "--layout", "sbhd", says="sbhd")

    def test_problems(self):
        for problem, says in {
            "": "",
            "op=forward": "",
            PROBLEM + ",x=1": "x",
            PROBLEM.replace("d=8", "d=257"): "257",
            PROBLEM.replace("hq=2", "hq=3,hkv=2").replace(",hkv=1", ""): "heads",
            PROBLEM.replace("sq=5", "sq=-5"): "sq",
        }.items():
            for name in ("kernels", "compare", "bench"):
                self.bad(BAD_INPUT, name, "--problem", problem, says=says)

    def test_a_problem_larger_than_memory(self):
        problem = PROBLEM.replace("b=1", "b=4194304").replace("sq=5", "sq=2147483647")
        for name in ("compare", "bench"):
            self.bad(FAILED, name, "--json", "--problem", problem, says="memory")


class ProblemFile(CommandTest):
    def test_lines_and_comments(self):
        text = f"# comment\n\n  {PROBLEM}  # the first\r\n\t\n{PROBLEM},mask=causal"
        path = self.write("problems.txt", text.encode())
        words = ["compare", "--devices", "cpu", "--problem-file", path, "--json"]
        rows = [row for row in self.good(*words).rows() if row["device"] == "cpu"]
        expected = [f"{PROBLEM},lse=1", f"{PROBLEM},mask=causal,lse=1"]
        self.assertEqual([row["problem"] for row in rows], expected)

    def test_bad_files(self):
        words = ["compare", "--devices", "cpu", "--problem-file"]
        self.bad(BAD_INPUT, *words, self.path("none.txt"), says="none.txt")
        self.bad(BAD_INPUT, *words, self.folder, says=str(self.folder))
        self.bad(BAD_INPUT, *words, self.write("empty.txt", b"# nothing\n"))
        self.bad(BAD_INPUT, *words, self.write("nul.txt", PROBLEM.encode() + b"\0,\n"))
        self.bad(BAD_INPUT, *words, self.write("wrong.txt", b"op=forward,b=1\n"))
        self.bad(BAD_INPUT, *words, self.write("long.txt", b"#" * (5 << 20)), says="4 MiB")
        self.bad(BAD_INPUT, *words, self.write("many.txt", (PROBLEM + "\n").encode() * 5000))
        good = self.write("good.txt", PROBLEM.encode())
        self.bad(BAD_INPUT, *words, good, "--problem-file", good, says="twice")


class Devices(CommandTest):
    def test_no_such_device(self):
        for device in ("", "cpu:1", "nosuch", "opencl:99", "opencl:no such thing", "x" * 1000):
            self.bad(NO_DEVICE, "kernels", "--device", device)
            self.bad(NO_DEVICE, "bench", "--problem", PROBLEM, "--device", device)
            if device:
                self.bad(NO_DEVICE, "compare", "--problem", PROBLEM, "--devices", f"cpu,{device}")

    def test_environment_names_the_default(self):
        self.bad(NO_DEVICE, "kernels", environment={"ATTUNE_DEVICE": "nosuch"}, says="nosuch")
        self.good("kernels", "--device", "cpu", environment={"ATTUNE_DEVICE": "nosuch"})

    def test_cpu_is_listed(self):
        rows = {row["device"]: row for row in self.good("devices", "--json").rows()}
        self.assertIsNone(rows["cpu"]["reason"])
        self.assertGreater(rows["cpu"]["compute_units"], 0)
        self.assertGreater(rows["cpu"]["global_memory"], 1 << 20)
        self.assertIn("\ncpu ", self.good("devices").out)

    def test_a_backend_without_devices_says_why(self):
        environment = {"OCL_ICD_VENDORS": str(self.folder)}
        rows = {
            r["device"]: r for r in self.good("devices", "--json", environment=environment).rows()
        }
        if "opencl" not in rows:
            self.skipTest("built without OpenCL, or its loader ignores OCL_ICD_VENDORS")
        self.assertIn("OpenCL", rows["opencl"]["reason"])
        self.assertIn("not usable", self.good("devices", environment=environment).out)
        self.bad(NO_DEVICE, "kernels", "--device", "opencl", environment=environment)
        compared = self.good(
            "compare", "--problem", PROBLEM, "--json", environment=environment
        ).rows()
        self.assertIn(("opencl", "SKIPPED"), [(r["device"], r["verdict"]) for r in compared])


class Kernels(CommandTest):
    def test_the_first_kernel_is_the_one_that_runs(self):
        rows = self.good("kernels", "--problem", PROBLEM, "--json").rows()
        self.assertTrue(all(row["reason"] is None for row in rows))
        ran = self.good("compare", "--devices", "cpu", "--problem", PROBLEM, "--json").rows()[1]
        self.assertEqual(ran["kernel"], rows[0]["kernel"])

    def test_why(self):
        rows = self.good("kernels", "--problem", PROBLEM, "--why", "--json").rows()
        reasons = [row["reason"] for row in rows if row["reason"]]
        self.assertTrue(any("f16" in reason for reason in reasons), reasons[:3])
        out = self.good("kernels", "--problem", PROBLEM, "--why").out
        self.assertIn(" no: ", out)
        measurements, *lines = out.splitlines()
        self.assertEqual(measurements, "measurements: none, no database is used")
        self.assertEqual(len(rows), len(lines))
        self.assertIn("built-in choice for ", lines[0])
        self.assertIn("built-in choice for ", rows[0]["preference"])

    def test_a_glob_confines(self):
        every = self.kernels()
        some = self.kernels("--kernel", "*_f16_d64_*")
        self.assertTrue(some)
        self.assertEqual(some, [name for name in every if "_f16_d64_" in name])

    def test_the_environment_confines(self):
        last = self.kernels("--problem", PROBLEM)[-1]
        words = ["compare", "--devices", "cpu", "--problem", PROBLEM, "--json"]
        environment = {"ATTUNE_KERNEL": last}
        self.assertEqual(self.good(*words, environment=environment).rows()[1]["kernel"], last)
        first = self.kernels("--problem", PROBLEM)[0]
        row = self.good(*words, "--kernel", first, environment=environment).rows()[1]
        self.assertEqual(row["kernel"], first)


class Engines(CommandTest):
    """The cpu has one engine, whose kernels are all reproducible."""

    def test_every_line_tells_engine_and_mode(self):
        lines = self.good("kernels", "--problem", PROBLEM).out.splitlines()
        self.assertEqual({tuple(line.split()[1:]) for line in lines}, {("vector", "reproducible")})
        compared = ["compare", "--devices", "cpu"]
        for words, number, expected in (
            (["kernels"], -1, ("vector", True)),
            (["bench", "--device", "cpu"], -1, ("vector", True)),
            (compared, -1, ("vector", True)),
            (compared, 0, (None, None)),  # standard attention
        ):
            row = self.good(*words, "--problem", PROBLEM, "--json").rows()[number]
            self.assertEqual((row["engine"], row["reproducible"]), expected, words)

    def test_options_that_leave_the_kernels_of_the_device(self):
        every = self.kernels("--problem", PROBLEM)
        for options in (["--engine", "vector"], ["--reproducible"], ["--tf32"]):
            self.assertEqual(self.kernels("--problem", PROBLEM, *options), every)
            self.good("bench", "--device", "cpu", "--problem", PROBLEM, *options)

    def test_an_engine_that_the_device_lacks(self):
        listed = self.attune("kernels", "--problem", PROBLEM, "--engine", "simt")
        self.assertEqual((listed.code, listed.out), (DONE, ""))
        self.assertEqual(listed.error, "attune kernels: none; --why says why not\n")
        why = self.good("kernels", "--engine", "simt", "--why", "--json").rows()
        self.assertEqual({row["reason"] for row in why}, {"is of engine vector, not simt"})
        words = ["--problem", PROBLEM, "--engine", "matrix"]
        says = "is of engine vector, not matrix"
        self.bad(BAD_INPUT, "bench", "--device", "cpu", *words, says=says)
        compared = self.attune("compare", "--devices", "cpu", *words, "--json")
        self.assertEqual(compared.code, FAILED)
        self.assertEqual(compared.rows()[-1]["verdict"], "SKIPPED")
        self.assertIn(says, compared.rows()[-1]["reason"])


class Stdout(CommandTest):
    def test_a_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        for words in (["help"], ["--version"], ["devices"], ["kernels"], ["kernels", "--help"]):
            with open("/dev/full", "w") as full:
                self.bad(BAD_INPUT, *words, stdout=full, says="standard output")

    def test_a_closed_pipe_ends_it_quietly(self):
        read, write = os.pipe()
        os.close(read)
        process = subprocess.run(
            [COMMAND, "kernels", "--json"], stdout=write, stderr=subprocess.PIPE, check=False
        )
        os.close(write)
        self.assertEqual((process.returncode, process.stderr), (-signal.SIGPIPE, b""))


if __name__ == "__main__":
    main()
