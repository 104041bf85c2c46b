"""The shape of templates/attention.toml: a key that is missing, unknown or of another type is one sentence that names its place."""

import itertools

ELEMENT_SIZES = {"f32": 4, "f16": 2, "bf16": 2}  # bytes
DTYPES = tuple(ELEMENT_SIZES)  # in the order of attune_dtype


class SpecError(ValueError):
    """The spec or a tuned table says something that cannot be; the message names the place."""


# Of each table: the keys that must be there, then those that may, with their types (several in a tuple: any of them).
_PROBLEM = ({"op": list, "dtype": list, "head_dim": list}, {})
_ENGINE = (
    {
        "files": list,
        "axes": dict,
        "threads": str,
        "panel": str,
        "fast_memory": str,
        "reproducible": str,
        "arithmetic": dict,
    },
    {"doc": str, "constants": dict},
)
_AXIS = ({"letter": str, "values": list}, {})
_EXPRESSION = (str, int)
_ARITHMETIC = (
    dict.fromkeys(("u_in", "u_p", "eta_p", "u_acc", "eps_exp", "qk_step", "pv_step"), _EXPRESSION),
    {},
)
_RULE = ({"expr": str, "why": str}, {"engine": str, "target": str})
_TARGET = (
    {"engines": list, "files": list, "suffix": str, "embed": bool},
    {
        "constants": dict,
        "variant": list,
        "device_classes": list,
        "family": str,
        "vendors": bool,
        "class_features": dict,
        "classes_grow": bool,
    },
)
_VARIANT = (
    {"name": str, "arch": str},
    {
        "when": dict,
        "files": list,
        "flags": list,
        "features": list,
        "constants": dict,
        "prefix": str,
    },
)
_UNIT = (
    {
        "name": str,
        "doc": str,
        **dict.fromkeys(("features", "dtypes"), list),
        "dialects": dict,
        **dict.fromkeys(("number", "lanes", "rows", "columns", "depth"), int),
        **dict.fromkeys(("instructions", "fused", "row_words", "column_words", "slots"), int),
        **dict.fromkeys(("async_copies", "row_multiple", "registers", "fast_memory"), int),
        **dict.fromkeys(("slot", "row", "column", "p"), str),
        "row_masks": list,
        **dict.fromkeys(("query", "keys", "values"), dict),
    },
    {"subnormals": str},
)
_OPERAND = ({"row": str, "chunk": str}, {})
_VALUES = ({"row": str, "chunk": str, "transposed": bool}, {"key": str, "byte": str})
_TOP = ({"problem": dict, "engine": dict, "target": dict}, {"rule": list, "matrix_unit": list})


def _fail(place, what):
    raise SpecError(f"attention.toml: {place + ': ' if place else ''}{what}")


def _shape(place, table, keys):
    required, optional = keys
    for key in required:
        if key not in table:
            _fail(place, f"the key '{key}' is missing")
    for key, value in table.items():
        kind = required.get(key, optional.get(key))
        if kind is None:
            known = ", ".join([*required, *optional])
            _fail(place, f"unknown key '{key}'; there are {known}")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) not in kinds:
            belongs = " or ".join(each.__name__ for each in kinds)
            _fail(place, f"'{key}' is of type {type(value).__name__} where {belongs} belongs")
        if kind is list and not value and key in required:
            _fail(place, f"'{key}' is empty")


def _one_of(place, key, value, known):
    if value not in known:
        _fail(place, f"{key} '{value}' is unknown; there are {', '.join(sorted(known))}")


def _check_engine(place, engine):
    _shape(place, engine, _ENGINE)
    _shape(f"{place} arithmetic", engine["arithmetic"], _ARITHMETIC)
    letters = set()
    for name, axis in engine["axes"].items():
        at = f"{place} axes.{name}"
        _shape(at, axis, _AXIS)
        letter = axis["letter"]
        if not (len(letter) == 1 and letter.isascii() and letter.islower()):
            _fail(at, f"letter '{letter}' is not one letter from a to z")
        if letter in letters:
            _fail(at, f"letter '{letter}' belongs to another axis")
        letters.add(letter)
        for value in axis["values"]:
            if type(value) is not int or value < 0:
                _fail(at, f"the value {value!r} is no integer from 0 up")


def _check_target(place, target, engines):
    _shape(place, target, _TARGET)
    for engine in target["engines"]:
        _one_of(place, "engine", engine, engines)
    for feature, beginnings in target.get("class_features", {}).items():
        if type(beginnings) is not list or not all(type(word) is str for word in beginnings):
            _fail(f"{place} class_features", f"'{feature}' is no list of words")
    axes = {axis for engine in target["engines"] for axis in engines[engine]["axes"]}
    for number, variant in enumerate(target.get("variant", ()), 1):
        at = f"{place} variant {number}"
        _shape(at, variant, _VARIANT)
        for axis in variant.get("when", {}):
            _one_of(at, "axis", axis, axes)


def _check_unit(place, unit, data):
    _shape(place, unit, _UNIT)
    for target in unit["dialects"]:
        _one_of(place, "target", target, data["target"])
    for dtype in unit["dtypes"]:
        _one_of(place, "dtype", dtype, data["problem"]["dtype"])
    for operand in ("query", "keys"):
        _shape(f"{place} {operand}", unit[operand], _OPERAND)
    _shape(f"{place} values", unit["values"], _VALUES)
    by_word = {"key", "byte"} & set(unit["values"])
    if len(by_word) != (0 if unit["values"]["transposed"] else 2):
        _fail(f"{place} values", "either transposed, or a key and a byte")
    if len({ELEMENT_SIZES[dtype] for dtype in unit["dtypes"]}) != 1:
        _fail(place, "its dtypes are not of one size")
    if [type(mask) for mask in unit["row_masks"]] != [int, int]:
        _fail(place, "row_masks are two integers, the first and the last")
    if unit["rows"] * unit["columns"] % unit["lanes"] != 0:
        _fail(place, "the lanes cannot share the sums of a step")


def check(data):
    """Raises SpecError at the first thing that is not as it should be."""
    _shape("", data, _TOP)
    _shape("[problem]", data["problem"], _PROBLEM)
    for name, engine in data["engine"].items():
        _check_engine(f"[engine.{name}]", engine)
    for name, target in data["target"].items():
        _check_target(f"[target.{name}]", target, data["engine"])
    for number, rule in enumerate(data.get("rule", ()), 1):
        place = f"[[rule]] {number}"
        _shape(place, rule, _RULE)
        for key in ("engine", "target"):
            if key in rule:
                _one_of(place, key, rule[key], data[key])
    names, served = set(), set()
    for row, unit in enumerate(data.get("matrix_unit", ()), 1):
        place = f"[[matrix_unit]] {row}"
        _check_unit(place, unit, data)
        if unit["name"] in names:
            _fail(place, f"another is called '{unit['name']}'")
        names.add(unit["name"])
        for target, dtype in itertools.product(unit["dialects"], unit["dtypes"]):
            key = (target, dtype, unit["number"])
            if key in served:
                _fail(place, f"another of {target} takes {dtype} as number {unit['number']}")
            served.add(key)
