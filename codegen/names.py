"""The one place that prints and parses kernel ids.

forward_f32_d128_vector_q12r12k128n32w16
op      dtype   engine  tuning: one letter and number per axis, in the order of the spec
            head_dim
"""

import functools
import re

_ID = re.compile(r"([a-z]+)_([a-z0-9]+)_d([0-9]+)_([a-z]+)_((?:[a-z][0-9]+)+)")
_AXIS = re.compile(r"([a-z])([0-9]+)")


class KernelNameError(ValueError):
    """A text that is no kernel id; the message says what is wrong with it."""


def kernel_id(op, dtype, head_dim, engine, tuning):
    """`tuning`: pairs (letter, value) in the order of the engine's axes."""
    return f"{op}_{dtype}_d{head_dim}_{engine}_{_axes(tuple(tuning))}"


@functools.lru_cache(maxsize=None)
def _axes(tuning):
    return "".join(f"{letter}{value}" for letter, value in tuning)


def parse_kernel_id(text):
    """The inverse of kernel_id: (op, dtype, head_dim, engine, [(letter, value), ...])."""
    match = _ID.fullmatch(text)
    if not match:
        raise KernelNameError(
            f"'{text}' is no kernel id like forward_f32_d64_vector_q12r12k128n32w16"
        )
    op, dtype, head_dim, engine, axes = match.groups()
    tuning = [(letter, int(value)) for letter, value in _AXIS.findall(axes)]
    if kernel_id(op, dtype, int(head_dim), engine, tuning) != text:
        raise KernelNameError(f"'{text}' has a number with leading zeros")
    return op, dtype, int(head_dim), engine, tuning


def pack_name(kernel):
    """The packing kernel that belongs to a kernel with panels."""
    return f"{kernel}_pack"
