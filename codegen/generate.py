#!/usr/bin/env python3
"""Lists, checks and renders Attune's kernels.

generate.py --list [--target T] [--glob G]              every point
generate.py --list --why [--target T] [--glob G]        how many points each rule rejects; with --glob each of them and its reasons
generate.py --check | --update                          compare or rewrite the goldens in tests/golden
generate.py --render T --out DIR [--outputs]            write a target's kernels and its table (or only name them)

Exit status: 0 done, 1 a golden differs, 2 bad usage, spec, table or template.
"""

import argparse
import collections
import fnmatch
import os
import pathlib
import platform
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
if sys.version_info < (3, 9):
    sys.exit("codegen needs Python 3.9 or newer")
try:
    import jinja2

    import render
    import spec as specification
    import tuned_table
except ModuleNotFoundError as missing:
    sys.exit(
        f"codegen needs the Python package '{missing.name}': install it (Debian: python3-{missing.name}) or name another interpreter with -DPython3_EXECUTABLE"
    )

# One kernel for each target and engine, small enough to read.
GOLDENS = [
    ("c", "x86_64", "forward_f32_d64_vector_q12r12k128n32w16"),
    ("c", "x86_64", "forward_f16_d32_vector_q6r6k128n16w8"),
    ("opencl", "x86_64", "forward_bf16_d64_vector_q12r12k128n32w16"),
    ("opencl", "x86_64", "forward_f32_d128_simt_q16k32t128"),
    ("cuda", "x86_64", "forward_f16_d64_simt_q32k32t128"),
    ("cuda", "x86_64", "forward_f16_d128_matrix_q128k64t128b2h0r1u0"),
    ("hip", "x86_64", "forward_f16_d64_simt_q32k32t128"),
    ("hip", "x86_64", "forward_f16_d128_matrix_q128k64t256b2h1r1u1"),
    ("emulated", "x86_64", "forward_f16_d64_simt_q32k32t128"),
]

FOLDERS = {"c": "cpu"}  # backends/<x> of a target whose backend has another name


class Generator:
    """A renderer, with the files of the source tree that feed it."""

    def __init__(self, templates, backends):
        self.backends = pathlib.Path(backends)
        self.renderer = render.Renderer(templates, self.backends / "kernel_abi.h")
        self.spec = self.renderer.spec

    def tuned_path(self, target):
        """The target's tuned.tsv."""
        return self.backends / FOLDERS.get(target, target) / "tuned.tsv"

    def tuned(self, target):
        """Its rows; each names a kernel that exists on some processor and a class that a device may have."""
        path = self.tuned_path(target)
        name = f"{path.parent.name}/{path.name}"
        rows = tuned_table.parse(path.read_text("utf-8"), name)
        classes = self.spec.tuned_classes(target)
        for number, row in enumerate(rows, 2):
            if classes is not None and not self.spec.covered(target, row.device_class):
                raise specification.SpecError(
                    f"{name}:{number}: no device class '{row.device_class}'; there are {', '.join(classes)}"
                )
            try:
                self._check_exists(target, row)
            except specification.SpecError as error:
                raise specification.SpecError(f"{name}:{number}: {error}") from None
        return rows

    def _check_exists(self, target, row):
        variants = self.spec.variants(target)
        named = [v.arch for v in variants if v.name == row.device_class]
        found = []
        for arch in named or sorted({v.arch for v in variants}):
            try:
                found.append(self._obstacles(target, arch, row))
            except specification.SpecError as error:
                trouble = error
        if not found:
            raise trouble
        if all(found):
            raise specification.SpecError(f"'{row.kernel}' is rejected: {'; '.join(found[0])}")

    def _obstacles(self, target, arch, row):
        """Why the row's kernel does not serve its class on that processor."""
        point, reasons = self.spec.find(target, arch, row.kernel)
        covered = self.spec.covered(target, row.device_class)
        if self.spec.device_classes(target) is None or set(covered) & set(
            self.spec.classes_for(point)
        ):
            return reasons
        return [*reasons, f"{row.device_class} lacks {' '.join(point.features)}"]

    def _built_for(self, point, tuned):
        """The device classes that a point is compiled for: those that may run it, and of these the ones that its tuned rows name."""
        rows = [row.device_class for row in tuned if row.kernel == point.id] or ["*"]
        named = {name for row in rows for name in self.spec.covered(point.target, row)}
        return [name for name in self.spec.classes_for(point) if name in named]

    def selected(self, target, arch, globs, tuned_globs=("*",)):
        """(points that are rendered, rows that are tuned): those that a tuned row names and a tuned glob matches, and those that match a glob."""
        ours = {variant.name for variant in self.spec.variants_for(target, arch)}
        elsewhere = {variant.name for variant in self.spec.variants(target)} - ours
        rows = [row for row in self.tuned(target) if row.device_class not in elsewhere]
        rows = [row for row in rows if _matcher(tuned_globs)(row.kernel)]
        named, matches = {row.kernel for row in rows}, _matcher(globs)
        exist = self.spec.points(target, arch, lambda name: name in named or matches(name))
        here = {point.id for point in exist}
        tuned = [row for row in rows if row.kernel in here]
        rank = {row.kernel: number for number, row in reversed(list(enumerate(tuned)))}
        return sorted(exist, key=self._order(rank)), tuned

    def check_globs(self, globs):
        """Globs serve every target, so one that matches nothing in one is no error, but in all of them it is."""
        for glob in globs:
            if not any(
                self.spec.points(target, arch, _matcher([glob]))
                for target in self.spec.targets
                for arch in sorted({variant.arch for variant in self.spec.variants(target)})
            ):
                raise specification.SpecError(f"--points: '{glob}' matches no kernel of any target")

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

    def files(self, target, arch, globs, out, tuned_globs=("*",)):
        """What a render writes: (path, device classes that it is for, compile flags, function that gives the text)."""
        self.check_globs(globs)
        points, tuned = self.selected(target, arch, globs, tuned_globs)
        settings = self.spec.target(target)
        out = pathlib.Path(out)
        for point in points:
            path = out / f"{point.id}{settings['suffix']}"
            classes = self._built_for(point, tuned)
            yield path, classes, point.variant.flags, lambda p=point: self.renderer.kernel(p)
        yield (
            out / f"kernel_table_{target}.c",
            self.spec.device_classes(target) or [],
            (),
            lambda: self._table(target, arch, points, tuned),
        )

    def common_flags(self, target):
        """The compile flags of all texts of a target, where there is one set."""
        flags = {variant.flags for variant in self.spec.variants(target)}
        return flags.pop() if len(flags) == 1 else ()

    def _table(self, target, arch, points, tuned):
        if self.spec.target(target)["embed"]:  # whatever exists may be compiled at run time
            points, tuned = self.selected(target, arch, ["*"])
        return self.renderer.table(target, arch, points, tuned)

    def depfile(self, target, stamp):
        """A line for make: what was read so far, which is what the texts of the target depend on."""
        read = [self.renderer.templates / "attention.toml", self.backends / "kernel_abi.h"]
        read += [self.tuned_path(target), *map(pathlib.Path, self.renderer.loader.read)]
        paths = sorted(os.path.abspath(path).replace(" ", "\\ ") for path in read)
        return f"{stamp}: " + " \\\n  ".join(paths) + "\n"


def list_points(generator, options):
    """--list and --list --why."""
    for target in [options.target] if options.target else sorted(generator.spec.targets):
        rejected, example = collections.Counter(), {}
        wanted = _matcher([options.glob or "*"])
        for point in generator.spec.candidates(target, options.arch, wanted):
            reasons = list(generator.spec.rejections(point))
            if options.why and not options.glob:
                rejected.update(reasons)
                example.update({why: example.get(why, point.id) for why in reasons})
            elif bool(reasons) == options.why:
                print(target, point.id, *(["-", "; ".join(reasons)] if reasons else []))
        for why, count in sorted(rejected.items()):
            print(f"{target}: {count} points, such as {example[why]} - {why}")
    if options.why and not options.glob:
        print("With --glob GLOB every rejected point is named; a point may have several reasons.")


def _matcher(globs):
    """Whether a name matches one of them."""
    patterns = "|".join(fnmatch.translate(glob) for glob in globs)
    return re.compile(patterns).match if globs else lambda name: False


def goldens(generator, update):
    """Compares (or rewrites) the goldens; the number that differ."""
    differ = 0
    folder = ROOT / "tests" / "golden"
    stray = {path for path in folder.rglob("*") if path.is_file()}
    for target, arch, kernel in GOLDENS:
        point, reasons = generator.spec.find(target, arch, kernel)
        if reasons:
            raise specification.SpecError(f"golden '{kernel}' is rejected: {'; '.join(reasons)}")
        suffix = generator.spec.target(target)["suffix"]
        path = folder / target / f"{kernel}{suffix}"
        text = generator.renderer.kernel(point)
        stray.discard(path)
        if update:
            render.write_if_different(path, text)
        elif not path.exists() or path.read_bytes() != text.encode("utf-8"):
            print(
                f"{path.relative_to(ROOT)} differs from what the templates render (--update rewrites it)"
            )
            differ += 1
    for path in sorted(stray):
        print(f"{path.relative_to(ROOT)} is no golden; remove it")
    return differ + len(stray)


def processor(name):
    """A processor as the spec names it, whatever the system calls it."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name.lower())


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
    parser.add_argument("--glob", help="confine --list to ids")
    parser.add_argument(
        "--arch", type=processor, default=platform.machine(), help="processor of target c"
    )
    parser.add_argument(
        "--points", default="", help="globs, comma-separated: more points than tuned.tsv names"
    )
    parser.add_argument(
        "--tuned", default="*", help="globs: the points to render, of those that tuned.tsv names"
    )
    parser.add_argument("--out", help="folder of --render")
    parser.add_argument(
        "--outputs",
        action="store_true",
        help="name the files of --render, their device classes and flags, and after an empty name the flags of all texts; do not write them",
    )
    parser.add_argument(
        "--stamp", help="file to touch after --render; beside it STAMP.d names what it depends on"
    )
    parser.add_argument("--templates", default=ROOT / "templates", help="folder of the templates")
    parser.add_argument(
        "--backends", default=ROOT / "backends", help="folder of kernel_abi.h and <x>/tuned.tsv"
    )
    options = parser.parse_args(arguments)
    if options.render and not options.out:
        parser.error("--render needs --out")
    return options


def render_target(generator, options):
    """--render."""
    globs, tuned_globs = (
        [glob for glob in text.split(",") if glob] for text in (options.points, options.tuned)
    )
    files = generator.files(options.render, options.arch, globs, options.out, tuned_globs)
    for path, classes, flags, text in files:
        if options.outputs:
            print(path, ",".join(classes), *flags, sep="|")
        else:
            render.write_if_different(path, text())
    if options.outputs:
        print("", "", *generator.common_flags(options.render), sep="|")
    if options.stamp and not options.outputs:
        depfile = generator.depfile(options.render, options.stamp)
        render.write_if_different(f"{options.stamp}.d", depfile)
        pathlib.Path(options.stamp).touch()


def main(arguments=None):
    """The exit status."""
    options = parse_arguments(arguments)
    try:
        generator = Generator(options.templates, options.backends)
        if options.list:
            list_points(generator, options)
        elif options.render:
            render_target(generator, options)
        else:
            return 1 if goldens(generator, options.update) else 0
    except BrokenPipeError:
        sys.stdout = None  # who read the list has seen enough
    except (specification.SpecError, jinja2.TemplateError, OSError, UnicodeDecodeError) as error:
        at_line = isinstance(error, jinja2.TemplateSyntaxError)
        where = f"{error.name}:{error.lineno}: " if at_line else ""
        print(f"generate.py: {where}{error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
