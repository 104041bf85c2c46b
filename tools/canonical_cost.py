#!/usr/bin/env python3
"""What the canonical arithmetic costs: the vector engine as it is against the usual online softmax, on one core.

The usual form keeps the row's true max (no rounding up to an integer) and takes p = exp2(fma(a, c, -m)), so its bits depend on the tile.
It exists only here, as replacements in a copy of the templates. Both forms are built, then timed in turn; medians and the median of the
pairwise ratios are printed.

usage: canonical_cost.py BUILD_FOLDER [rounds]
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPLACEMENTS = {
    "engine/vector.j2": [
        ("c * LANES, vec_mul(sum[r][c], scale));", "c * LANES, sum[r][c]);"),
        ("    const vec scale = vec_set(args->scale_log2);\n", ""),
        (
            "rows_update(row_state *rows, const score_tile *s, const tensors *t)",
            "rows_update(row_state *rows, const score_tile *s, float scale)",
        ),
        ("ceil_f32(vec_max_lanes(top))", "vec_max_lanes(top) * scale"),
        (
            "exp2_integer(rows->m[r] - finite_max(m));",
            "weight(rows->m[r] - finite_max(m), 0.0f);",
        ),
        (
            "scores_exponentiate(score_tile *s, row_state *rows, const tensors *t)",
            "scores_exponentiate(score_tile *s, row_state *rows, float scale)",
        ),
        ("vec m = vec_set(finite_max(rows->m[r])),", "vec m = vec_set(-finite_max(rows->m[r])),"),
        (
            "const vec score = vec_load(s->at[r] + j + c * LANES),",
            "const vec score = vec_fma(vec_load(s->at[r] + j + c * LANES), vec_set(scale), m),",
        ),
        ("vec_sub(n, m));", "n);"),
    ],
    "forward.j2": [
        ("rows_update(&rows, &s, t);", "rows_update(&rows, &s, args->scale_log2);"),
        ("scores_exponentiate(&s, &rows, t);", "scores_exponentiate(&s, &rows, args->scale_log2);"),
    ],
}


def usual_templates(folder):
    """A copy of the templates in which the usual form is spelled."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "templates", folder)
    for name, pairs in REPLACEMENTS.items():
        path = folder / name
        text = path.read_text("utf-8")
        for old, new in pairs:
            if text.count(old) != 1:
                sys.exit(f"{name} holds '{old}' {text.count(old)} times, not once")
            text = text.replace(old, new)
        path.write_text(text, "utf-8")


def build(folder, templates):
    """The attune command made from those templates."""
    configure = ["cmake", "-S", ROOT, "-B", folder, "-DATTUNE_BUILD_TESTS=OFF"]
    configure += [f"-DATTUNE_TEMPLATES_DIR={templates}", f"-DPython3_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    compile_ = ["cmake", "--build", folder, "--target", "attune_command", "-j", str(os.cpu_count())]
    subprocess.run(compile_, check=True, stdout=subprocess.DEVNULL)
    return folder / "bin" / "attune"


def bench(command, problem):
    """Milliseconds of one measurement on one core, and the share of its FMA peak."""
    arguments = [command, "bench", "--problem", problem, "--device", "cpu", "--threads", "1"]
    out = subprocess.run([*arguments, "--json"], check=True, capture_output=True, text=True).stdout
    row = json.loads(out)
    return row["milliseconds"], row["peak_share"], row["kernel"]


def main():
    """Prints one line per problem."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    usual_templates(folder / "templates")
    canonical = build(folder / "canonical", ROOT / "templates")
    usual = build(folder / "usual", folder / "templates")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for dim in (64, 128):
        problem = f"op=forward,b=1,hq=4,hkv=4,sq=2048,sk=2048,d={dim},dtype=f32"
        rows = [(bench(canonical, problem), bench(usual, problem)) for _ in range(rounds)]
        times = [statistics.median(row[form][0] for row in rows) for form in (0, 1)]
        ratio = statistics.median(row[0][0] / row[1][0] for row in rows)
        share = statistics.median(row[0][1] for row in rows)
        print(
            f"{problem}  {rows[0][0][2]}  canonical {times[0]:.2f} ms ({100 * share:.1f} % of the FMA"
            f" peak), usual {times[1]:.2f} ms, ratio {ratio:.3f} (median of {rounds} pairs)"
        )


if __name__ == "__main__":
    main()
