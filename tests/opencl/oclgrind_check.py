#!/usr/bin/env python3
"""Runs a command under oclgrind and fails on whatever oclgrind finds.

    oclgrind_check.py [--expect-finding] COMMAND…

The environment must select oclgrind as the OpenCL driver with its checks switched on (tools/opencl_runtimes.sh
FOLDER oclgrind prints it). oclgrind writes its findings to stderr and leaves the exit status alone, so they are looked
for there. Exit 1 on a finding; else the command's own status. With --expect-finding it is the other way round: exit 0
exactly when there is a finding, which shows that the check can fail.
"""

import os
import re
import subprocess
import sys

CHECKS = ("OCLGRIND_DATA_RACES", "OCLGRIND_UNINITIALIZED", "OCLGRIND_CHECK_API")

# A finding in a kernel names the kernel and the work-item; one of the API and an internal error name the program.
FINDING = re.compile(r"^\s+(Kernel|Entity): |oclgrind.*error", re.IGNORECASE | re.MULTILINE)


def main(arguments):
    expected = arguments[:1] == ["--expect-finding"]
    command = arguments[1:] if expected else arguments
    if not command:
        sys.exit(__doc__)
    missing = [name for name in CHECKS if os.environ.get(name) != "1"]
    if missing or "oclgrind" not in os.environ.get("OCL_ICD_VENDORS", ""):
        sys.exit("oclgrind_check.py: the environment does not select oclgrind with its checks")

    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True, errors="replace")
    sys.stderr.write(done.stderr)
    finding = FINDING.search(done.stderr) is not None
    print(f"oclgrind_check.py: {'findings, see above' if finding else 'no findings'}")
    if expected:
        return 0 if finding else 1
    return 1 if finding else done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
