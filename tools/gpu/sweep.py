"""The problems of a session in the order in which they are run: the most telling ones first, since time may run out."""

from dataclasses import dataclass

TELLING_LENGTHS = (2048, 8192)
TELLING_DIMS = (64, 128)


@dataclass(frozen=True)
class Row:
    batch: int
    heads: int
    seqlen: int
    head_dim: int
    dtype: str
    causal: bool

    @property
    def problem(self):
        """The problem string (include/attune/attune.h)."""
        return (
            f"op=forward,b={self.batch},hq={self.heads},hkv={self.heads},sq={self.seqlen},"
            f"sk={self.seqlen},d={self.head_dim},dtype={self.dtype}"
        ) + (",mask=causal" if self.causal else "")

    @property
    def elements(self):
        """Of each of q, k, v and o."""
        return self.batch * self.seqlen * self.heads * self.head_dim

    @property
    def flops(self):
        """Two products of 2 · head_dim operations for each pair of a query and a key that it sees."""
        pairs = self.seqlen * (self.seqlen + 1) // 2 if self.causal else self.seqlen**2
        return 4 * self.batch * self.heads * pairs * self.head_dim


def grid(tokens, channels, lengths, dims, dtypes):
    """Every row with batch · seqlen = tokens and heads · head_dim = channels."""
    return [
        Row(tokens // seqlen, channels // dim, seqlen, dim, dtype, causal)
        for dtype in dtypes
        for seqlen in lengths
        for dim in dims
        for causal in (False, True)
    ]


def telling(row):
    return row.seqlen in TELLING_LENGTHS and row.head_dim in TELLING_DIMS


def urgency(row):
    order = [("f16", True), ("f32", True), ("bf16", True), ("f16", False), ("bf16", False)]
    return order.index((row.dtype, telling(row)))


def standard():
    lengths = [2**n for n in range(9, 15)]
    rows = grid(16384, 2048, lengths, (64, 128, 256), ("f16", "bf16"))
    rows += grid(16384, 2048, TELLING_LENGTHS, TELLING_DIMS, ("f32",))
    return sorted(rows, key=urgency)


def tiny():
    return grid(256, 128, (64, 128), (64,), ("f16", "bf16", "f32"))


def modes():
    return grid(16384, 2048, TELLING_LENGTHS, TELLING_DIMS, ("f16", "bf16"))


def tiles():
    """By head_dim, since kernels are."""
    rows = grid(16384, 2048, (512, 2048, 8192), (64, 96, 128, 192, 256), ("f16",))
    return sorted(rows, key=lambda row: (row.head_dim not in TELLING_DIMS, row.head_dim))


# What the steps of a session run, by the name of the sweep.
SWEEPS = {"standard": standard, "tiny": tiny}
MODES = {"standard": modes, "tiny": tiny}
TILES = {"standard": tiles, "tiny": lambda: grid(256, 128, (64,), (64,), ("f16",))}
