"""Tries the GPU's 2^x on every grid point that reproducible kernels can meet (docs/matrix-engine.md).

For each fraction f = j/2^13 and its negative, 0 <= j < 2^13, and each integer k from -125 to 15, the result for f + k must be exactly 2^k times the result for
f: then a rescale by a power of two changes no bit. Against double precision the results must be off by less than 2^-22, which the error bound
assumes. Prints both findings. Exit status 0 where they hold, 1 where not, 77 without a GPU.

    exp2.py [--device N] [--instructions TEXT]      PTX that sets %y from %x, to try other ways to compute 2^x
"""

import argparse
import ctypes
import math
import sys
from array import array
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

GRID = 13
FRACTIONS = 1 << GRID
EXPONENTS = range(-125, 16)
MOST_ERROR = 2.0**-22
BLOCK = 256
SKIPPED = 77

# One work-item per number, in place. A number of blocks covers the numbers exactly.
PTX = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry exp2(.param .u64 numbers)
{{
    .reg .f32 %x, %y;
    .reg .b32 %block, %threads, %thread, %index;
    .reg .b64 %base, %at;
    ld.param.u64 %base, [numbers];
    cvta.to.global.u64 %base, %base;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.u32 %index, %block, %threads, %thread;
    mul.wide.u32 %at, %index, 4;
    add.u64 %at, %base, %at;
    ld.global.f32 %x, [%at];
    {instructions}
    st.global.f32 [%at], %y;
    ret;
}}
"""


class Driver:
    """libcuda.so.1 with the primary context of a device."""

    def __init__(self, device):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        handle, context = c_int(), c_void_p()
        self.call("cuDeviceGet", byref(handle), device)
        self.call("cuDevicePrimaryCtxRetain", byref(context), handle)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = c_char_p(b"an unknown error")
            self.library.cuGetErrorString(code, byref(text))
            raise OSError(f"{name}: {text.value.decode()}")

    def load(self, ptx):
        module, function = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), ptx.encode())
        self.call("cuModuleGetFunction", byref(function), module, b"exp2")
        return function

    def run(self, function, numbers):
        """The results for an array of floats whose length is a multiple of BLOCK."""
        size = c_size_t(4 * len(numbers))
        memory = c_uint64()
        results = array("f", bytes(size.value))
        self.call("cuMemAlloc_v2", byref(memory), size)
        self.call("cuMemcpyHtoD_v2", memory, c_void_p(numbers.buffer_info()[0]), size)
        parameters = (c_void_p * 1)(ctypes.cast(byref(memory), c_void_p))
        grid, block = (len(numbers) // BLOCK, 1, 1), (BLOCK, 1, 1)
        self.call("cuLaunchKernel", function, *grid, *block, 0, None, parameters, None)
        self.call("cuMemcpyDtoH_v2", c_void_p(results.buffer_info()[0]), memory, size)
        self.call("cuMemFree_v2", memory)
        return results


def bits(floats):
    return array("I", floats.tobytes())


def judge(exp2, fractions):
    """The largest relative error over the fractions, and (x, result, 2^k times the result for its fraction) of each x that does not scale."""
    base = exp2(array("f", fractions))
    errors = [abs(y / 2.0**x - 1) for x, y in zip(fractions, base)]
    error = math.inf if any(map(math.isnan, errors)) else max(errors)
    wrong = []
    for k in EXPONENTS:
        scaled = exp2(array("f", [x + k for x in fractions]))
        expected = array("f", [math.ldexp(y, k) for y in base])
        if bits(scaled) != bits(expected):
            triples = zip(fractions, scaled, expected)
            wrong += [(x + k, y, right) for x, y, right in triples if y != right]
    return error, wrong


def report(name, error, wrong):
    print(f"{name} fractions: off by at most 2^{math.log2(error) if error else -math.inf:.2f}")
    tried = FRACTIONS * len(EXPONENTS)
    print(
        f"{name} fractions: {len(wrong)} of {tried} results are not 2^k times that of the fraction"
    )
    for x, y, right in wrong[:5]:
        print(f"    2^{x!r} is {y.hex()}, not {right.hex()}")
    return error < MOST_ERROR and not wrong


def main():
    parser = argparse.ArgumentParser(description="tries a GPU's 2^x on the whole grid")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--instructions", default="ex2.approx.ftz.f32 %y, %x;")
    arguments = parser.parse_args()
    try:
        driver = Driver(arguments.device)
    except OSError as error:
        print(f"SKIPPED: no GPU: {error}")
        return SKIPPED
    function = driver.load(PTX.format(instructions=arguments.instructions))
    print(arguments.instructions)
    good = True
    for name, sign in (("positive", 1), ("negative", -1)):
        fractions = [sign * j / FRACTIONS for j in range(FRACTIONS)]
        findings = judge(lambda numbers: driver.run(function, numbers), fractions)
        good = report(name, *findings) and good
    if not good:
        print("FAIL: reproducible kernels need another 2^x on this device")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
