"""What reproducible bits cost: the usual kernel, the reproducible one and, in the first row, `simt`, timed side by side in one process.

Prints one JSON object per row with the keys

    problem device
    contestants     name: {kernel milliseconds (median) q1 q3 tflops}, or {error}; names: usual, reproducible, simt
    ratio           milliseconds of reproducible / of usual: above 1, reproducible bits cost time

and no line for a row that the budget did not reach. Exit status 1 where usual or reproducible could not run.
"""

import json
import sys
import time

import attune
import sweep
from contest import Contest, command_line, summary, until

MODES = {"usual": {}, "reproducible": {"reproducible": True}}
CANONICAL = {"simt": {"engine": "simt"}}


def result_line(device, row, modes):
    errors = {}
    with Contest(device, row) as contest:
        for name, options in modes.items():
            try:
                contest.enter(name, **options)
            except attune.AttuneError as error:
                errors[name] = {"error": str(error)}
        times = contest.race()
        results = {
            name: {"kernel": contest.plans[name].kernel, **summary(of_name, row.flops)}
            for name, of_name in times.items()
        }
    line = {"problem": row.problem, "device": device.name, "contestants": results | errors}
    if not MODES.keys() & errors.keys():
        line["ratio"] = results["reproducible"]["milliseconds"] / results["usual"]["milliseconds"]
    return line


def main():
    arguments = command_line("reproducible against usual", sweep.MODES, budget=20).parse_args()
    deadline = time.monotonic() + arguments.budget
    device = attune.Device(attune.Library(arguments.library), arguments.device)
    good, modes = True, MODES | CANONICAL
    for row in until(deadline, sweep.MODES[arguments.sweep]()):
        line = result_line(device, row, modes)
        modes = MODES
        good = good and "ratio" in line
        print(json.dumps(line), flush=True)
    device.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
