#!/usr/bin/env python3
"""What tuning gained: for each problem the plan's choice in turns with the default, as a Markdown table.

usage: tuned_gain.py --command build/default/bin/attune --device ID [--db FILE] [--problem-file F] [--rounds N] [--threads N]

Each problem is benched N times (default 3), the rounds one after another, and the median of the ratios is shown with the least and the largest.
Exit status 1 where a choice is slower than its default: a median ratio below 0.97, the 3 % by which a winner has to win.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SLOWER = 0.97


def bench(options, problem):
    """The row of one `attune bench --against-default`."""
    command = [options.command, "bench", "--device", options.device, "--against-default", "--json"]
    command += ["--problem", problem]
    if options.threads:
        command += ["--threads", options.threads]
    environment = dict(os.environ)
    if options.db:
        environment["ATTUNE_DB"] = options.db
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def problems_of(path):
    """Lines without comments."""
    lines = (line.split("#")[0].strip() for line in path.read_text("utf-8").splitlines())
    return [line for line in lines if line]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--command", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--db")
    parser.add_argument("--threads")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--problem-file", type=pathlib.Path, default=ROOT / "tests/problems/perf.txt"
    )
    options = parser.parse_args()
    problems = problems_of(options.problem_file)
    rounds = [[bench(options, problem) for problem in problems] for _ in range(options.rounds)]
    slower = 0
    print("| problem | default | ms | choice | ms | default / choice |\n|---|---|---|---|---|---|")
    for problem, *rows in zip(problems, *rounds):
        ratios = [row["default_milliseconds"] / row["milliseconds"] for row in rows]
        ratio, row = statistics.median(ratios), rows[0]
        same = row["kernel"] == row["default_kernel"]
        times = [
            f"{statistics.median(r[key] for r in rows):.4g}"
            for key in ("default_milliseconds", "milliseconds")
        ]
        choice = "the default" if same else f"`{row['kernel']}`"
        print(
            f"| `{problem}` | `{row['default_kernel']}` | {times[0]} | {choice} | {times[1]} "
            f"| {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |"
        )
        slower += ratio < SLOWER and not same
    print(f"\n{len(problems)} problems, {slower} slower than the default")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
