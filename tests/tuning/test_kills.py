#!/usr/bin/env python3
"""No row that was committed is lost, whenever the process that wrote it is killed, and however many write at once.

usage: test_kills.py RECORD_ROWS
"""

import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import time

KILLS, WRITERS = 200, 4


def start(program, database, name):
    return subprocess.Popen(
        [program, database, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process):
    """Kills it: the rows that it called committed, all but a last line that was cut short."""
    process.kill()
    out, error = process.communicate()
    assert error == "", error
    return out.split("\n")[:-1]


def kernels(database):
    """What a reader finds, in a database that is whole."""
    with sqlite3.connect(database) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = [kernel for (kernel,) in db.execute("SELECT kernel FROM measurement")]
    assert len(found) == len(set(found))
    return set(found)


def main():
    program, random_moment = sys.argv[1], random.Random(1)
    committed, silent = set(), 0
    with tempfile.TemporaryDirectory() as folder:
        database = pathlib.Path(folder) / "killed.db"
        for round_ in range(KILLS // WRITERS):
            writers = [start(program, database, f"r{round_}w{w}") for w in range(WRITERS)]
            for writer in random_moment.sample(writers, WRITERS):
                time.sleep(random_moment.uniform(0.0, 0.15))
                rows = end(writer)
                silent += not rows
                committed |= set(rows)
            lost = committed - kernels(database)
            if lost:
                print(f"round {round_}: {len(lost)} committed rows are lost: {sorted(lost)[:5]}")
                return 1
    print(f"{KILLS} kills, {silent} before the first row, {len(committed)} rows committed, 0 lost")
    return 0 if committed and silent < KILLS else 1


if __name__ == "__main__":
    sys.exit(main())
