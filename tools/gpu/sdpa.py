"""Races Attune against the back ends of PyTorch's scaled_dot_product_attention on the rows of sweep.py, in one process.

All read the same packed (batch, seq, head, dim) tensors on the same stream. Each round times one call of each contestant, in rotating
order; on a GPU by events around the call, after the L2 cache was overwritten. Prints one JSON object per row with the keys

    problem device kernel status    passed; failed: Attune's error, or outputs too far from PyTorch's; timed: no other output to compare with
    rounds seconds                  timed calls of each contestant; all that the row took
    contestants                     name: {milliseconds (median) q1 q3 tflops}, or {error}
    ratios                          name: milliseconds of this back end / of Attune: above 1, Attune is faster
    ratio                           the least of them: against PyTorch's fastest
    max_abs_diff                    the largest difference between the outputs of Attune and of any contestant

and no line for a row that the budget did not reach. Exit status 1 where a row failed.
"""

import functools
import json
import math
import sys
import time
import warnings

import attune
import sweep
import torch
from contest import command_line, race, summary, until
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
CONTESTANTS = {
    "f16": ("flash", "cudnn", "efficient"),
    "bf16": ("flash", "cudnn", "efficient"),
    "f32": ("efficient", "math"),
}
# Only against wrong wiring, which shows as differences near 1: a few units in the last place of the largest outputs, and room for TF32.
SANE = {"f16": 2e-2, "bf16": 1e-1, "f32": 1e-2}
WARM_UPS = 2


class GpuClock:
    """Events on the current stream."""

    # Overwriting this takes the GPU longer than starting a call takes the CPU, so a call's time holds no wait for the CPU.
    FLUSH_BYTES = 1 << 30

    def __init__(self, device):
        memory = torch.cuda.get_device_properties(device).total_memory
        size = min(self.FLUSH_BYTES, memory // 8)
        self.flush = torch.empty(size, dtype=torch.uint8, device=device)

    def time(self, call):
        """Milliseconds of a call."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def wait(self):
        torch.cuda.synchronize()


class CpuClock:
    def time(self, call):
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)

    def wait(self):
        pass


def torch_call(backend, q, k, v, causal):
    heads_first = [tensor.transpose(1, 2) for tensor in (q, k, v)]

    def call():
        with sdpa_kernel(backend):
            output = scaled_dot_product_attention(*heads_first, is_causal=causal)
        return output.transpose(1, 2)

    return call


def attune_call(plan, place, stream, q, k, v):
    o = torch.full_like(q, math.nan)
    workspace = torch.empty(max(plan.workspace_size, 1), dtype=torch.uint8, device=place)
    tensors = {"q": q, "k": k, "v": v, "o": o, "workspace": workspace}
    run = plan.runner(stream, **{name: tensor.data_ptr() for name, tensor in tensors.items()})

    def call():
        run()
        return tensors["o"]

    return call


def warm_up(calls, clock):
    """The outputs of the contestants that can run, and why the others cannot."""
    outputs, errors = {}, {}
    for name, call in calls.items():
        try:
            for _ in range(WARM_UPS):
                outputs[name] = call()
            clock.wait()
        except RuntimeError as error:
            outputs.pop(name, None)
            errors[name] = str(error).strip().splitlines()[0]
    return outputs, errors


def largest_difference(outputs):
    """NaN where Attune left an element unwritten; None without any output to compare with."""
    ours = outputs["attune"].float()
    others = [output.float() for name, output in outputs.items() if name != "attune"]
    differences = [(ours - other).abs().max().item() for other in others]
    if ours.isnan().any() or any(map(math.isnan, differences)):
        return math.nan
    return max(differences, default=None)


def verdict(difference, dtype):
    """A row's status."""
    if difference is None:
        return "timed"
    return "passed" if difference <= SANE[dtype] else "failed"


def run_row(row, plan, place, stream, clock):
    shape = (row.batch, row.seqlen, row.heads, row.head_dim)
    q, k, v = (torch.randn(shape, dtype=DTYPES[row.dtype], device=place) for _ in range(3))
    calls = {"attune": attune_call(plan, place, stream, q, k, v)}
    for name in CONTESTANTS[row.dtype]:
        calls[name] = torch_call(BACKENDS[name], q, k, v, row.causal)
    outputs, errors = warm_up(calls, clock)
    if "attune" in errors:
        raise attune.AttuneError(errors["attune"])
    difference = largest_difference(outputs)
    del outputs
    times = race(
        {name: functools.partial(clock.time, calls[name]) for name in calls if name not in errors}
    )
    results = {name: summary(of_name, row.flops) for name, of_name in times.items()}
    ours = results["attune"]["milliseconds"]
    ratios = {name: results[name]["milliseconds"] / ours for name in results if name != "attune"}
    return {
        "status": verdict(difference, row.dtype),
        "rounds": len(times["attune"]),
        "contestants": results | {name: {"error": why} for name, why in errors.items()},
        "ratios": ratios,
        "ratio": min(ratios.values(), default=None),
        "max_abs_diff": None if difference is None or math.isnan(difference) else difference,
    }


def result_line(row, device, place, stream, clock):
    begin = time.perf_counter()
    line = {"problem": row.problem, "kernel": None}
    try:
        plan = attune.Plan(device, device.library.problem(row.problem))
        line["kernel"] = plan.kernel
        line |= run_row(row, plan, place, stream, clock)
        plan.close()
    except RuntimeError as error:
        line |= {"status": "failed", "contestants": {"attune": {"error": str(error)}}}
    return line | {"seconds": round(time.perf_counter() - begin, 2)}


def run_sweep(arguments, deadline, place, stream, clock):
    """The number of rows that failed."""
    failed = 0
    device = attune.Device(attune.Library(arguments.library), arguments.device)
    for row in until(deadline, sweep.SWEEPS[arguments.sweep]()):
        line = {"device": arguments.device, **result_line(row, device, place, stream, clock)}
        failed += line["status"] == "failed"
        print(json.dumps(line), flush=True)
    device.close()
    return failed


@torch.inference_mode()
def main():
    parser = command_line("Attune against PyTorch's attention", sweep.SWEEPS, budget=100)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.budget
    warnings.filterwarnings("ignore", category=UserWarning)  # why a back end refuses
    torch.manual_seed(1)
    if arguments.device == "cpu":
        return run_sweep(arguments, deadline, "cpu", None, CpuClock()) > 0
    # A stream of its own: the handle of PyTorch's default stream is 0, which would not show that Attune uses what it is given.
    stream = torch.cuda.Stream(arguments.device)
    with torch.cuda.device(arguments.device), torch.cuda.stream(stream):
        clock = GpuClock(arguments.device)
        return run_sweep(arguments, deadline, arguments.device, stream.cuda_stream, clock) > 0


if __name__ == "__main__":
    sys.exit(main())
