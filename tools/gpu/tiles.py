"""Finds the best tiles: times every kernel of the preferred engine on the rows of sweep.py that are for this, side by side in one process.

Kernels that the library does not hold are compiled first, by as many processes as there are processors, into $ATTUNE_CACHE; those that half of the budget
did not reach are not tried. Usual and reproducible kernels are two contests. Prints one JSON object per row and contest with the keys

    problem device device_class dtype head_dim seqlen causal reproducible
    kernel tflops times     the fastest; and milliseconds of each that was tried and is not hopeless, its id: median
    tuned ratio             the one that a plan chooses now; its milliseconds / those of the fastest, null where it was hopeless or could not be built
    hopeless untried        how many took twice as long as the fastest; how many were not compiled, the reasons in `errors`

and no line for a row that the budget did not reach. Exit status 1 where nothing could be timed.
"""

import concurrent.futures
import itertools
import json
import math
import multiprocessing
import os
import statistics
import sys
import time

import attune
import sweep
from contest import Contest, command_line, until

RACE_SECONDS, MAX_ROUNDS, HOPELESS = 0.35, 9, 2.0
COMPILING = 0.5  # of the budget
# A kernel for all lengths is, if it takes at most so much longer than the best for each.
GOOD_ENOUGH = 1.02

# ---- compiling ----

worker = None  # the device of a process that compiles


def open_worker(library, device):
    global worker
    worker = attune.Device(attune.Library(library), device)


def compile_kernel(problem, kernel):
    """None, or why not. What was compiled stays in the cache."""
    try:
        attune.Plan(worker, worker.library.problem(problem), kernel=kernel).close()
    except attune.AttuneError as error:
        return str(error)


def compile_all(arguments, wanted, deadline):
    """`wanted`: {kernel: problem}, the most wanted first. Returns (ids that can be used, reasons of the others)."""
    pool = concurrent.futures.ProcessPoolExecutor(
        max_workers=min(len(wanted), len(os.sched_getaffinity(0))),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=open_worker,
        initargs=(arguments.library, arguments.device),
    )
    with pool:
        futures = {pool.submit(compile_kernel, wanted[kernel], kernel): kernel for kernel in wanted}
        concurrent.futures.wait(futures, timeout=deadline - time.monotonic())
        pool.shutdown(cancel_futures=True)
    usable, errors = set(), {}
    for future, kernel in futures.items():
        why = "the budget ended before" if future.cancelled() else future.result()
        if why is None:
            usable.add(kernel)
        else:
            errors[kernel] = why
    return usable, errors


# ---- timing ----


def candidates(device, row, most):
    """{reproducible: [id]} of the engine that a plan chooses; the first is the one that it chooses."""
    kernels = device.kernels(device.library.problem(row.problem))
    exact = [kernel for kernel in kernels if f"_d{row.head_dim}_" in kernel.id]
    same = [kernel for kernel in exact if kernel.engine == kernels[0].engine]
    by_mode = {mode: [k.id for k in same if k.reproducible == mode] for mode in (False, True)}
    return {mode: ids[:most] for mode, ids in by_mode.items() if ids}


def result_line(device, row, reproducible, ids, usable):
    with Contest(device, row) as contest:
        for kernel in ids:
            if kernel in usable:
                contest.enter(kernel, kernel=kernel)
        raced = contest.race(RACE_SECONDS, MAX_ROUNDS, HOPELESS)
        entered = len(contest.plans)
    times = {kernel: statistics.median(of_kernel) for kernel, of_kernel in raced.items()}
    best = min(times, key=times.get)
    return {
        "problem": row.problem,
        "device": device.name,
        "dtype": row.dtype,
        "head_dim": row.head_dim,
        "seqlen": row.seqlen,
        "causal": row.causal,
        "reproducible": reproducible,
        "kernel": best,
        "tflops": row.flops / times[best] / 1e9,
        "times": times,
        "tuned": ids[0],
        "ratio": times[ids[0]] / times[best] if ids[0] in times else None,
        "hopeless": entered - len(times),
        "untried": len(ids) - entered,
    }


# ---- what follows for tuned.tsv ----


def slowness(rows):
    """{kernel: how much slower than the best, the mean over these rows}, of those that were timed in all of them."""
    everywhere = set.intersection(*(set(row["times"]) for row in rows))

    def mean(kernel):
        logs = [math.log(row["times"][kernel] / min(row["times"].values())) for row in rows]
        return math.exp(statistics.fmean(logs))

    return {kernel: mean(kernel) for kernel in everywhere}


def choices(rows):
    """{seqlen: kernel} for the rows of one mode: the same for all lengths where one is good enough."""
    lengths = sorted({row["seqlen"] for row in rows})
    at = {length: slowness([r for r in rows if r["seqlen"] == length]) for length in lengths}
    everywhere = set.intersection(*map(set, at.values()))
    worst = {kernel: max(at[length][kernel] for length in lengths) for kernel in everywhere}
    best = min(worst, key=worst.get, default=None)
    if best is not None and worst[best] <= GOOD_ENOUGH:
        return dict.fromkeys(lengths, best)
    return {length: min(at[length], key=at[length].get) for length in lengths if at[length]}


def proposals(rows):
    """Lines of tuned.tsv: for each dtype and head_dim a usual and a reproducible kernel, for all lengths or up to each that was timed."""

    def place(row):
        return attune.DTYPES.index(row["dtype"]), row["head_dim"]

    lines = []
    for _, group in itertools.groupby(sorted(rows, key=place), key=place):
        group = list(group)
        modes = [[row for row in group if row["reproducible"] == mode] for mode in (False, True)]
        chosen = [choices(mode) for mode in modes if mode]
        lengths = sorted(set.intersection(*map(set, chosen)))
        for number, length in enumerate(lengths):
            kernels = [choice[length] for choice in chosen]
            last = number + 1 == len(lengths)
            if not last and kernels == [choice[lengths[number + 1]] for choice in chosen]:
                continue
            first = group[0]
            fields = [first["device_class"], "forward", first["dtype"], str(first["head_dim"])]
            fields.append("*" if last else str(length))
            lines += ["\t".join([*fields, kernel]) for kernel in kernels]
    return lines


def main():
    parser = command_line("the best tiles", sweep.TILES, budget=60)
    parser.add_argument("--device-class", default="*", help="as in tuned.tsv")
    parser.add_argument("--most", type=int, help="kernels of each contest; default: all")
    arguments = parser.parse_args()
    begin = time.monotonic()
    device = attune.Device(attune.Library(arguments.library), arguments.device)

    contests = []
    for row in sweep.TILES[arguments.sweep]():
        for reproducible, ids in candidates(device, row, arguments.most).items():
            contests.append((row, reproducible, ids))
    contests.sort(key=lambda contest: contest[1])  # usual kernels first
    wanted = {}
    for row, _, ids in contests:
        for kernel in ids:
            wanted.setdefault(kernel, row.problem)
    usable, errors = compile_all(arguments, wanted, begin + COMPILING * arguments.budget)
    print(f"{len(usable)} of {len(wanted)} kernels can be used", file=sys.stderr)
    for kernel, why in errors.items():
        print(f"{kernel}: {why}", file=sys.stderr)

    timed = 0
    for row, reproducible, ids in until(begin + arguments.budget, contests):
        if usable.isdisjoint(ids):
            continue
        line = result_line(device, row, reproducible, ids, usable)
        line["device_class"] = arguments.device_class
        timed += 1
        print(json.dumps(line), flush=True)
    device.close()
    return 0 if timed else 1


if __name__ == "__main__":
    sys.exit(main())
