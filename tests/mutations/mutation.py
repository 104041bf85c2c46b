"""What a planted fault is: a change of a template, and the test that must catch it."""

import pathlib
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
STANDIN = [ROOT / "tests" / "standin" / "with_cuda.sh", ROOT / "build" / "standin" / "cuda"]
PLAIN = "op=forward,b=1,hq=2,hkv=1,sq=37,sk=301,d=64,dtype=f32,lse=1"
ALIGNED = (
    "op=forward,b=1,hq=2,hkv=1,sq=37,sk=305,d=64,dtype=f32,lse=1"  # Q to 16 bytes, by the suite
)
MANY_ROWS = "op=forward,b=1,hq=16,hkv=1,sq=128,sk=192,d=64,dtype=f32,lse=1"
CAUSAL = "op=forward,b=1,hq=2,hkv=2,sq=45,sk=61,d=64,dtype=f32,lse=1,mask=causal"


class Check(typing.NamedTuple):
    """A test that must fail: a program of tests/suite and its arguments. One without a problem has its own, of every dtype."""

    program: str
    problem: str = ""
    fill: str = "normal"
    dtype: str = "f32"
    kernel: str = ""
    target: str = "c"
    mode: str = ""  # of tests/standin/with_cuda.sh, for target cuda
    more: tuple = ()  # arguments
    device: str = ""  # for target emulated

    def dtypes(self):
        """Those whose kernels it runs."""
        return [self.dtype] if self.problem else ["bf16", "f16", "f32"]

    def command(self, build, device):
        """The command line."""
        command = [str(build / "tests" / "suite" / self.program), "--devices", device, *self.more]
        if self.problem:
            command += ["--problem", self.problem, "--fill", self.fill, "--dtype", self.dtype]
        if self.kernel:
            command += ["--kernel", self.kernel]
        return [*STANDIN, self.mode, *command] if self.target == "cuda" else command


class Mutation(typing.NamedTuple):
    """One fault: file of templates/, the text that is right, the text that is wrong, and what must see it."""

    name: str
    file: str
    old: str
    new: str
    check: Check
