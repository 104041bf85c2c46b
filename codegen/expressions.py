"""Arithmetic and boolean expressions of the spec: numbers, names and operators, and nothing else."""

import ast
import functools

from schema import SpecError


def _power(base, exponent):
    if abs(exponent) > 1000:
        raise SpecError(f"the exponent {exponent} is beyond 1000")
    return base**exponent


_OPERATORS = (
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.USub,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.And,
    ast.Or,
)
_OPERATIONS = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare)


class _Powers(ast.NodeTransformer):
    """Makes every ** a call of _power, which refuses to fill the memory."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        return ast.Call(ast.Name("_power", ast.Load()), [node.left, node.right], [])


@functools.lru_cache(maxsize=None)
def _compiled(text):
    """(code, names it reads) of an expression that holds numbers, names and operators, and nothing else."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise SpecError(f"expression '{text}' is malformed") from None
    read = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            read.add(node.id)
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, (int, float)):
                raise SpecError(f"expression '{text}': cannot evaluate '{ast.unparse(node)}'")
        elif isinstance(node, ast.expr) and not isinstance(node, _OPERATIONS):
            raise SpecError(f"expression '{text}': cannot evaluate '{ast.unparse(node)}'")
        elif isinstance(node, (ast.operator, ast.unaryop, ast.cmpop)):
            if not isinstance(node, _OPERATORS):
                raise SpecError(f"expression '{text}' has an operator that is not known here")
    tree = ast.fix_missing_locations(_Powers().visit(tree))
    return compile(tree, text, "eval"), sorted(read)


def evaluate(text, values):
    """The value of an arithmetic or boolean expression over the given names."""
    code, read = _compiled(text)
    for name in read:
        if name not in values:
            raise SpecError(f"expression '{text}': cannot evaluate '{name}'")
    try:
        return eval(code, {"__builtins__": {}, "_power": _power}, values)
    except ArithmeticError as error:
        raise SpecError(f"expression '{text}': {error}") from None
