"""Times Attune alone on the rows of sweep.py, by `attune bench`. Prints lines like those of sdpa.py, without the keys of a comparison: no output is judged."""

import argparse
import json
import subprocess
import sys
import time

import sweep


def result_line(command, device, row):
    bench = [command, "bench", "--json", "--device", device, "--problem", row.problem]
    begin = time.perf_counter()
    done = subprocess.run(bench, capture_output=True, text=True)
    line = {"device": device, "problem": row.problem, "kernel": None, "status": "failed"}
    if done.returncode == 0:
        bench = json.loads(done.stdout)
        times = {
            "milliseconds": bench["milliseconds"],
            "q1": bench["milliseconds_q1"],
            "q3": bench["milliseconds_q3"],
            "tflops": row.flops / bench["milliseconds"] / 1e9,
        }
        line |= {"status": "timed", "kernel": bench["kernel"], "rounds": bench["runs"]}
    else:
        times = {"error": done.stderr.strip() or f"exit status {done.returncode}"}
    line["contestants"] = {"attune": times}
    return line | {"seconds": round(time.perf_counter() - begin, 2)}


def main():
    parser = argparse.ArgumentParser(description="Attune alone")
    parser.add_argument("--command", required=True, help="path of the attune command")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--sweep", choices=sweep.SWEEPS, default="standard")
    parser.add_argument("--budget", type=float, default=100, metavar="SECONDS")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.budget
    failed = 0
    for row in sweep.SWEEPS[arguments.sweep]():
        if time.monotonic() > deadline:
            break
        line = result_line(arguments.command, arguments.device, row)
        failed += line["status"] == "failed"
        print(json.dumps(line), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
