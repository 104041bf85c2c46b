"""The shared library exports what the public headers declare with ATTUNE_API and nothing else; the static one defines nothing else.

usage: symbols.py NM INCLUDE_DIR SHARED STATIC
"""

import pathlib
import re
import subprocess
import sys

DECLARATION = re.compile(r"^ATTUNE_API[^;(]*?(\w+)\(", re.MULTILINE)


def declared(include):
    text = "".join(header.read_text(encoding="utf-8") for header in include.rglob("*.h"))
    return set(DECLARATION.findall(text))


def defined(nm, *arguments):
    lines = subprocess.run(
        [nm, *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    names = {fields[2].split("@")[0] for fields in map(str.split, lines) if len(fields) == 3}
    return {name for name in names if name[0] not in "._"}  # the rest is the toolchain's


def main():
    nm, include, shared, static = sys.argv[1:]
    api = declared(pathlib.Path(include))
    wrong = 0
    for library, arguments in (
        (shared, ["-D", "--defined-only"]),
        (static, ["-g", "--defined-only"]),
    ):
        found = defined(nm, *arguments, library)
        for name in sorted(found ^ api):
            print(f"{library}: {name} is {'defined' if name in found else 'declared'} only")
            wrong += 1
    print(f"{len(api)} functions")
    return 1 if wrong or not api else 0


if __name__ == "__main__":
    sys.exit(main())
