"""Says how a device's matrix unit adds, in each type that it takes: compares the bits of its reproducible kernels with those on each emulated model of a unit.

Each case is one `attune compare` of the device and all models. Prints one JSON object per case with the keys

    problem fill dtype elements     elements of o and lse
    differ                          emulated device: how many elements differ

and at the end, on stderr, which model differs least for each dtype. Exit status 1 where a case failed (an error, a difference beyond the bounds of
both, or any difference from the model of --expect), 77 without emulated devices or without a matrix unit.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import time

import attune

SIZES = (  # b, hq, hkv, sq, sk, d, mask
    (1, 2, 1, 128, 512, 64, "none"),
    (1, 2, 2, 100, 333, 128, "causal"),
)
TINY_SIZES = ((1, 1, 1, 33, 70, 32, "causal"), (1, 1, 1, 33, 70, 64, "causal"))
FILLS = ("normal", "outlier", "offset")
VENDORS = {
    "cuda": "nvidia",
    "hip": "amd",
}  # whose models of a unit a device of the backend is compared with; all where it is another
SKIPPED = 77
CASE_SECONDS = 60  # at most


def run_attune(command, *arguments, seconds=CASE_SECONDS):
    """The finished process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [command, *arguments], capture_output=True, text=True, timeout=seconds, env=environment
    )


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def models(command, device):
    """Ids of the emulated devices of the same vendor."""
    vendor = VENDORS.get(device.split(":")[0], "")
    found = objects(run_attune(command, "devices", "--json").stdout)
    emulated = [
        row["device"] for row in found if row["backend"] == "emulated" and not row["reason"]
    ]
    return [model for model in emulated if model.startswith(f"emulated:{vendor}")]


def cases(dtypes, rehearsal):
    for dtype in dtypes:
        for b, hq, hkv, sq, sk, d, mask in TINY_SIZES if rehearsal else SIZES:
            for fill in FILLS[:1] if rehearsal else FILLS:
                problem = f"op=forward,b={b},hq={hq},hkv={hkv},sq={sq},sk={sk},d={d},dtype={dtype},mask={mask}"
                yield {
                    "problem": problem,
                    "fill": fill,
                    "dtype": dtype,
                    "elements": b * hq * sq * (d + 1),
                }


def compare(arguments, emulated, case, deadline):
    """The case with "differ", or with "error"; None where the budget is over."""
    seconds = deadline - time.monotonic()
    if seconds < 1:
        return None
    devices = ",".join([arguments.device, *emulated])
    try:
        done = run_attune(
            arguments.command,
            *("compare", "--json", "--devices", devices, "--engine", "matrix", "--reproducible"),
            *("--problem", case["problem"], "--fill", case["fill"]),
            seconds=seconds,
        )
    except subprocess.TimeoutExpired:
        return None
    rows = objects(done.stdout)
    pairs = [row for row in rows if row["against"] and row["device"] == arguments.device]
    differ = {row["against"]: row["differ"] for row in pairs}
    if done.returncode == 0 and differ.keys() == set(emulated):
        return case | {"differ": differ}
    reasons = [f"{row['device']}: {row['reason']}" for row in rows if row["reason"]]
    beyond = [
        f"{row['device']} and {row['against']} differ by more than their bounds"
        for row in pairs
        if row["verdict"] == "FAIL"
    ]
    return case | {"error": "; ".join(reasons + beyond) or done.stderr.strip()}


def totals(rows):
    """{dtype: (elements, Counter of model: elements that differ)} of the cases that were compared."""
    sums = {}
    for row in rows:
        if "differ" in row:
            elements, differ = sums.get(row["dtype"], (0, collections.Counter()))
            differ.update(row["differ"])
            sums[row["dtype"]] = elements + row["elements"], differ
    return sums


def sentences(rows):
    for dtype, (elements, differ) in totals(rows).items():
        least = min(differ.values())
        nearest = [model for model, count in differ.items() if count == least]
        yield f"{dtype}: nearest to {' and '.join(nearest)} ({least} of {elements} elements differ)"


def main():
    parser = argparse.ArgumentParser(description="which model of a matrix unit the device is")
    parser.add_argument("--command", required=True, help="path of the attune command")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rehearsal", action="store_true", help="few tiny cases")
    parser.add_argument("--expect", metavar="MODEL", help="the model whose bits it must have")
    parser.add_argument("--budget", type=float, default=20, metavar="SECONDS")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.budget
    emulated = models(arguments.command, arguments.device)
    if arguments.expect and emulated and arguments.expect not in emulated:
        parser.error(f"--expect: no model '{arguments.expect}'; there are {', '.join(emulated)}")
    if not emulated:
        print("SKIPPED: this build emulates no device", file=sys.stderr)
        return SKIPPED
    kernels = ("kernels", "--device", arguments.device, "--engine", "matrix", "--reproducible")
    listed = run_attune(arguments.command, *kernels)
    if listed.returncode != 0:
        print(f"FAIL: {listed.stderr.strip()}", file=sys.stderr)
        return 1
    if not listed.stdout:
        print(f"SKIPPED: {arguments.device} has no matrix unit", file=sys.stderr)
        return SKIPPED
    dtypes = [dtype for dtype in attune.DTYPES if f"forward_{dtype}_" in listed.stdout]

    rows = []
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        todo = [
            pool.submit(compare, arguments, emulated, case, deadline)
            for case in cases(dtypes, arguments.rehearsal)
        ]
        for future in concurrent.futures.as_completed(todo):
            if (row := future.result()) is not None:
                rows.append(row)
                print(json.dumps(row), flush=True)
    print(*sentences(rows), sep="\n", file=sys.stderr)
    wrong = [row for row in rows if "error" in row or row["differ"].get(arguments.expect)]
    return 0 if rows and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
