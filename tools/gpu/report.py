"""Joins what the steps of tools/gpu_session.sh left into results.jsonl, results.md and, after the step tiles, tuned.tsv.

    report.py --work FOLDER --sweep NAME --out FOLDER

In the folder of work: `facts`, lines of a name, a tab and a value; `steps`, lines of a name, a tab, a result, a tab and seconds; STEP.log, the output of
each step; STEP.rows, the JSON lines of units.py, modes.py, sdpa.py or alone.py (step bench) and tiles.py. results.jsonl has one object per line:
{"facts": ...}, then {"step": ...}, then {STEP: row} for each row of the others and the rows of bench as they are, in the order of the sweep. A
row of the sweep that has no line becomes one with status "not run".
"""

import argparse
import json
import math
import re
import statistics
from collections import Counter
from pathlib import Path

import sweep
import tiles
import units

RIVALS = {
    "flash": "FlashAttention-2",
    "cudnn": "cuDNN",
    "efficient": "memory-efficient",
    "math": "math",
}
MANY = 40  # lines of a log

# ---- reading ----


def read_table(path):
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def read_rows(path):
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue  # cut off where time ran out
    return rows


def of_sweep(rows, planned):
    done = {row["problem"]: row for row in rows}
    return [done.get(row.problem, {"problem": row.problem, "status": "not run"}) for row in planned]


def read_log(path):
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def plain_device(text):
    """What `attune devices --json` says of a device, in words."""
    device = json.loads(text)
    words = f"{device['name']} ({device['platform']}, driver {device['driver']})"
    if device["reason"]:
        return f"{words}: not usable, {device['reason']}"
    return (
        f"{words}: {device['compute_units']} compute units, {device['global_memory'] / 2**30:.1f} GiB of memory,"
        f" {device['fast_memory'] // 1024} KiB of fast memory for a work-group"
    )


# ---- Markdown ----


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def fenced(lines):
    return ["```", *lines, "```"]


def time_cell(result):
    if result is None:
        return "–"
    if "error" in result:
        return "cannot"
    return "{milliseconds:.3f} ({q1:.3f}–{q3:.3f}), {tflops:.1f}".format(**result)


def number_cell(value, form=".3f"):
    return "–" if value is None else format(value, form)


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def errors(rows):
    """Each reason why a contestant could not run, once."""
    reasons = {}
    for row in rows:
        for name, result in row.get("contestants", {}).items():
            if "error" in result:
                reasons.setdefault((name, result["error"]), row["problem"])
    return [f"- {name}, first in `{problem}`: {why}" for (name, why), problem in reasons.items()]


# ---- the steps ----

SUITE_HEAD = "cases PASS MARGINAL MISTRUSTED FAIL SKIPPED differ may ratio lse".split()
SUITE_ROW = re.compile(r"(\S+) +(f32|f16|bf16)((?: +\d+){8}) +(\S+) +(\S+)$")


def suite_tables(log):
    """{(run, device): figures} of a log, in which a line "==== RUN" goes before the output of each shard of a run."""
    sums, run = {}, ""
    for line in log:
        if line.startswith("==== "):
            run = line.removeprefix("==== ")
        elif row := SUITE_ROW.match(line):
            counts = list(map(int, row[3].split()))
            ratios = [float(value) if value != "-" else 0.0 for value in (row[4], row[5])]
            old_counts, old_ratios = sums.get((run, row[1]), ([0] * 8, [0.0] * 2))
            sums[run, row[1]] = (
                [a + b for a, b in zip(old_counts, counts)],
                list(map(max, old_ratios, ratios)),
            )
    return sums


def suite_section(work):
    log = read_log(work / "suite.log")
    rows = [
        [run, device, *counts, *(f"{ratio:.3g}" for ratio in ratios)]
        for (run, device), (counts, ratios) in suite_tables(log).items()
    ]
    failures = [line for line in log if line.startswith("FAIL")]
    return [
        "Every run of a kernel is judged against the oracle, and against the cpu bit for bit. FAIL and differ are failures; differ: other bits where the"
        " same are promised; may: other bits where nothing is promised; ratio, lse: the largest error over its bound. `suite --help` says it"
        " at length.",
        "",
        *table(["run", "device", *SUITE_HEAD], rows),
        *([""] + fenced(failures[:MANY]) if failures else []),
    ]


SAME_BITS_LINE = re.compile(r"====|FAIL|\d+ comparisons")


def same_bits_section(work):
    log = read_log(work / "same_bits.log")
    return fenced([line for line in log if SAME_BITS_LINE.match(line)][-MANY:])


def exp2_section(work):
    return fenced(read_log(work / "exp2.log")[-MANY:])


def units_section(rows, work):
    sums = units.totals(rows)
    models = sorted({model for _, differ in sums.values() for model in differ})
    cells = [
        [dtype, elements, *(differ[model] for model in models)]
        for dtype, (elements, differ) in sums.items()
    ]
    skipped = [line for line in read_log(work / "units.log") if line.startswith("SKIPPED")]
    failed = [
        f"- `{row['problem']}`, {row['fill']}: {row['error']}" for row in rows if "error" in row
    ]
    return [
        *skipped,
        *(f"- {sentence}" for sentence in units.sentences(rows)),
        *failed,
        "",
        "Elements of o that differ from those of each emulated model of a matrix unit, reproducible kernels:",
        "",
        *table(["dtype", "elements", *models], cells),
    ]


def modes_section(rows):
    cells = []
    for row in rows:
        times = row["contestants"]
        names = ("usual", "reproducible", "simt")
        kernels = [
            f"`{times[name]['kernel']}`" for name in names if "kernel" in times.get(name, {})
        ]
        cells.append(
            [f"`{row['problem']}`"]
            + [time_cell(times.get(name)) for name in names]
            + [number_cell(row.get("ratio")), ", ".join(kernels)]
        )
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    mean = f" Their geometric mean: {geometric_mean(ratios):.3f}." if ratios else ""
    return [
        f"ratio: milliseconds of reproducible / of usual; above 1, reproducible bits cost time.{mean}",
        "",
        *table(["problem", "usual", "reproducible", "simt", "ratio", "kernels"], cells),
        "",
        *errors(rows),
    ]


def tiles_section(rows):
    cells = [
        [
            f"`{row['problem']}`",
            f"`{row['kernel']}`",
            f"{row['times'][row['kernel']]:.3f}, {row['tflops']:.1f}",
            f"`{row['tuned']}`",
            number_cell(row["times"].get(row["tuned"])),
            number_cell(row["ratio"]),
            f"{len(row['times'])}, {row['hopeless']}, {row['untried']}",
        ]
        for row in rows
    ]
    head = [
        "problem",
        "best kernel",
        "ms, TFLOP/s",
        "tuned now",
        "ms",
        "ratio",
        "timed, hopeless, untried",
    ]
    return [
        "ratio: milliseconds of the kernel that a plan chooses now / of the best. Lines for backends/*/tuned.tsv, if this is to decide (also in tuned.tsv"
        " here):",
        "",
        *fenced(tiles.proposals(rows)),
        "",
        *table(head, cells),
    ]


def against_rivals(rows):
    """Geometric means over the lengths of what PyTorch's back ends take / what Attune takes."""
    groups = {}
    for row, planned in rows:
        if row.get("ratios"):
            key = planned.dtype, planned.head_dim, "causal" if planned.causal else "none"
            groups.setdefault(key, []).append(row["ratios"])
    lines = []
    for key, ratios in sorted(groups.items()):
        of_rival = [[r[name] for r in ratios if name in r] for name in RIVALS]
        means = [geometric_mean(values) if values else None for values in of_rival]
        lines.append([*key, len(ratios), *map(number_cell, means)])
    if not lines:
        return []
    return [
        "Milliseconds of a back end of PyTorch / of Attune, geometric mean over the lengths; above 1, Attune is faster:",
        "",
        *table(["dtype", "head_dim", "mask", "rows", *RIVALS.values()], lines),
        "",
    ]


def bench_section(rows, planned):
    counts = Counter(row["status"] for row in rows)
    cells = []
    for row in rows:
        times, ratios = row.get("contestants", {}), row.get("ratios", {})
        cells.append(
            [f"`{row['problem']}`", row["status"]]
            + [time_cell(times.get(name)) for name in ("attune", *RIVALS)]
            + [number_cell(ratios.get(name)) for name in RIVALS]
            + [number_cell(row.get("ratio")), number_cell(row.get("max_abs_diff"), ".2g")]
            + [f"`{row['kernel']}`" if row.get("kernel") else "–"]
        )
    head = ["problem", "status", "Attune", *RIVALS.values()]
    head += [f"ratio to {name}" for name in RIVALS.values()]
    head += ["to the fastest", "max diff", "kernel"]
    return [
        ", ".join(f"{count} rows {status}" for status, count in counts.items()),
        "",
        *against_rivals(zip(rows, planned)),
        "Milliseconds: median (first to third quartile), then TFLOP/s with the exact number of unmasked pairs."
        " Packed (batch, seq, head, dim) for all. Ratios: milliseconds of PyTorch's back end / of Attune; above 1,"
        " Attune is faster.",
        "",
        *table(head, cells),
        "",
        *errors(rows),
    ]


def markdown(facts, steps, rows, planned, work):
    sections = {
        "suite": suite_section(work),
        "same_bits": same_bits_section(work),
        "exp2": exp2_section(work),
        "units": units_section(rows["units"], work),
        "modes": modes_section(rows["modes"]),
        "bench": bench_section(rows["bench"], planned),
        "tiles": tiles_section(rows["tiles"]),
    }
    lines = ["# A session on a GPU", "", *table(["", ""], facts.items())]
    lines += ["", *table(["step", "result", "seconds"], steps)]
    ran = {step for step, *_ in steps}
    for name, section in sections.items():
        if name in ran:
            lines += ["", f"## {name}", "", *section]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description="results.jsonl and results.md of a session")
    for name in ("work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--sweep", choices=sweep.SWEEPS, required=True)
    arguments = parser.parse_args()
    work, out = arguments.work, arguments.out
    facts = dict(read_table(work / "facts"))
    if "device" in facts:
        facts["device"] = plain_device(facts["device"])
    steps = read_table(work / "steps")
    planned = sweep.SWEEPS[arguments.sweep]()
    rows = {name: read_rows(work / f"{name}.rows") for name in ("units", "modes", "bench", "tiles")}
    rows["bench"] = of_sweep(rows["bench"], planned)

    objects = [{"facts": facts}]
    objects += [{"step": n, "result": r, "seconds": int(s)} for n, r, s in steps]
    objects += [{name: row} for name in ("units", "modes", "tiles") for row in rows[name]]
    objects += rows["bench"]
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in objects))
    (out / "results.md").write_text(markdown(facts, steps, rows, planned, work))
    if rows["tiles"]:
        lines = tiles.proposals(rows["tiles"])
        (out / "tuned.tsv").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
