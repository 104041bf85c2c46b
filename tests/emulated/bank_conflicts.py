"""The key loop of AMD's matrix kernels is free of bank conflicts in the LDS: every tuned one of the emulated device, in both ways into a tile (16 bytes
at once, and gathered). usage: bank_conflicts.py ATTUNE BACKENDS, the command and the folder of the tuned.tsv of all targets."""

import csv
import os
import pathlib
import re
import subprocess
import sys

DEVICES = {1: "amd", 2: "amd", 3: "amd-rdna3", 4: "amd-rdna4"}
ONCE = "output_store"  # what is not of the loop
LOOP = {
    "row_operand in scores_multiply",
    "value_word in value_operand in output_accumulate",
    "tile_land in ring_land in ring_advance in keys_stage",
    "tile_land in ring_land in ring_advance in values_stage",
    "tile_copy in ring_fill in ring_advance in keys_stage",
    "tile_copy in ring_fill in ring_advance in values_stage",
}


def kernels(table):
    """{kernel: (unit, head_dim)} of the rows whose unit is AMD's."""
    with open(table, newline="", encoding="utf-8") as file:
        ids = {row["kernel"] for row in csv.DictReader(file, delimiter="\t")}
    found = {}
    for kernel in sorted(ids):
        match = re.fullmatch(r"forward_\w+_d(\d+)_matrix_\w+u([1-4])", kernel)
        if match:
            found[kernel] = (int(match[2]), int(match[1]))
    return found


def places(attune, kernel, unit, head_dim):
    """(functions, width and verb, passes, least) of each line of the kernel that reads or writes the LDS."""
    problem = "op=forward,b=1,hq=1,hkv=1,sq=70,sk=150,mask=causal"
    dtype = kernel.split("_")[1]
    words = [attune, "compare", "--devices", f"emulated:{DEVICES[unit]}", "--kernel", kernel]
    for dims in (head_dim, head_dim - 1):
        words += ["--problem", f"{problem},d={dims},dtype={dtype}"]
    run = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "ATTUNE_EMULATED": "conflicts"}
    )
    if run.returncode != 0:
        sys.exit(f"{kernel}: {run.stdout}{run.stderr}")
    rows = [line.split("\t") for line in run.stderr.splitlines() if line.startswith("lds\t")]
    for _, _, place, verb, width, _, passes, least in rows[1:]:
        functions = re.search(r"\((.*) in forward\)", place)
        yield functions[1] if functions else place, f"{verb} {width}", int(passes), int(least)


def main():
    attune, backends = sys.argv[1], pathlib.Path(sys.argv[2])
    emulated = kernels(backends / "emulated" / "tuned.tsv")
    missing = set(kernels(backends / "hip" / "tuned.tsv").values()) - set(emulated.values())
    faults = [f"no emulated kernel of unit {u} and head_dim {d}" for u, d in sorted(missing)]
    for kernel, (unit, head_dim) in emulated.items():
        unseen = set(LOOP)
        for functions, access, passes, least in places(attune, kernel, unit, head_dim):
            unseen.discard(functions)
            if passes == least:
                continue
            print(f"{kernel}\t{functions}\t{access}\t{passes} passes, {least} would do")
            if ONCE not in functions:
                faults.append(f"{kernel}: conflicts in {functions}")
        faults += [f"{kernel}: no access seen of {functions}" for functions in sorted(unseen)]
    print(f"{len(emulated)} kernels", *faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
