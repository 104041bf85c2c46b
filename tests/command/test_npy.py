"""NumPy files that are not what they should be: one sentence, exit status 2, no output file."""

import os
import threading

from command import BAD_INPUT, CommandTest, Problem, header, main, npy

SHAPE = (1, 2, 1, 4)
VALUES = [float(i) for i in range(8)]
GOOD = npy(SHAPE, VALUES)
DATA = GOOD[-32:]


def with_header(text, data=DATA, version=1):
    return header(text.encode("latin-1"), version) + data


def with_shape(shape, data=DATA):
    return with_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n", data)


def with_descr(descr):
    return with_header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {SHAPE}, }}\n")


# What is wrong, and a word that the sentence must hold.
BAD = {
    "empty": (b"", "no NumPy file"),
    "text": (b"hello, world\n" * 10, "no NumPy file"),
    "zeros": (bytes(4096), "no NumPy file"),
    "half a magic": (GOOD[:3], "no NumPy file"),
    "magic alone": (GOOD[:6], "no NumPy file"),
    "no header size": (GOOD[:9], "no NumPy file"),
    "half a header": (GOOD[:60], "no NumPy file"),
    "another magic": (b"\x94" + GOOD[1:], "no NumPy file"),
    "zip (npz)": (b"PK\x03\x04" + GOOD, "no NumPy file"),
    "version 0": (GOOD[:6] + b"\0" + GOOD[7:], "no NumPy file"),
    "version 4": (GOOD[:6] + b"\4" + GOOD[7:], "no NumPy file"),
    "version 2 with a size of version 1": (GOOD[:6] + b"\2" + GOOD[7:], "no NumPy file"),
    "header of 4 GiB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + GOOD[10:], "no NumPy file"),
    "header beyond the end": (b"\x93NUMPY\x01\x00\xff\xff" + GOOD[10:], "no NumPy file"),
    "NUL in the header": (GOOD.replace(b"False", b"Fals\0"), "no NumPy file"),
    "empty header": (with_header(""), "malformed"),
    "no dict": (with_header("[]\n"), "malformed"),
    "unclosed dict": (with_header("{'descr': '<f4', "), "malformed"),
    "more after the dict": (with_header(GOOD[10:-32].decode().strip() + " x\n"), "malformed"),
    "no comma": (GOOD.replace(b"'<f4',", b"'<f4' "), "malformed"),
    "no colon": (GOOD.replace(b"'shape':", b"'shape' "), "malformed"),
    "unknown key": (GOOD.replace(b"'shape'", b"'shade'"), "malformed"),
    "missing shape": (with_header("{'descr': '<f4', 'fortran_order': False, }\n"), "malformed"),
    "key twice": (with_header("{'descr': '<f4', " + GOOD[11:-32].decode()), "malformed"),
    "unclosed string": (with_descr("'<f4"), "malformed"),
    "unquoted type": (with_descr("<f4"), "malformed"),
    "long type": (with_descr("'" + "f" * 300 + "'"), "malformed"),
    "line in a type": (with_descr("'<f\n'"), "malformed"),
    "record type": (with_descr("[('a', '<f4')]"), "malformed"),
    "order maybe": (GOOD.replace(b"False", b"Maybe"), "malformed"),
    "order 0": (GOOD.replace(b"False", b"0    "), "malformed"),
    "Fortran order": (GOOD.replace(b"False", b"True "), "Fortran order"),
    "float64": (npy(SHAPE, VALUES, "<f8"), "'<f8'"),
    "int32": (npy(SHAPE, list(range(8)), "<i4"), "'<i4'"),
    "big endian": (npy(SHAPE, VALUES, ">f4"), "'>f4'"),
    "complex": (with_descr("'<c8'"), "'<c8'"),
    "object": (with_descr("'|O'"), "'|O'"),
    "no type": (with_descr("''"), "''"),
    "scalar": (with_shape("()", bytes(4)), "0 dimensions"),
    "three dimensions": (with_shape("(2, 1, 4)"), "3 dimensions"),
    "five dimensions": (with_shape("(1, 1, 2, 1, 4)"), "5 dimensions"),
    "forty dimensions": (with_shape("(" + "1, " * 40 + ")", bytes(4)), "malformed"),
    "shape is a list": (with_shape("[1, 2, 1, 4]"), "malformed"),
    "shape is no number": (with_shape("(1, 2, a, 4)"), "malformed"),
    "fraction in the shape": (with_shape("(1, 2, 1.0, 4)"), "malformed"),
    "negative size": (with_shape("(1, -2, 1, 4)"), "malformed"),
    "plus sign": (with_shape("(1, +2, 1, 4)"), "malformed"),
    "unclosed shape": (with_shape("(1, 2, 1, 4"), "malformed"),
    "no comma in the shape": (with_shape("(1, 2 1, 4)"), "malformed"),
    "size beyond 64 bits": (with_shape("(1, 99999999999999999999, 1, 4)"), "malformed"),
    "product beyond 64 bits": (with_shape("(4294967296, 4294967296, 1, 4)"), "larger"),
    "product 0 beyond 64 bits": (with_shape("(4294967296, 4294967296, 0, 4)", b""), "larger"),
    "bytes beyond 64 bits": (with_shape("(2305843009213693952, 2, 1, 1)"), "larger"),
    "a terabyte": (with_shape("(1, 262144, 1024, 1024)"), "promises"),
    "one byte short": (GOOD[:-1], "31 bytes"),
    "one element short": (GOOD[:-4], "28 bytes"),
    "no elements": (GOOD[:-32], "0 bytes"),
    "one byte more": (GOOD + b"\0", "33 bytes"),
    "twice": (GOOD + GOOD, "promises 32"),
    "elements of an empty shape": (with_shape("(1, 0, 1, 4)"), "promises 0"),
}


class Bad(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("good.npy", GOOD)

    def refuse(self, which, path, says=""):
        words = ["run", "--device", "cpu", "--out", self.path("o.npy")]
        for name in "qkv":
            words += [f"--{name}", path if name == which else self.path("good.npy")]
        result = self.bad(BAD_INPUT, *words, says=says)
        self.assertIn(str(path), result.error)
        self.assertEqual([at.name for at in self.folder.glob("*o.npy*")], [])

    def test_the_good_one_is_good(self):
        words = [f"--{name}={self.path('good.npy')}" for name in "qkv"]
        self.good("run", *words, "--out", self.path("o.npy"), "--device", "cpu")

    def test_bad_files(self):
        for number, (what, (data, says)) in enumerate(BAD.items()):
            with self.subTest(what):
                self.assertNotEqual(data, GOOD)
                self.refuse("qkv"[number % 3], self.write("bad.npy", data), says)

    def test_compare_reads_with_the_same_care(self):
        for what in ("empty", "Fortran order", "one byte short"):
            words = ["compare", "--devices", "cpu", "--q", self.write("bad.npy", BAD[what][0])]
            words += ["--k", self.path("good.npy"), "--v", self.path("good.npy")]
            self.bad(BAD_INPUT, *words, "--json", says=BAD[what][1])

    def test_paths(self):
        self.refuse("q", self.path("none.npy"), "No such file")
        self.refuse("k", self.folder, "folder")
        self.refuse("v", self.path("good.npy") / "x", "Not a directory")
        self.refuse("q", self.path("x" * 300), "too long")
        self.refuse("q", "/dev/null", "no NumPy file")
        self.refuse("q", "/dev/zero", "no NumPy file")

    def test_a_file_that_may_not_be_read(self):
        path = self.write("secret.npy", GOOD)
        path.chmod(0)
        if os.access(path, os.R_OK):
            self.skipTest("this user may read everything")
        self.refuse("q", path, "Permission denied")

    def feed(self, data):
        """A pipe's path, with a thread that writes into it."""
        path = self.path("pipe")
        os.mkfifo(path)

        def write():
            try:
                path.write_bytes(data)
            except BrokenPipeError:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        self.addCleanup(writer.join)
        return path

    def test_a_pipe_serves(self):
        words = [f"--{name}={self.path('good.npy')}" for name in "kv"]
        self.good("run", "--q", self.feed(GOOD), *words, "--out", self.path("o.npy"))

    def test_a_pipe_that_ends_early(self):
        self.refuse("q", self.feed(GOOD[:-1]), "whole")

    def test_a_pipe_that_goes_on(self):
        self.refuse("q", self.feed(GOOD + b"\0"), "more than its header promises")

    def test_a_pipe_that_promises_an_exabyte(self):
        self.refuse("q", self.feed(with_shape("(1, 1073741824, 1073741824, 1)")), "memory")


class Good(CommandTest):
    """Other spellings of the same file give the same result."""

    def test_spellings(self):
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {SHAPE}, }}\n"
        files = {
            "version 2": npy(SHAPE, VALUES, version=2),
            "version 3": npy(SHAPE, VALUES, version=3),
            "no padding": with_header(text),
            "much padding": with_header(" " * 9000 + text),
            "double quotes": with_header(text.replace("'", '"')),
            "no spaces": with_header(text.replace(" ", "")),
            "other order": with_header(
                f"{{'shape':{SHAPE},'fortran_order':False,'descr':'<f4'}}\n"
            ),
        }
        expected = self.output(GOOD)
        for what, data in files.items():
            with self.subTest(what):
                self.assertEqual(self.output(data), expected)

    def output(self, data):
        path = self.write("in.npy", data)
        words = ["--q", path, "--k", path, "--v", path, "--device", "cpu"]
        self.good("run", *words, "--out", self.path("o.npy"))
        return self.path("o.npy").read_bytes()


class Shapes(CommandTest):
    """Three files that do not fit each other: the sentence names two shapes."""

    def test_mismatches(self):
        good = {"q": (2, 3, 4, 8), "k": (2, 5, 2, 8), "v": (2, 5, 2, 6)}
        for name, shape in (
            ("q", (1, 3, 4, 8)),
            ("q", (2, 3, 4, 7)),
            ("q", (2, 3, 3, 8)),
            ("q", (2, 3, 1, 8)),
            ("k", (3, 5, 2, 8)),
            ("k", (2, 4, 2, 8)),
            ("k", (2, 5, 3, 8)),
            ("v", (2, 6, 2, 6)),
            ("v", (2, 5, 1, 6)),
            ("v", (0, 5, 2, 6)),
        ):
            shapes = {**good, name: shape}
            words = ["run", "--device", "cpu", "--out", self.path("o.npy")]
            for each, at in shapes.items():
                count = at[0] * at[1] * at[2] * at[3]
                words += [f"--{each}", self.save(f"{each}.npy", at, [0.0] * count)]
            result = self.bad(BAD_INPUT, *words, says=str(shape))
            self.assertEqual(result.error.count("("), 2, result.error)
            self.assertFalse(self.path("o.npy").exists())

    def test_sizes_that_no_kernel_takes(self):
        for shape in ((1, 1, 1, 0), (1, 1, 0, 8), (1, 1, 1, 257)):
            path = self.save("x.npy", shape, [0.0] * (shape[2] * shape[3]))
            words = ["--q", path, "--k", path, "--v", path, "--out", self.path("o.npy")]
            self.bad(BAD_INPUT, "run", *words)

    def test_other_layout(self):
        files = Problem(hq=2, hkv=2, sq=3, sk=3).files(self)
        self.good("run", *files, "--out", self.path("o.npy"), "--layout", "bhsd")
        files = Problem(hq=4, hkv=2, sq=3, sk=4).files(self)
        words = ["run", *files, "--out", self.path("o.npy"), "--layout", "bhsd"]
        self.bad(BAD_INPUT, *words, says="(1, 3, 4, 8)")


if __name__ == "__main__":
    main()
