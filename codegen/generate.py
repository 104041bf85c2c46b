#!/usr/bin/env python3
"""Lists, checks and renders Attune's kernels.

generate.py --list [--why] [--target T] [--glob G]      every point, or with --why every rejected one and its reasons
generate.py --check | --update                          compare or rewrite the goldens in tests/golden
generate.py --render T --out DIR [--outputs]            write a target's kernels and its table (or only name them)
"""

import argparse
import fnmatch
import pathlib
import platform
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
if sys.version_info < (3, 9):
    sys.exit("codegen needs Python 3.9 or newer")
try:
    import jinja2

    import render
    import spec as specification
except ModuleNotFoundError as missing:
    sys.exit(
        f"codegen needs the Python package '{missing.name}': install it (Debian: python3-{missing.name}) or name another interpreter with -DPython3_EXECUTABLE"
    )

# One kernel for each target and engine, small enough to read.
GOLDENS = [
    ("c", "x86_64", "forward_f32_d64_vector_q12k128n32w16"),
    ("c", "x86_64", "forward_f16_d32_vector_q6k128n16w8"),
    ("opencl", "x86_64", "forward_bf16_d64_vector_q12k128n32w16"),
    ("opencl", "x86_64", "forward_f32_d128_simt_q16k32t128"),
    ("cuda", "x86_64", "forward_f16_d64_simt_q32k32t128"),
    ("hip", "x86_64", "forward_f16_d64_simt_q32k32t128"),
]

FOLDERS = {"c": "cpu"}  # backends/<x> of a target whose backend has another name


class Generator:
    """A renderer, with the files of the source tree that feed it."""

    def __init__(self, templates, backends):
        self.backends = pathlib.Path(backends)
        self.renderer = render.Renderer(templates, self.backends / "kernel_abi.h")
        self.spec = self.renderer.spec

    def tuned(self, target):
        """The rows of the target's tuned.tsv."""
        path = self.backends / FOLDERS.get(target, target) / "tuned.tsv"
        name = f"{path.parent.name}/{path.name}"
        return specification.parse_tuned(path.read_text("utf-8"), name)

    def selected(self, target, arch, globs):
        """(points that are rendered, rows that are tuned): those that a tuned row names, and those that match a glob."""
        exist = {point.id: point for point in self.spec.points(target, arch)}
        tuned = self.tuned(target)
        possible = set(exist)
        for other in {variant.arch for variant in self.spec.variants(target)} - {"*"}:
            possible |= {point.id for point in self.spec.points(target, other)}
        for row in tuned:
            if row.kernel not in possible:
                raise specification.SpecError(
                    f"{target}: tuned.tsv names '{row.kernel}', which the rules reject"
                )
        here = {v.name for v in self.spec.variants(target) if v.arch in (arch, "*")}
        elsewhere = {v.name for v in self.spec.variants(target)} - here
        tuned = [row for row in tuned if row.kernel in exist and row.device_class not in elsewhere]
        rank = {row.kernel: number for number, row in reversed(list(enumerate(tuned)))}
        wanted = [
            point
            for point in exist.values()
            if point.id in rank or any(fnmatch.fnmatchcase(point.id, glob) for glob in globs)
        ]
        return sorted(wanted, key=self._order(rank)), tuned

    def _order(self, rank):
        problem = self.spec.data["problem"]
        return lambda point: (
            problem["op"].index(point.op),
            problem["dtype"].index(point.dtype),
            point.head_dim,
            rank.get(point.id, len(rank)),
            point.engine != "vector",
            point.axes,
        )

    def files(self, target, arch, globs, out):
        """What a render writes: pairs (path, variant or None, text)."""
        points, tuned = self.selected(target, arch, globs)
        settings = self.spec.target(target)
        out = pathlib.Path(out)
        for point in points:
            yield (
                out / f"{point.id}{settings['suffix']}",
                point.variant,
                self.renderer.kernel(point),
            )
        table = points
        if settings["embed"]:
            table, tuned = self.selected(target, arch, ["*"])
        yield out / f"kernel_table_{target}.c", None, self.renderer.table(target, table, tuned)


def list_points(generator, options):
    """--list and --list --why."""
    for target in [options.target] if options.target else sorted(generator.spec.targets):
        for point, reasons in generator.spec.candidates(target, options.arch):
            if bool(reasons) == options.why and fnmatch.fnmatchcase(point.id, options.glob):
                print(target, point.id, *(["-", "; ".join(reasons)] if reasons else []))


def goldens(generator, update):
    """Compares (or rewrites) the goldens; the number that differ."""
    differ = 0
    for target, arch, kernel in GOLDENS:
        point = next((p for p in generator.spec.points(target, arch) if p.id == kernel), None)
        if point is None:
            raise specification.SpecError(f"golden '{kernel}' is no point of {target}")
        suffix = generator.spec.target(target)["suffix"]
        path = ROOT / "tests" / "golden" / target / f"{kernel}{suffix}"
        text = generator.renderer.kernel(point)
        if update:
            render.write_if_different(path, text)
        elif not path.exists() or path.read_text("utf-8") != text:
            print(
                f"{path.relative_to(ROOT)} differs from what the templates render (--update rewrites it)"
            )
            differ += 1
    return differ


def parse_arguments(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--list", action="store_true", help="print the points")
    action.add_argument("--check", action="store_true", help="compare the goldens")
    action.add_argument("--update", action="store_true", help="rewrite the goldens")
    action.add_argument("--render", metavar="TARGET", help="write a target's files")
    parser.add_argument("--why", action="store_true", help="print rejected points and why")
    parser.add_argument("--target", help="confine --list to a target")
    parser.add_argument("--glob", default="*", help="confine --list to ids")
    parser.add_argument("--arch", default=platform.machine(), help="processor of target c")
    parser.add_argument(
        "--points", default="", help="globs, comma-separated: more points than tuned.tsv names"
    )
    parser.add_argument("--out", help="folder of --render")
    parser.add_argument(
        "--outputs", action="store_true", help="name the files of --render, do not write them"
    )
    parser.add_argument("--templates", default=ROOT / "templates", help="folder of the templates")
    parser.add_argument(
        "--backends", default=ROOT / "backends", help="folder of kernel_abi.h and <x>/tuned.tsv"
    )
    options = parser.parse_args(arguments)
    if options.render and not options.out:
        parser.error("--render needs --out")
    return options


def main(arguments=None):
    """Exit status: 0 done, 1 a golden differs, 2 bad usage, spec or template."""
    options = parse_arguments(arguments)
    try:
        generator = Generator(options.templates, options.backends)
        if options.list:
            list_points(generator, options)
        elif options.render:
            globs = [glob for glob in options.points.split(",") if glob]
            for path, variant, text in generator.files(
                options.render, options.arch, globs, options.out
            ):
                if options.outputs:
                    print(path, *(variant.flags if variant else ()), sep="|")
                else:
                    render.write_if_different(path, text)
        else:
            return 1 if goldens(generator, options.update) else 0
    except (specification.SpecError, jinja2.TemplateError, OSError) as error:
        where = (
            f"{error.name}:{error.lineno}: "
            if isinstance(error, jinja2.TemplateSyntaxError)
            else ""
        )
        print(f"generate.py: {where}{error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
