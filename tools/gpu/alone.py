"""Times Attune alone on the rows of sweep.py. Prints lines like those of sdpa.py, without the keys of a comparison: no output is judged."""

import json
import sys
import time

import attune
import sweep
from contest import Contest, command_line, summary, until


def result_line(device, row):
    begin = time.perf_counter()
    line = {"device": device.name, "problem": row.problem, "kernel": None}
    try:
        with Contest(device, row) as contest:
            contest.enter("attune")
            line["kernel"] = contest.plans["attune"].kernel
            times = contest.race()["attune"]
        result = summary(times, row.flops)
        line |= {"status": "timed", "rounds": len(times), "contestants": {"attune": result}}
    except attune.AttuneError as error:
        line |= {"status": "failed", "contestants": {"attune": {"error": str(error)}}}
    return line | {"seconds": round(time.perf_counter() - begin, 2)}


def main():
    arguments = command_line("Attune alone", sweep.SWEEPS, budget=100).parse_args()
    deadline = time.monotonic() + arguments.budget
    device = attune.Device(attune.Library(arguments.library), arguments.device)
    failed = 0
    for row in until(deadline, sweep.SWEEPS[arguments.sweep]()):
        line = result_line(device, row)
        failed += line["status"] == "failed"
        print(json.dumps(line), flush=True)
    device.close()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
