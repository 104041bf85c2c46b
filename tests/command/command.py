"""What the tests of the command share: running it, NumPy files and attention in plain Python."""

import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest

COMMAND = os.environ["ATTUNE_COMMAND"]
FAULTY = os.environ["ATTUNE_FAULTY"]
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"

DONE, FAILED, BAD_INPUT, NO_DEVICE = range(4)


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        # A build with AddressSanitizer says when it refuses memory; that is no sentence of the command.
        self.error = re.sub(
            r"==\d+==WARNING: AddressSanitizer failed to allocate.*\n", "", process.stderr
        )

    def rows(self):
        """The objects of --json; NaN and Infinity are not JSON."""
        return [json.loads(line, parse_constant=refuse) for line in self.out.splitlines()]


def refuse(word):
    raise ValueError(f"{word} is not JSON")


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def attune(self, *arguments, command=COMMAND, environment=None, **options):
        """Runs the command; a death by a signal or a sanitizer is no exit status of it."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ATTUNE_")}
        process = subprocess.run(
            [command, *map(str, arguments)],
            env={**clean, "ATTUNE_DB": "off", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            timeout=120,
            **options,
        )
        result = Result(process)
        self.assertIn(result.code, range(4), result.error)
        self.assertNotIn("Sanitizer", result.error)
        return result

    def good(self, *arguments, **options):
        result = self.attune(*arguments, **options)
        self.assertEqual((result.code, result.error), (DONE, ""), arguments)
        return result

    def bad(self, code, *arguments, says="", **options):
        """One sentence on stderr, nothing on stdout."""
        result = self.attune(*arguments, **options)
        self.assertEqual(result.code, code, (arguments, result.error))
        self.assertEqual(result.error.count("\n"), 1, result.error)
        self.assertTrue(result.error.startswith("attune: "), result.error)
        self.assertIn(says, result.error)
        self.assertFalse(result.out, result.out)
        return result

    def kernels(self, *arguments):
        """The ids that `attune kernels` prints."""
        return [line.split()[0] for line in self.good("kernels", *arguments).out.splitlines()]

    def path(self, name):
        return self.folder / name

    def write(self, name, data):
        self.path(name).write_bytes(data)
        return self.path(name)

    def save(self, name, shape, values, descr="<f4"):
        return self.write(name, npy(shape, values, descr))

    def load(self, name, descr, shape):
        """The values of a file that must have that type and shape."""
        found_descr, found_shape, values = parse_npy(self.path(name).read_bytes())
        self.assertEqual((found_descr, found_shape), (descr, tuple(shape)))
        return values

    def assert_close(self, got, expected, tolerance):
        self.assertEqual(len(got), len(expected))
        for i, (a, b) in enumerate(zip(got, expected)):
            self.assertTrue(a == b or abs(a - b) <= tolerance, f"element {i}: {a} for {b}")


# ---- NumPy files (the .npy format, numpy.lib.format) ----

LETTERS = {"<f2": "e", "<f4": "f", "<f8": "d", ">f4": "f", "<i4": "i"}


def header(text, version=1):
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


def npy(shape, values, descr="<f4", version=1, order=False):
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {tuple(shape)}, }}".encode()
    start = 10 if version == 1 else 12
    text += b" " * (-(start + len(text) + 1) % 64) + b"\n"
    data = struct.pack(f"{descr[0]}{len(values)}{LETTERS[descr]}", *values)
    return header(text, version) + data


def parse_npy(data):
    """Strict: version 1.0, the header's spelling and padding as NumPy has them."""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    end = 10 + struct.unpack("<H", data[8:10])[0]
    text = data[10:end]
    assert end % 64 == 0 and text.endswith(b"\n"), text
    # The text is a Python literal, and ours.
    found = eval(text.decode("ascii"), {"__builtins__": {}})  # noqa: S307
    assert sorted(found) == ["descr", "fortran_order", "shape"] and not found["fortran_order"]
    size = struct.calcsize(LETTERS[found["descr"]])
    assert len(data) - end == math.prod(found["shape"]) * size, "the file's length"
    count = (len(data) - end) // size
    return (
        found["descr"],
        found["shape"],
        struct.unpack(f"<{count}{LETTERS[found['descr']]}", data[end:]),
    )


# ---- numbers ----


def normal(seed, count):
    """As float32 holds them."""
    source = random.Random(seed)
    return [as_f32(source.gauss(0, 1)) for _ in range(count)]


def as_f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def as_f16(x):
    """Nearest, ties to even: what struct does."""
    return struct.unpack("<e", struct.pack("<e", x))[0]


def as_bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


class Problem:
    """Sizes and random inputs in layout bshd, rounded by `rounding`."""

    def __init__(self, b=1, hq=2, hkv=1, sq=5, sk=7, d=8, dv=None, seed=1, rounding=as_f32):
        self.b, self.hq, self.hkv, self.sq, self.sk, self.d = b, hq, hkv, sq, sk, d
        self.dv = dv or d
        self.q = [rounding(x) for x in normal(seed, b * sq * hq * d)]
        self.k = [rounding(x) for x in normal(seed + 1, b * sk * hkv * d)]
        self.v = [rounding(x) for x in normal(seed + 2, b * sk * hkv * self.dv)]

    def shapes(self, layout="bshd"):
        shapes = [
            (self.b, self.sq, self.hq, self.d),
            (self.b, self.sk, self.hkv, self.d),
            (self.b, self.sk, self.hkv, self.dv),
            (self.b, self.sq, self.hq, self.dv),
        ]
        return shapes if layout == "bshd" else [(b, h, s, d) for b, s, h, d in shapes]

    def files(self, test, layout="bshd", descr="<f4"):
        """Writes q, k and v; returns the options that name them."""
        options = []
        for name, shape, bshd in zip("qkv", self.shapes(), (self.q, self.k, self.v)):
            values = bshd if layout == "bshd" else transposed(shape, bshd)
            shape = shape if layout == "bshd" else (shape[0], shape[2], shape[1], shape[3])
            options += [f"--{name}", test.save(f"{name}.npy", shape, values, descr)]
        return options

    def attention(self, scale=None, mask="none"):
        """Exact o in bshd and lse in (b, h, s), in double precision."""
        scale = 1 / math.sqrt(self.d) if scale is None else scale
        o, lse = [], [0.0] * (self.b * self.hq * self.sq)
        for b in range(self.b):
            for i in range(self.sq):
                for h in range(self.hq):
                    row, lse[(b * self.hq + h) * self.sq + i] = self.row(b, i, h, scale, mask)
                    o += row
        return o, lse

    def row(self, b, i, h, scale, mask):
        keys = {"none": self.sk, "causal": i + 1 + self.sk - self.sq, "causal-top-left": i + 1}
        keys = max(0, min(self.sk, keys[mask]))
        if keys == 0:
            return [0.0] * self.dv, -math.inf
        hk = h // (self.hq // self.hkv)
        q = self.q[((b * self.sq + i) * self.hq + h) * self.d :][: self.d]
        places = [(b * self.sk + j) * self.hkv + hk for j in range(keys)]
        dots = [math.fsum(x * y for x, y in zip(q, self.k[at * self.d :])) for at in places]
        scores = [scale * dot for dot in dots]
        m = max(scores)
        p = [math.exp(s - m) for s in scores]
        total = math.fsum(p)
        row = [
            math.fsum(w * self.v[at * self.dv + d] for w, at in zip(p, places)) / total
            for d in range(self.dv)
        ]
        return row, m + math.log(total)


def transposed(shape, values):
    """(b, x, y, d) to (b, y, x, d)."""
    b, x, y, d = shape
    return [
        values[((i * x + j) * y + h) * d + e]
        for i in range(b)
        for h in range(y)
        for j in range(x)
        for e in range(d)
    ]


def main():
    unittest.main(verbosity=1)
