"""attune db: measurements out and in, and tables for the next build."""

import json
import pathlib
import sqlite3
import subprocess
import sys
import time
import unittest

from command import BAD_INPUT, DONE, FAILED, CommandTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "backends" / "cpu" / "tuned.tsv"


class DatabaseTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.db = self.folder / "tuning.db"
        self.here = self.identity()

    def identity(self):
        """What measurements of this device and build are filed under, from one that was made here."""
        made = self.folder / "identity.db"
        problem = "op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=8,dtype=f32"
        done = self.attune(
            "tune", "--device", "cpu", "--problem", problem, "--db", made, "--budget", "0.001"
        )
        self.assertEqual(done.code, DONE, done.error)
        return self.attune("db", "export", "--db", made).rows()[0]

    def kernels(self, problem):
        rows = self.attune("kernels", "--device", "cpu", "--problem", problem, "--json").rows()
        return [row["kernel"] for row in rows if not row["reason"]]

    def row(self, problem, kernel, milliseconds, usual, number, **changes):
        """A measurement as db export prints it."""
        times = {
            name: milliseconds * factor
            for name, factor in (
                ("milliseconds", 1.0), ("milliseconds_q1", 0.99), ("milliseconds_q3", 1.01),
                ("milliseconds_min", 0.98),
            )
        }  # fmt: skip
        return {
            **self.here, **times, "run": f"{number:032x}", "problem": problem, "kernel": kernel,
            "default_kernel": usual, "rung": 1, "samples": 9, "finished": "2026-01-01", **changes,
        }  # fmt: skip

    def load(self, rows):
        file = self.folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return self.attune("db", "import", "--file", file, "--db", self.db)

    def won(self, problem, kernel, number, faster=2.0):
        """The rows of a run in which a kernel beat the default."""
        usual = self.kernels(problem)[0]
        rows = [self.row(problem, usual, 10.0, usual, number)]
        if kernel != usual:
            rows.append(self.row(problem, kernel, 10.0 / faster, usual, number))
        return rows

    # ---- out and in ----

    def test_exports_come_in_again(self):
        problem = "op=forward,b=1,hq=1,hkv=1,sq=512,sk=64,d=64,dtype=f32"
        rows = self.won(problem, self.kernels(problem)[1], 1)
        rows.append({**rows[0], "kernel": "bad", "milliseconds": None, "invalid": "is wrong"})
        self.assertEqual(self.load(rows).out, "3 measurements, 3 of them new\n")
        self.assertEqual(self.load(rows).out, "3 measurements, 0 of them new\n")
        lines = self.attune("db", "export", "--db", self.db).out
        for arguments in ((), ("--tsv",)):
            file, copy = self.folder / "file", self.folder / f"copy{len(arguments)}.db"
            file.write_text(self.attune("db", "export", "--db", self.db, *arguments).out)
            done = self.attune("db", "import", "--file", file, "--db", copy)
            self.assertEqual(done.out, "3 measurements, 3 of them new\n", done.error)
            self.assertEqual(self.attune("db", "export", "--db", copy).out, lines)

    def test_a_bad_line_brings_in_nothing(self):
        problem = "op=forward,b=1,hq=1,hkv=1,sq=512,sk=64,d=64,dtype=f32"
        good = self.won(problem, self.kernels(problem)[1], 1)
        for bad, sentence in (
            ({**good[0], "rung": -1}, "a row that no measurement makes"),
            ({**good[0], "milliseconds": -2.0}, "milliseconds is"),
            ({**good[0], "problem": "op=sideways"}, "problem string"),
            ({"kernel": "alone"}, "is missing"),
            ([], "is no JSON object"),
        ):
            result = self.load([good[0], bad, good[1]])
            self.assertEqual(result.code, BAD_INPUT)
            self.assertIn("line 2: ", result.error)
            self.assertIn(sentence, result.error)
            self.assertEqual(self.attune("db", "export", "--db", self.db).out, "")
        file = self.folder / "file"
        for text in ("kernel\tmilliseconds\nk\t1\n", "\x00\x01\x02", "{\n", "no header\nno row\n"):
            file.write_text(text)
            result = self.attune("db", "import", "--file", file, "--db", self.db)
            self.assertEqual(result.code, BAD_INPUT, text)

    def test_reading_makes_no_file(self):
        for what in ("show", "best", "export"):
            result = self.attune("db", what, "--db", self.db)
            self.assertEqual(result.code, BAD_INPUT)
            self.assertIn("No such file", result.error)
        self.assertFalse(self.db.exists())

    def test_a_view_of_many_columns_is_read_in_part(self):
        self.load([self.row("op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=8,dtype=f32", "k", 1.0, "k", 1)])
        connection = sqlite3.connect(self.db)
        columns = ", ".join(f"'{i}' AS c{i}" for i in range(1000))
        for view in ("record", "winner"):
            connection.execute(f"DROP VIEW {view}")
            connection.execute(f"CREATE VIEW {view} AS SELECT {columns}")
        connection.close()
        shown = self.attune("db", "show", "--db", self.db, "--json")
        self.assertEqual(shown.code, DONE, shown.error)
        (row,) = shown.rows()
        self.assertEqual(row, {f"c{i}": str(i) for i in range(len(row))})
        self.assertEqual(self.attune("db", "show", "--db", self.db).code, DONE)
        self.assertEqual(self.attune("db", "best", "--db", self.db, "--json").code, BAD_INPUT)

    def test_bad_input(self):
        for arguments in (("db",), ("db", "frob"), ("db", "import"), ("db", "show", "--bad")):
            result = self.attune(*arguments)
            self.assertEqual(result.code, BAD_INPUT, arguments)
            self.assertEqual(len(result.error.splitlines()), 1)
        self.assertEqual(self.attune("help", "db", "export").code, DONE)

    # ---- tables ----

    def table(self, *arguments):
        return self.attune(
            "db", "export", "--tuned", "--device", "cpu", "--db", self.db, *arguments
        )

    def test_winners_go_into_the_table(self):
        text = "op=forward,b=1,hq=1,hkv=1,sq={},sk=64,d=64,dtype=f32"
        usual = self.kernels(text.format(2048))[0]
        small, large = [k for k in self.kernels(text.format(2048))[1:] if "_d64_" in k][:2]
        rows = self.won(text.format(64), small, 1) + self.won(text.format(256), small, 2)
        rows += self.won(text.format(4096), large, 3)
        self.load(rows)
        result = self.table("--file", TABLE)
        self.assertEqual(result.code, DONE, result.error)
        ours = self.here["device_class"]
        key = [ours, "forward", "f32", "64"]
        before, after = (
            [line.split("\t") for line in text.splitlines()]
            for text in (TABLE.read_text(), result.out)
        )
        self.assertEqual(  # nothing else changes
            [line for line in before if line[:4] != key],
            [line for line in after if line[:4] != key],
        )
        here = [line[4:] for line in after if line[:4] == key]
        self.assertIn(["1024", small], here)  # the geometric mean of 256 and 4096
        self.assertIn(["12288", large], here)  # three times the longest
        self.assertIn(["*", usual], here)
        folder = self.folder / "backends"
        for path in (ROOT / "backends").glob("*/tuned.tsv"):
            copy = folder / path.parent.name / path.name
            copy.parent.mkdir(parents=True)
            copy.write_text(result.out if path == TABLE else path.read_text())
        (folder / "kernel_abi.h").write_text((ROOT / "backends" / "kernel_abi.h").read_text())
        if sys.version_info >= (3, 11):  # what the next build does with it
            done = subprocess.run(
                [sys.executable, "-B", ROOT / "codegen" / "generate.py", "--render", "c", "--arch",
                 "x86_64", "--backends", folder, "--out", self.folder / "out", "--outputs"],
                capture_output=True, text=True,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(large, done.stdout)

    def key_lines(self, out, device_class):
        """[limit, kernel] of f32, head_dim 64 and that class."""
        lines = [line.split("\t") for line in out.splitlines()[1:]]
        return [line[4:] for line in lines if line[:4] == [device_class, "forward", "f32", "64"]]

    def test_what_was_not_measured_is_chosen_as_before(self):
        """Also where the choice was that of any device, which lines of the class hide."""
        text = "op=forward,b=1,hq=1,hkv=1,sq={},sk=64,d=64,dtype=f32"
        one, two, three = [k for k in self.kernels(text.format(600)) if "_d64_" in k][:3]
        table = self.folder / "tuned.tsv"
        header = TABLE.read_text().splitlines()[0]
        lines = [
            f"*\tforward\tf32\t64\t{limit}\t{k}" for limit, k in ((4, one), (96, two), ("*", one))
        ]
        table.write_text("\n".join([header, *lines]) + "\n")
        ours = self.here["device_class"]
        self.load(self.won(text.format(600), three, 1))
        out = self.table("--file", table).out
        self.assertEqual(
            self.key_lines(out, ours), [["4", one], ["96", two], ["200", one], ["1800", three]]
        )
        self.assertEqual(self.key_lines(out, "*"), [["4", one], ["96", two], ["*", one]])

    def test_a_measured_reach_hides_older_lines(self):
        text = "op=forward,b=1,hq=1,hkv=1,sq={},sk=64,d=64,dtype=f32"
        one, two, three = [k for k in self.kernels(text.format(128)) if "_d64_" in k][:3]
        ours = self.here["device_class"]
        table = self.folder / "tuned.tsv"
        header = TABLE.read_text().splitlines()[0]
        lines = [f"{ours}\tforward\tf32\t64\t{limit}\t{k}" for limit, k in ((96, one), ("*", two))]
        table.write_text("\n".join([header, *lines]) + "\n")
        rows = self.won(text.format(128), three, 1)
        rows += [
            {**row, "options": "reproducible", "run": f"{9:032x}"}
            for row in self.won(text.format(512), two, 9)
        ]
        self.load(rows)  # what was sought with options serves no table
        out = self.table("--file", table).out
        self.assertEqual(self.key_lines(out, ours), [["42", one], ["384", three], ["*", two]])

    def test_many_runs_of_one_problem_are_read_at_once(self):
        problem = "op=forward,b=1,hq=1,hkv=1,sq=512,sk=64,d=64,dtype=f32"
        fast = self.kernels(problem)[1]
        rows = self.won(problem, fast, 1)
        self.load([{**row, "run": f"{run:032x}"} for run in range(2000) for row in rows])
        start = time.monotonic()
        (best,) = self.attune("db", "best", "--db", self.db, "--json").rows()
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(best["kernel"], fast)

    def test_a_table_without_winners_is_none(self):
        problem = "op=forward,b=1,hq=1,hkv=1,sq=512,sk=64,d=64,dtype=f32"
        rows = self.won(problem, self.kernels(problem)[1], 1)
        self.load([{**row, "text_hash": "0" * 16} for row in rows])
        result = self.table()
        self.assertEqual(result.code, FAILED)
        self.assertIn("nothing was measured on a device of class", result.error)

    def test_the_built_in_table_stands_in_for_a_file(self):
        problem = "op=forward,b=1,hq=1,hkv=1,sq=512,sk=64,d=64,dtype=f32"
        self.load(self.won(problem, self.kernels(problem)[0], 1))
        result = self.table()
        self.assertEqual(result.code, DONE, result.error)
        header, *lines = result.out.splitlines()
        self.assertEqual(header, TABLE.read_text().splitlines()[0])
        self.assertEqual(len(lines), len(set(lines)))


if __name__ == "__main__":
    unittest.main()
