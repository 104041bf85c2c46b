"""The spec (templates/attention.toml): every kernel point, which rules reject it and why. Pure: no file is read but the spec."""

import dataclasses
import itertools

import names
import schema
from expressions import evaluate
from schema import SpecError

try:
    import tomllib
except ModuleNotFoundError:  # Python < 3.11
    import tomli as tomllib


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
    prefix: str  # of the symbols

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
    features: tuple  # that a device must have
    unit: dict  # the row of the matrix unit that it is for, or None
    constants: tuple  # of its engine: pairs (name, value)
    id: str

    @property
    def dialect_files(self):
        """The texts that spell what its engine and the algorithm say."""
        return self.variant.files + ((self.unit["dialects"][self.target],) if self.unit else ())

    @property
    def key(self):
        return self.op, self.dtype, self.head_dim

    @property
    def symbol(self):
        """The name of its function."""
        return self.variant.prefix + self.id

    @property
    def values(self):
        """Every name that an expression of the spec may use."""
        return {
            **{dtype: int(dtype == self.dtype) for dtype in schema.DTYPES},
            "element_size": schema.ELEMENT_SIZES[self.dtype],
            "head_dim": self.head_dim,
            **dict(self.variant.constants),
            **{f"unit_{name}": n for name, n in (self.unit or {}).items() if isinstance(n, int)},
            **dict(self.axes),
            **dict(self.constants),
        }


class Spec:
    """The parsed spec."""

    def __init__(self, text):
        try:
            self.data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"attention.toml: {error}") from None
        schema.check(self.data)
        self.engines = self.data["engine"]
        self.targets = self.data["target"]
        self.rules = self.data.get("rule", [])
        self.units = [_completed(row) for row in self.data.get("matrix_unit", [])]

    def target(self, name):
        """The table of a target."""
        if name not in self.targets:
            raise SpecError(f"no target '{name}'; the spec has {', '.join(sorted(self.targets))}")
        return self.targets[name]

    def variants(self, target):
        """The variants of a target; the first that fits a point makes it."""
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
                prefix=row.get("prefix", ""),
            )
            for row in rows
        ]

    def variants_for(self, target, arch):
        """Those that make points for a processor: no variant before them takes all of theirs."""
        variants = self.variants(target)
        return [v for v in variants if _first_fit(variants, arch, dict(v.when)) == v]

    def device_classes(self, target):
        """What a tuned row of the target may name beside "*"; None where a device may be of any class."""
        table = self.target(target)
        if "device_classes" in table:
            return table["device_classes"]
        return [row["name"] for row in table["variant"]] if "variant" in table else None

    def tuned_classes(self, target):
        """device_classes, and the family that holds them all."""
        classes, family = self.device_classes(target), self.target(target).get("family")
        return [family, *classes] if family else classes

    def covered(self, target, name):
        """The device classes of the target that a tuned row of class `name` is about: itself, all of its family or of any, or the class of which it is
        one vendor's part ("gpu-intel" of "gpu"); none where no device is of that class."""
        table, classes = self.target(target), self.device_classes(target) or []
        if name in ("*", table.get("family")):
            return classes
        kind, dash, vendor = name.partition("-")
        if table.get("vendors") and dash and vendor.isalnum():
            name = kind
        return [name] if name in classes else []

    def examples(self, target, arch):
        """Candidates of which one at least has each text that the target has on a processor."""
        problem = self.data["problem"]
        for engine in self.target(target)["engines"]:
            tilings = {
                (variant, values.get("unit")): (variant, values, tuning)
                for variant, values, tuning in self._tilings(target, arch, engine)
            }
            for op, dtype in itertools.product(problem["op"], problem["dtype"]):
                for variant, values, tuning in tilings.values():
                    if self._has_unit(target, dtype, values):
                        key = (op, dtype, problem["head_dim"][0])
                        kernel = names.kernel_id(*key, engine, tuning)
                        yield self._point(target, variant, key, engine, values, kernel)

    def candidates(self, target, arch, wanted=lambda kernel: True):
        """Every combination of axis values whose id is wanted, each a point that exists when it has no rejections."""
        problem = self.data["problem"]
        keys = list(itertools.product(problem["op"], problem["dtype"], problem["head_dim"]))
        for engine in self.target(target)["engines"]:
            tilings = list(self._tilings(target, arch, engine))
            for key, (variant, values, tuning) in itertools.product(keys, tilings):
                if not self._has_unit(target, key[1], values):
                    continue
                kernel = names.kernel_id(*key, engine, tuning)
                if wanted(kernel):
                    yield self._point(target, variant, key, engine, values, kernel)

    def _tilings(self, target, arch, engine):
        """Triples (variant, values of the axes, letters and values) of an engine on a processor."""
        axes = self.engines[engine]["axes"]
        variants = self.variants(target)
        for chosen in itertools.product(*(axis["values"] for axis in axes.values())):
            values = dict(zip(axes, chosen))
            variant = _first_fit(variants, arch, values)
            if variant is not None:
                yield variant, values, tuple(zip((a["letter"] for a in axes.values()), chosen))

    def _point(self, target, variant, key, engine, values, kernel):
        op, dtype, head_dim = key
        unit = self.unit(target, dtype, values.get("unit"))
        point = Point(
            target=target,
            variant=variant,
            op=op,
            dtype=dtype,
            head_dim=head_dim,
            engine=engine,
            axes=tuple(values.items()),
            features=variant.features + tuple(unit["features"] if unit else ()),
            unit=unit,
            constants=(),
            id=kernel,
        )
        formulas = self.engines[engine].get("constants")
        if formulas is None:
            return point
        known, constants = point.values, {}
        for name, text in formulas.items():
            known[name] = constants[name] = evaluate(text, known)
        return dataclasses.replace(point, constants=tuple(constants.items()))

    def unit(self, target, dtype, number):
        """The row of the matrix unit of a target that takes a dtype and has that number; None where there is none."""
        return next(
            (
                row
                for row in self.units
                if row["number"] == number and target in row["dialects"] and dtype in row["dtypes"]
            ),
            None,
        )

    def _has_unit(self, target, dtype, axes):
        return "unit" not in axes or self.unit(target, dtype, axes["unit"]) is not None

    def _class_features(self, target):
        """{device class: the features that its name tells}."""
        table, features = self.target(target), {}
        classes = self.device_classes(target) or []
        for number, name in enumerate(classes):
            told = table.get("class_features", {}).items()
            features[name] = {word for word, starts in told if name.startswith(tuple(starts))}
            features[name].update(classes[: number + 1] if table.get("classes_grow") else [name])
        return features

    def classes_for(self, point):
        """The device classes that have the point's features, of those that the target names; features of which no name tells do not count."""
        features = self._class_features(point.target)
        wanted = set(point.features) & set().union(*features.values())
        return [name for name, has in features.items() if wanted <= has]

    def find(self, target, arch, kernel):
        """(point, reasons) of an id; SpecError where the spec holds no such combination."""
        try:
            op, dtype, head_dim, engine, tuning = names.parse_kernel_id(kernel)
        except names.KernelNameError as error:
            raise SpecError(str(error)) from None
        problem = self.data["problem"]
        chosen = [("op", op, problem["op"]), ("dtype", dtype, problem["dtype"])]
        chosen += [("head_dim", head_dim, problem["head_dim"])]
        chosen += [("engine", engine, self.target(target)["engines"])]
        for name, value, known in chosen:
            if value not in known:
                raise SpecError(f"'{kernel}': {target} has no {name} {value}")
        axes = self.engines[engine]["axes"]
        letters = "".join(axis["letter"] for axis in axes.values())
        if [letter for letter, _ in tuning] != list(letters):
            raise SpecError(f"'{kernel}': the letters of engine {engine} are {letters}")
        for (name, axis), (_, value) in zip(axes.items(), tuning):
            if value not in axis["values"]:
                raise SpecError(f"'{kernel}': {value} is no value of {name}")
        values = dict(zip(axes, (value for _, value in tuning)))
        if not self._has_unit(target, dtype, values):
            number = values["unit"]
            raise SpecError(f"'{kernel}': {target} has no matrix unit {number} that takes {dtype}")
        variant = _first_fit(self.variants(target), arch, values)
        if variant is None:
            raise SpecError(f"'{kernel}': {target} makes none such for {arch}")
        point = self._point(target, variant, (op, dtype, head_dim), engine, values, kernel)
        return point, list(self.rejections(point))

    def rejections(self, point):
        """The `why` of every rule that forbids the point, one after the other."""
        values = point.values
        values["fast_memory"] = self.engine_value(point, "fast_memory")
        for rule in self.rules:
            concerned = rule.get("engine", point.engine) == point.engine
            concerned = concerned and rule.get("target", point.target) == point.target
            if concerned and not self._holds(rule, values):
                yield rule["why"]

    def _holds(self, rule, values):
        try:
            return evaluate(rule["expr"], values)
        except SpecError as error:
            raise SpecError(f"attention.toml: rule '{rule['why']}': {error}") from None

    def points(self, target, arch, wanted=lambda kernel: True):
        """The points that exist and whose id is wanted."""
        return [
            point
            for point in self.candidates(target, arch, wanted)
            if not any(self.rejections(point))
        ]

    def engine_value(self, point, key):
        """A formula of the point's engine: threads, panel, fast_memory, reproducible."""
        return evaluate(self.engines[point.engine][key], point.values)

    def reproducible(self, point):
        """1 where the bits of a row are promised not to depend on tiles, batch or chunks, else 0."""
        value = self.engine_value(point, "reproducible")
        if value not in (0, 1):
            raise SpecError(f"[engine.{point.engine}]: reproducible is {value} for {point.id}")
        return int(value)

    def arithmetic(self, point):
        """How the point rounds: every formula of its engine's arithmetic as a number; steps are 1 or more."""
        place = f"[engine.{point.engine}] arithmetic"
        formulas = self.engines[point.engine]["arithmetic"]
        numbers = {key: evaluate(str(text), point.values) for key, text in formulas.items()}
        for key, number in numbers.items():
            if key.endswith("_step") and not (isinstance(number, int) and number >= 1):
                raise SpecError(f"{place}: {key} is {number} for {point.id}, no positive integer")
            if not 0 <= number < float("inf"):
                raise SpecError(f"{place}: {key} is {number} for {point.id}")
        return numbers

    def constants(self, point):
        """The preprocessor constants of a kernel text, in the order in which they are printed."""
        derived = {name: self.engine_value(point, name) for name in ("threads", "fast_memory")}
        panel = self.engine_value(point, "panel")
        packs = {"pack_name": names.pack_name(point.symbol), "panel": panel} if panel else {}
        named = {
            "kernel_name": point.symbol,
            "storage": point.dtype,
            "head_dim": point.head_dim,
            **dict(point.axes),
            **derived,
            **packs,
            **dict(point.constants),
        }
        return [(name.upper(), value) for name, value in named.items()]


def _completed(unit):
    """A row of the spec with what follows from it: how many sums a lane has, how many column tiles one load of K or of V serves, and how often
    the lanes hold each element of an operand of rows."""
    two = schema.ELEMENT_SIZES[unit["dtypes"][0]] == 2
    together = max(1, 4 // unit["column_words"])
    shared = two and not unit["values"]["transposed"]
    elements = unit["row_words"] * (2 if two else 1)
    value_tiles = 2 if shared else together
    return {
        **unit,
        "accumulators": unit["rows"] * unit["columns"] // unit["lanes"],
        "key_tiles": together,
        "value_tiles": value_tiles,
        "key_span": together * unit["columns"],
        "value_span": value_tiles * unit["columns"],
        "copies": elements * unit["lanes"] // (unit["rows"] * unit["depth"]),
    }


def _first_fit(variants, arch, axes):
    return next((variant for variant in variants if variant.fits(arch, axes)), None)
