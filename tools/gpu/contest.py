"""What the programs that time plans share: their command line, their budget, the race, and plans for one problem on memory that Attune allocates."""

import argparse
import functools
import random
import statistics
import struct
import time
from array import array

import attune

ELEMENT_SIZE = {"f32": 4, "f16": 2, "bf16": 2}
PERIOD = 65537  # elements until the inputs repeat; a prime, so that no two rows are equal
RACE_SECONDS, MIN_ROUNDS, MAX_ROUNDS = 0.4, 3, 50


def command_line(description, sweeps, budget):
    """A parser of what all of them accept."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--library", required=True, help="path of libattune.so")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--sweep", choices=sweeps, default="standard")
    parser.add_argument("--budget", type=float, default=budget, metavar="SECONDS")
    return parser


def until(deadline, rows):
    """The rows whose turn comes before the deadline."""
    for row in rows:
        if time.monotonic() > deadline:
            break
        yield row


def race(timers, seconds=RACE_SECONDS, rounds=MAX_ROUNDS):
    """Milliseconds of each contestant, {name: [one for each round]}. `timers`: {name: a function that runs once and returns milliseconds}. The order
    rotates; it takes `seconds`, but at least MIN_ROUNDS and at most `rounds` rounds."""
    order, times = list(timers), {name: [] for name in timers}
    end = time.monotonic() + seconds
    for done in range(rounds):
        if done >= MIN_ROUNDS and time.monotonic() > end:
            break
        for name in order:
            times[name].append(timers[name]())
        order.append(order.pop(0))
    return times


def summary(times, flops):
    q1, median, q3 = statistics.quantiles(times, n=4, method="inclusive")
    return {"milliseconds": median, "q1": q1, "q3": q3, "tflops": flops / median / 1e9}


@functools.lru_cache
def normal_numbers(dtype):
    """PERIOD numbers as the device stores them."""
    source = random.Random(1)
    numbers = [source.gauss(0, 1) for _ in range(PERIOD)]
    if dtype == "f16":
        return struct.pack(f"<{PERIOD}e", *numbers)
    singles = struct.pack(f"<{PERIOD}f", *numbers)
    return singles if dtype == "f32" else array("H", singles)[1::2].tobytes()  # bf16: cut off


class Contest:
    """One row of sweep.py on a device; closed by `with`."""

    def __init__(self, device, row):
        self.device, self.row = device, row
        self.problem = device.library.problem(row.problem)
        self.plans, self.timers = {}, {}
        self.buffers, self.workspaces = {}, []

    def __enter__(self):
        size = self.row.elements * ELEMENT_SIZE[self.row.dtype]
        numbers = normal_numbers(self.row.dtype)
        content = (numbers * (size // len(numbers) + 1))[:size]
        for name in "qkvo":
            self.buffers[name] = self.device.allocate(size)
            self.device.write(self.buffers[name], content)
        return self

    def __exit__(self, *_):
        for plan in self.plans.values():
            plan.close()
        for buffer in [*self.buffers.values(), *self.workspaces]:
            self.device.free(buffer)

    def enter(self, name, **options):
        """A contestant: the plan that these options make."""
        plan = self.plans[name] = attune.Plan(self.device, self.problem, **options)
        self.workspaces.append(self.device.allocate(max(plan.workspace_size, 64)))
        self.timers[name] = plan.timer(**self.buffers, workspace=self.workspaces[-1])

    def race(self, seconds=RACE_SECONDS, rounds=MAX_ROUNDS, hopeless=float("inf")):
        """race(), after a round that does not count, in which those are left out that take `hopeless` times as long as the fastest."""
        first = {name: timer() for name, timer in self.timers.items()}
        fastest = min(first.values(), default=0)
        fit = {name: self.timers[name] for name in first if first[name] <= hopeless * fastest}
        return race(fit, seconds, rounds)
