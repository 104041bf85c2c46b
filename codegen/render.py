"""Points become texts: kernels, and the table of C rows that the runtime scans."""

import hashlib
import pathlib

import jinja2

import spec as specification


class _Loader(jinja2.FileSystemLoader):
    """Remembers which files it read."""

    def __init__(self, folder):
        super().__init__(folder)
        self.read = set()

    def get_source(self, environment, template):
        source, path, fresh = super().get_source(environment, template)
        self.read.add(path)
        return source, path, fresh


class Renderer:
    """Renders from one folder of templates. Undefined names are errors and nothing depends on the day or the machine."""

    def __init__(self, templates, kernel_abi):
        self.templates = pathlib.Path(templates)
        self.spec_text = (self.templates / "attention.toml").read_text("utf-8")
        self.spec = specification.Spec(self.spec_text)
        self.kernel_abi = pathlib.Path(kernel_abi).read_text("utf-8")
        self.loader = _Loader(str(self.templates))
        self.environment = jinja2.Environment(
            loader=self.loader,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
        )
        self._bodies = {}

    def constants(self, point):
        """The #defines of a point."""
        return "".join(f"#define {name} {value}\n" for name, value in self.spec.constants(point))

    def _short_constants(self, point):
        """The same as a table holds them, of which the runtime makes #defines: NAME VALUE, @ for the id (backend.h)."""
        assert point.symbol == point.id
        lines = (f"{name} {value}" for name, value in self.spec.constants(point))
        return "".join(f"{line.replace(point.id, '@')}\n" for line in lines)

    def body(self, point):
        """Everything after the constants: it depends on target, variant, engine, matrix unit and op, on no value of the point."""
        key = (point.target, point.variant.name, body_name(point))
        if key not in self._bodies:
            self._bodies[key] = self.environment.get_template("body.j2").render(
                dialect_files=point.dialect_files,
                kernel_abi=self.kernel_abi,
                engine_files=self.spec.engines[point.engine]["files"],
                op=point.op,
                unit=point.unit,
                has_panels=self.spec.engine_value(point, "panel") != 0,
            )
        return self._bodies[key]

    def kernel(self, point):
        """The whole text of one kernel."""
        return self.environment.get_template("kernel.j2").render(
            point=point, constants=self.constants(point), body=self.body(point)
        )

    def text_hash(self, target, arch):
        """16 hexadecimal digits of the spec and of every text of a target on a processor, whichever tiles of it are built."""
        texts = {
            (point.variant.name, body_name(point)): self.body(point)
            for point in self.spec.examples(target, arch)
        }
        digest = hashlib.sha256(self.spec_text.encode("utf-8"))
        for (variant, name), text in sorted(texts.items()):
            digest.update(f"\0{variant}\0{name}\0{text}".encode())
        return digest.hexdigest()[:16]

    def table(self, target, arch, points, tuned):
        """The C source of a target's kernel table: `points` in order of preference, `tuned` the rows of its tuned.tsv."""
        settings = self.spec.target(target)
        embed = settings["embed"]
        bodies = {}
        for point in points if embed else ():
            bodies.setdefault(body_name(point), self.body(point))
        return self.environment.get_template("kernel_table.j2").render(
            target=target,
            rows=[self._row(point, embed) for point in points],
            bodies=bodies,
            tuned=tuned,
            text_hash=self.text_hash(target, arch),
            device_classes=settings.get("device_classes"),
            class_features=settings.get("class_features"),
        )

    def _row(self, point, embed):
        value = self.spec.engine_value
        return {
            "point": point,
            "values": point.values,
            "threads": value(point, "threads"),
            "panel": value(point, "panel"),
            "fast_memory": value(point, "fast_memory"),
            "reproducible": self.spec.reproducible(point),
            "arithmetic": {
                name: _c_number(number) for name, number in self.spec.arithmetic(point).items()
            },
            "constants": self._short_constants(point) if embed else None,
            "body": body_name(point),
        }


def body_name(point):
    """What a table calls the text that a point shares with others."""
    unit = f"_{point.unit['name']}" if point.unit else ""
    return f"body_{point.op}_{point.engine}{unit}"


def _c_number(value):
    """A number as C spells it: fractions exactly, as hexadecimal floats."""
    return value.hex() if isinstance(value, float) else str(value)


def write_if_different(path, text):
    """Writes the file unless it holds this text already; True when it wrote."""
    path = pathlib.Path(path)
    data = text.encode("utf-8")
    if path.exists() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return True
