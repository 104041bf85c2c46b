"""The spec (templates/attention.toml): every kernel point, which rules reject it and why. Pure: no file is read but the spec."""

import ast
import dataclasses
import itertools
import operator

import names

try:
    import tomllib
except ModuleNotFoundError:  # Python < 3.11
    import tomli as tomllib


class SpecError(ValueError):
    """The spec or a tuned table says something that cannot be; the message names the place."""


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(text, values):
    """The value of an arithmetic or boolean expression over the given names."""

    def walk(node):
        if isinstance(node, ast.Expression):
            return walk(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](walk(node.operand))
        if isinstance(node, ast.BoolOp):
            combine = all if isinstance(node.op, ast.And) else any
            return combine(walk(value) for value in node.values)
        if isinstance(node, ast.Compare) and all(type(op) in _OPERATORS for op in node.ops):
            terms = [walk(term) for term in (node.left, *node.comparators)]
            pairs = zip(node.ops, terms, terms[1:])
            return all(_OPERATORS[type(op)](left, right) for op, left, right in pairs)
        raise SpecError(f"expression '{text}': cannot evaluate '{ast.unparse(node)}'")

    try:
        return walk(ast.parse(text, mode="eval"))
    except SyntaxError:
        raise SpecError(f"expression '{text}' is malformed") from None


@dataclasses.dataclass(frozen=True)
class Variant:
    """A target, refined: extra dialect files, compile flags and features that the device must have."""

    name: str
    arch: str
    files: tuple
    flags: tuple
    features: tuple
    when: tuple
    constants: tuple

    def fits(self, arch, axes):
        """Whether this variant makes the point with these axes for that processor."""
        matches = all(axes.get(axis) == value for axis, value in self.when)
        return self.arch in (arch, "*") and matches


@dataclasses.dataclass(frozen=True)
class Point:
    """One kernel that the spec allows, on one target."""

    target: str
    variant: Variant
    op: str
    dtype: str
    head_dim: int
    engine: str
    axes: tuple  # pairs (name, value)
    id: str

    @property
    def key(self):
        return self.op, self.dtype, self.head_dim

    @property
    def values(self):
        """Every name that an expression of the spec may use."""
        return dict(self.variant.constants, head_dim=self.head_dim, **dict(self.axes))


class Spec:
    """The parsed spec."""

    def __init__(self, text):
        try:
            self.data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"attention.toml: {error}") from None
        for table in ("problem", "engine", "target"):
            if table not in self.data:
                raise SpecError(f"attention.toml: the table [{table}] is missing")
        self.engines = self.data["engine"]
        self.targets = self.data["target"]
        self.rules = self.data.get("rule", [])

    def target(self, name):
        """The table of a target."""
        if name not in self.targets:
            raise SpecError(f"no target '{name}'; the spec has {', '.join(sorted(self.targets))}")
        return self.targets[name]

    def variants(self, target):
        """The variants of a target, the first that fits a point makes it."""
        table = self.target(target)
        rows = table.get("variant", [{"name": target, "arch": "*"}])
        return [
            Variant(
                name=row["name"],
                arch=row["arch"],
                files=tuple(table["files"]) + tuple(row.get("files", ())),
                flags=tuple(row.get("flags", ())),
                features=tuple(row.get("features", ())),
                when=tuple(row.get("when", {}).items()),
                constants=tuple({**table.get("constants", {}), **row.get("constants", {})}.items()),
            )
            for row in rows
        ]

    def candidates(self, target, arch):
        """Every combination of axis values: pairs (point, reasons); a point exists when it has none."""
        variants = self.variants(target)
        problem = self.data["problem"]
        for engine in self.target(target)["engines"]:
            axes = self.engines[engine]["axes"]
            keys = itertools.product(problem["op"], problem["dtype"], problem["head_dim"])
            choices = [axis["values"] for axis in axes.values()]
            for (op, dtype, head_dim), chosen in itertools.product(
                keys, list(itertools.product(*choices))
            ):
                values = dict(zip(axes, chosen))
                variant = next((v for v in variants if v.fits(arch, values)), None)
                if variant is None:
                    continue  # not a choice on this processor
                tuning = [(axes[axis]["letter"], value) for axis, value in values.items()]
                point = Point(
                    target=target,
                    variant=variant,
                    op=op,
                    dtype=dtype,
                    head_dim=head_dim,
                    engine=engine,
                    axes=tuple(values.items()),
                    id=names.kernel_id(op, dtype, head_dim, engine, tuning),
                )
                yield point, self.rejections(point)

    def rejections(self, point):
        """The `why` of every rule that forbids the point."""
        return [
            rule["why"]
            for rule in self.rules
            if rule.get("engine", point.engine) == point.engine
            and rule.get("target", point.target) == point.target
            and not evaluate(rule["expr"], point.values)
        ]

    def points(self, target, arch):
        """The points that exist."""
        return [point for point, reasons in self.candidates(target, arch) if not reasons]

    def engine_value(self, point, key):
        """A formula of the point's engine: threads, panel, fast_memory."""
        return evaluate(str(self.engines[point.engine].get(key, key)), point.values)

    def constants(self, point):
        """The preprocessor constants of a kernel text, in the order in which they are printed."""
        values = point.values
        panel = self.engine_value(point, "panel")
        return [
            ("KERNEL_NAME", point.id),
            ("PACK_NAME", names.pack_name(point.id)),
            ("STORAGE", point.dtype),
            ("HEAD_DIM", point.head_dim),
            ("BLOCK_Q", values["block_q"]),
            ("BLOCK_K", values["block_k"]),
            ("THREADS", self.engine_value(point, "threads")),
            ("PANEL", panel),
            ("LANES", values.get("lanes", 1)),
            ("FAST_MEMORY", self.engine_value(point, "fast_memory")),
        ]


@dataclasses.dataclass(frozen=True)
class TunedRow:
    """A line of a tuned.tsv."""

    device_class: str
    op: str
    dtype: str
    head_dim: int
    max_seqlen_q: str
    kernel: str


TUNED_HEADER = "device_class\top\tdtype\thead_dim\tmax_seqlen_q\tkernel"


def parse_tuned(text, name):
    """The rows of a tuned.tsv, which must be sorted; `name` is for messages."""
    lines = text.splitlines()
    if not lines or lines[0] != TUNED_HEADER:
        raise SpecError(f"{name}: the first line must be '{TUNED_HEADER}'")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        fields = line.split("\t")
        if len(fields) != 6:
            raise SpecError(f"{name}:{number}: {len(fields)} fields where 6 belong")
        device_class, op, dtype, head_dim, max_seqlen_q, kernel = fields
        try:
            parsed = names.parse_kernel_id(kernel)
        except names.KernelNameError as error:
            raise SpecError(f"{name}:{number}: {error}") from None
        if parsed[:3] != (op, dtype, int(head_dim)):
            raise SpecError(f"{name}:{number}: kernel '{kernel}' computes something else")
        if max_seqlen_q != "*" and not max_seqlen_q.isdecimal():
            raise SpecError(f"{name}:{number}: max_seqlen_q '{max_seqlen_q}' is no number and no *")
        rows.append(TunedRow(device_class, op, dtype, int(head_dim), max_seqlen_q, kernel))
    if rows != sorted(rows, key=tuned_order):
        raise SpecError(f"{name}: the rows are not sorted")
    return rows


def tuned_order(row):
    """Any class after every named one, unlimited after every limit; the order that the runtime scans."""
    limit = float("inf") if row.max_seqlen_q == "*" else int(row.max_seqlen_q)
    dtypes = ("f32", "f16", "bf16")
    return (
        row.device_class == "*",
        row.device_class,
        row.op,
        dtypes.index(row.dtype),
        row.head_dim,
        limit,
    )
