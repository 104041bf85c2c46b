"""The tables backends/<x>/tuned.tsv: which kernels a device prefers for which problems."""

import dataclasses

import names
from schema import DTYPES, SpecError


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a tuned.tsv."""

    device_class: str
    op: str
    dtype: str
    head_dim: int
    max_seqlen_q: str
    kernel: str


HEADER = "device_class\top\tdtype\thead_dim\tmax_seqlen_q\tkernel"


def parse(text, name):
    """The rows of a tuned.tsv, which must be sorted by order; rows that are equal in it stand in the order of preference, and none
    is there twice. `name` is for messages."""
    lines = text.splitlines()
    if not lines or lines[0] != HEADER:
        raise SpecError(f"{name}: the first line must be '{HEADER}'")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        fields = line.split("\t")
        if len(fields) != 6:
            raise SpecError(f"{name}:{number}: {len(fields)} fields where 6 belong")
        device_class, op, dtype, head_dim, max_seqlen_q, kernel = fields
        try:
            parsed = names.parse_kernel_id(kernel)
        except names.KernelNameError as error:
            raise SpecError(f"{name}:{number}: {error}") from None
        if dtype not in DTYPES:
            raise SpecError(f"{name}:{number}: no dtype '{dtype}'; there are {', '.join(DTYPES)}")
        if (parsed[0], parsed[1], str(parsed[2])) != (op, dtype, head_dim):
            raise SpecError(f"{name}:{number}: kernel '{kernel}' computes something else")
        if max_seqlen_q != "*" and not max_seqlen_q.isdecimal():
            raise SpecError(f"{name}:{number}: max_seqlen_q '{max_seqlen_q}' is no number and no *")
        rows.append(Row(device_class, op, dtype, int(head_dim), max_seqlen_q, kernel))
    for number, (row, later) in enumerate(zip(rows, rows[1:]), 3):
        if order(row) > order(later):
            raise SpecError(f"{name}:{number}: the row is not sorted")
        if later in rows[: number - 2]:
            raise SpecError(f"{name}:{number}: the row is there twice")
    return rows


def order(row):
    """Any class after every named one, unlimited after every limit; the order that the runtime scans."""
    limit = float("inf") if row.max_seqlen_q == "*" else int(row.max_seqlen_q)
    return (
        row.device_class == "*",
        row.device_class,
        row.op,
        DTYPES.index(row.dtype),
        row.head_dim,
        limit,
    )
