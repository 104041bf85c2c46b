"""NumPy files with random damage. Each is read, or refused with one sentence; what is read gives an output of its shape."""

import os
import random

from command import BAD_INPUT, DONE, CommandTest, main, npy, parse_npy

SEED = int(os.environ.get("TEST_SEED", "1"))
CASES = int(os.environ.get("TEST_CASES", "400"))
SHAPE = (1, 2, 1, 4)
# What stands in headers, so that damage reaches behind the first check.
WORDS = [b"'", b'"', b"(", b")", b"{", b"}", b",", b":", b" ", b"\n", b"\0", b"\xff", b"-", b"0"]
WORDS += [b"1", b"9" * 25, b"True", b"False", b"'<f4'", b"'<f2'", b"'>f4'", b"'shape'", b"descr"]


def damaged(source):
    version = source.choice((1, 1, 2, 3))
    descr = source.choice(("<f4", "<f2"))
    data = bytearray(npy(SHAPE, [float(i) for i in range(8)], descr, version))
    header = len(data) - 8 * (4 if descr == "<f4" else 2)
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(header) if source.random() < 0.9 else source.randrange(len(data))
        kind = source.randrange(6)
        if kind == 0:
            data[at] ^= 1 << source.randrange(8)
        elif kind == 1:
            data[at] = source.randrange(256)
        elif kind == 2:
            word = source.choice(WORDS)
            data[at : at + len(word)] = word
        elif kind == 3:
            data[at:at] = source.choice(WORDS)
        elif kind == 4:
            del data[at : at + source.choice((1, 1, 4, 40))]
        else:
            del data[at:]
        if not data:
            return bytes(data)
        header = max(1, min(header, len(data)))
    return bytes(data)


class Fuzz(CommandTest):
    def test_damage(self):
        source = random.Random(SEED)
        good = self.write("good.npy", npy(SHAPE, [0.5] * 8))
        refused = 0
        for number in range(CASES):
            data = damaged(source)
            path = self.write("bad.npy", data)
            words = ["--q", path, "--k", good, "--v", good, "--out", self.path("o.npy")]
            with self.subTest(number=number, data=data[:160]):
                result = self.attune("run", "--device", "cpu", "--dtype", "f32", *words)
                if result.code == DONE:
                    shape = parse_npy(self.path("o.npy").read_bytes())[1]
                    self.assertEqual((shape[0], shape[3]), (1, 4))
                    self.path("o.npy").unlink()
                    continue
                refused += 1
                self.assertEqual(result.code, BAD_INPUT, result.error)
                self.assertEqual(result.error.count("\n"), 1, result.error)
                self.assertEqual([at.name for at in self.folder.glob("*o.npy*")], [])
        # Damage that changes nothing, or only values, must occur, and most damage must be seen.
        self.assertGreater(refused, CASES // 2)
        self.assertLess(refused, CASES)


if __name__ == "__main__":
    main()
