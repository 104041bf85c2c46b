"""Joins what the steps of tools/gpu_session.sh left into results.jsonl and results.md.

    report.py --facts FILE --steps FILE --rows FILE --sweep NAME --out FOLDER

The facts are lines of a name, a tab and a value, the steps lines of a name, a tab, a result, a tab and seconds; the rows
are the lines of sdpa.py or alone.py. Of suite.log and same_bits.log in FOLDER, the tables and the last lines are shown.
results.jsonl has one object per line: {"facts": ...}, then {"step": ...}, then the rows in the order of the sweep. A row
of the sweep that has no line becomes one with status "not run".
"""

import argparse
import json
import re
from collections import Counter
from pathlib import Path

import sweep

RIVALS = ("flash", "cudnn", "efficient", "math")
LAST_LINES = re.compile(r"^(====|device  |cpu |cuda|FAIL|\d+ (failures|comparisons))")
MANY = 40  # lines of a log


def read_table(path):
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def read_rows(path, planned):
    lines = path.read_text().splitlines() if path.exists() else []
    done = {}
    for line in lines:
        try:
            row = json.loads(line)
            done[row["problem"]] = row
        except ValueError:
            continue  # cut off where time ran out
    return [done.get(row.problem, {"problem": row.problem, "status": "not run"}) for row in planned]


def time_cell(result):
    if result is None:
        return "–"
    if "error" in result:
        return "cannot"
    return "{milliseconds:.3f} ({q1:.3f}–{q3:.3f}), {tflops:.1f}".format(**result)


def number_cell(value, form):
    return "–" if value is None else format(value, form)


def table_line(row):
    times = row.get("contestants", {})
    cells = [f"`{row['problem']}`", row["status"]]
    cells += [time_cell(times.get(name)) for name in ("attune", *RIVALS)]
    cells.append(number_cell(row.get("ratio"), ".3f"))
    cells.append(number_cell(row.get("max_abs_diff"), ".2g"))
    cells.append(f"`{row['kernel']}`" if row.get("kernel") else "–")
    return "| " + " | ".join(cells) + " |"


def table(rows):
    head = ["problem", "status", "attune", *RIVALS, "ratio", "max diff", "kernel"]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *map(table_line, rows)]


def errors(rows):
    """Each reason why a contestant could not run, once."""
    reasons = {}
    for row in rows:
        for name, result in row.get("contestants", {}).items():
            if "error" in result:
                reasons.setdefault((name, result["error"]), row["problem"])
    return [f"- {name}, first in `{problem}`: {why}" for (name, why), problem in reasons.items()]


def last_lines(log):
    if not log.exists():
        return ["not run"]
    lines = log.read_text(errors="replace").splitlines()
    return ["```", *[line for line in lines if LAST_LINES.match(line)][-MANY:], "```"]


def markdown(facts, steps, rows, out):
    counts = Counter(row["status"] for row in rows)
    lines = ["# A session on a GPU", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    lines += ["", "| step | result | seconds |", "|---|---|---|"]
    lines += [f"| {name} | {result} | {seconds} |" for name, result, seconds in steps]
    for name in ("suite", "same_bits"):
        lines += ["", f"## {name}", "", *last_lines(out / f"{name}.log")]
    lines += [
        "",
        "## Times",
        "",
        ", ".join(f"{count} rows {status}" for status, count in counts.items()),
        "",
        "Milliseconds: median (first to third quartile), then TFLOP/s with the exact number of unmasked pairs."
        " Packed (batch, seq, head, dim) for all. ratio: milliseconds of PyTorch's fastest / of Attune; above 1,"
        " Attune is faster.",
        "",
        *table(rows),
        "",
        *errors(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description="results.jsonl and results.md of a session")
    for name in ("facts", "steps", "rows", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--sweep", choices=sweep.SWEEPS, required=True)
    arguments = parser.parse_args()
    facts = dict(read_table(arguments.facts))
    steps = read_table(arguments.steps)
    rows = read_rows(arguments.rows, sweep.SWEEPS[arguments.sweep]())
    objects = [{"facts": facts}]
    objects += [{"step": n, "result": r, "seconds": int(s)} for n, r, s in steps]
    lines = [json.dumps(line) + "\n" for line in objects + rows]
    (arguments.out / "results.jsonl").write_text("".join(lines))
    (arguments.out / "results.md").write_text(markdown(facts, steps, rows, arguments.out))


if __name__ == "__main__":
    main()
