"""Constraints of a space as expressions of Python and C++, for tables that programs load.

A table selects configurations for shapes that were not tuned, for which a configuration may violate a constraint.
"""

from __future__ import annotations

import ast
import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rocm_perf_lab.autotune.spaces.formula import Formula
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space

_PYTHON_FUNCTIONS = {
    "ceil": "math.ceil({0})",
    "ceil_div": "(-(-{0} // {1}))",
    "floor": "math.floor({0})",
    "log2": "math.log2({0})",
    "sqrt": "math.sqrt({0})",
}
"""Functions of formulas that are no functions of Python."""
_CPP_HELPERS = {
    "floor_of": """constexpr double floor_of(double value) {
    const double whole = static_cast<double>(static_cast<long long>(value));
    return whole > value ? whole - 1.0 : whole;
}""",
    "floor_div": """constexpr long long floor_div(long long one, long long other) {
    return one / other - (one % other != 0 && (one < 0) != (other < 0));
}""",
    "modulo": """constexpr long long modulo(long long one, long long other) {
    const long long rest = one % other;
    return rest != 0 && (rest < 0) != (other < 0) ? rest + other : rest;
}""",
    "power": """template <class Number>
constexpr Number power(Number base, long long exponent) {
    Number product = 1;
    for (; exponent > 0; --exponent) product *= base;
    return product;
}""",
    "least": """template <class Number>
constexpr Number least(Number one, Number other) { return other < one ? other : one; }""",
    "greatest": """template <class Number>
constexpr Number greatest(Number one, Number other) { return one < other ? other : one; }""",
    "equal": """constexpr bool equal(const char* one, const char* other) {
    for (; *one && *one == *other; ++one, ++other) {}
    return *one == *other;
}""",
}
_CPP_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_INTEGER, _FLOAT, _TEXT = "long long", "double", "const char*"
"""Types of expressions in C++; truth values are integers, as in formulas."""


@dataclass(frozen=True)
class ConstraintCode:
    """Constraints in a programming language.

    Args:
        checks: One expression per constraint.
        unchecked: Texts of constraints that cannot be expressed.
        helpers: Definitions of the functions that the expressions call.
    """

    checks: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShapeConstraints:
    """Constraints of a space that read names of shapes, also by derived values.

    Args:
        constraints: All constraints of the space.
        derived: Derived values.
        constants: Values of names that are neither parameters nor names of shapes.
    """

    constraints: Sequence[Formula] = ()
    derived: Mapping[str, Formula] = field(default_factory=dict)
    constants: Configuration = field(default_factory=dict)

    @classmethod
    def of_space(cls, space: Space) -> ShapeConstraints:
        """Return the constraints of a space."""
        return cls(space.constraints, space.derived, space.fixed)

    def python(self, shapes: Iterable[str], known: Iterable[str]) -> ConstraintCode:
        """Return expressions of Python over a mapping `values`.

        Args:
            shapes: Names of the shapes.
            known: Names in `values`.
        """
        names = {name: f"values[{name!r}]" for name in known}
        return self._translated(shapes, names, lambda tree: _python(tree, names))

    def cpp(self, shapes: Iterable[str], names: Mapping[str, tuple[str, str]]) -> ConstraintCode:
        """Return expressions of C++17.

        Args:
            shapes: Names of the shapes.
            names: Name -> its expression, and the type of that: `bool`, `int`, `long long`, `double` or `const char*`.
        """
        translator = _Cpp(names)
        code = self._translated(shapes, names, translator.truth)
        used = [text for name, text in _CPP_HELPERS.items() if name in translator.used]
        return ConstraintCode(code.checks, code.unchecked, tuple(used))

    def _translated(self, shapes: Iterable[str], names: Iterable[str], translate: Callable[[ast.expr], str]) -> ConstraintCode:
        wanted, available = set(shapes), set(names)
        checks, unchecked = [], []
        for constraint in self.constraints:
            tree = _Inlined(self.derived, self.constants).visit(copy.deepcopy(constraint.tree))
            read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - _called(tree)
            if not read & wanted:
                continue
            try:
                if not read <= available:
                    raise _UntranslatableError
                checks.append(translate(tree))
            except _UntranslatableError:
                unchecked.append(" ".join(constraint.text.split()))
        return ConstraintCode(tuple(checks), tuple(unchecked))


class _UntranslatableError(Exception):
    """The expression has no equivalent."""


def _called(tree: ast.expr) -> set[str]:
    return {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


class _Inlined(ast.NodeTransformer):
    """Expression with derived values and constants in place of their names."""

    def __init__(self, derived: Mapping[str, Formula], constants: Configuration) -> None:
        self._derived, self._constants = derived, constants

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._derived:
            found: ast.expr = self.visit(copy.deepcopy(self._derived[node.id].tree))
            return found
        if node.id not in self._constants:
            return node
        value = self._constants[node.id]
        if isinstance(value, int | float) and value < 0:
            return ast.UnaryOp(ast.USub(), ast.Constant(-value))
        return ast.Constant(value)


def _python(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return the text of an expression with other names, every operation in parentheses."""

    def text(inner: ast.expr) -> str:
        return _python(inner, names)

    match node:
        case ast.Constant(value=value):
            return repr(value)
        case ast.Name(id=name):
            return names[name]
        case ast.BoolOp(op=op, values=values):
            return f"bool({(' and ' if isinstance(op, ast.And) else ' or ').join(map(text, values))})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"({'not ' if isinstance(op, ast.Not) else '-' if isinstance(op, ast.USub) else '+'}{text(operand)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({text(left)} {_between(ast.BinOp(ast.Name('a'), op, ast.Name('b')))} {text(right)})"
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            signs = (_between(ast.Compare(ast.Name("a"), [op], [ast.Name("b")])) for op in ops)
            return f"({text(left)}{''.join(f' {sign} {text(each)}' for sign, each in zip(signs, comparators, strict=True))})"
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return f"({''.join(f'{text(element)}, ' for element in elements)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({text(body)} if {text(test)} else {text(orelse)})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _PYTHON_FUNCTIONS.get(name, f"{name}({', '.join(['{}'] * len(arguments))})").format(*map(text, arguments))
    raise _UntranslatableError


def _between(example: ast.expr) -> str:
    """Return the operator of `a + b`."""
    return ast.unparse(example)[2:-2]


class _Cpp:
    """Text and type of expressions, every operation in parentheses. `used` are the names of the helpers that they call."""

    def __init__(self, names: Mapping[str, tuple[str, str]]) -> None:
        self._names = names
        self.used: set[str] = set()

    def truth(self, node: ast.expr) -> str:
        """Return a truth value."""
        match node:
            case ast.BoolOp(op=op, values=values):
                sign = " && " if isinstance(op, ast.And) else " || "
                return f"({sign.join(self.truth(value) for value in values)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{self.truth(operand)})"
            case ast.Compare():
                return self._compared(node)
        text, kind = self.value(node)
        return f"(*({text}) != 0)" if kind == _TEXT else f"({text} != 0)"

    def value(self, node: ast.expr) -> tuple[str, str]:
        """Return text and type.

        Raises:
            _UntranslatableError: A function, or a use of text, has no equivalent.
        """
        match node:
            case ast.Constant(value=str() as value):
                return json.dumps(value), _TEXT
            case ast.Constant(value=float() as value):
                return repr(value), _FLOAT
            case ast.Constant(value=int() as value):
                return f"{int(value)}LL", _INTEGER
            case ast.Name(id=name):
                text, kind = self._names[name]
                if kind in (_TEXT, _FLOAT):
                    return text, kind
                return f"static_cast<long long>({text})", _INTEGER
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return f"static_cast<long long>({self.truth(node)})", _INTEGER
            case ast.UnaryOp(op=op, operand=operand):
                text, kind = self._number(operand)
                return f"({'-' if isinstance(op, ast.USub) else '+'}{text})", kind
            case ast.BinOp():
                return self._binary(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                (yes, no), kind = self._common([body, orelse])
                return f"({self.truth(test)} ? {yes} : {no})", kind
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._called(name, arguments)
        raise _UntranslatableError

    def _number(self, node: ast.expr) -> tuple[str, str]:
        text, kind = self.value(node)
        if kind == _TEXT:
            raise _UntranslatableError
        return text, kind

    def _common(self, nodes: Sequence[ast.expr]) -> tuple[list[str], str]:
        """Return the texts of numbers in the type that they share."""
        found = [self._number(node) for node in nodes]
        if all(kind == _INTEGER for _, kind in found):
            return [text for text, _ in found], _INTEGER
        return [text if kind == _FLOAT else f"static_cast<double>({text})" for text, kind in found], _FLOAT

    def _binary(self, node: ast.BinOp) -> tuple[str, str]:
        (left, right), kind = self._common([node.left, node.right])
        match node.op:
            case ast.Div():
                return f"(static_cast<double>({left}) / static_cast<double>({right}))", _FLOAT
            case ast.FloorDiv():
                return self._floor_div(left, right, kind), kind
            case ast.Mod() if kind == _INTEGER:
                return self._use("modulo", left, right), kind
            case ast.Mod():
                return f"({left} - {self._floor_div(left, right, kind)} * {right})", kind
            case ast.Pow():
                return self._power(node)
        if kind == _FLOAT and not isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            raise _UntranslatableError
        return f"({left} {_CPP_OPERATORS[type(node.op)]} {right})", kind

    def _power(self, node: ast.BinOp) -> tuple[str, str]:
        """Return a power whose exponent is a natural number, or integer with a constant base: the type must be known."""
        (base, kind), (exponent, other) = self._number(node.left), self._number(node.right)
        natural = isinstance(node.right, ast.Constant) and isinstance(node.right.value, int) and node.right.value >= 0
        if other != _INTEGER or not (natural or (isinstance(node.left, ast.Constant) and kind == _INTEGER)):
            raise _UntranslatableError
        return self._use("power", base, exponent), kind

    def _floor_div(self, left: str, right: str, kind: str) -> str:
        return self._use("floor_div", left, right) if kind == _INTEGER else self._use("floor_of", f"{left} / {right}")

    def _compared(self, node: ast.Compare) -> str:
        parts, left = [], node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            match operator:
                case ast.In() | ast.NotIn():
                    assert isinstance(right, ast.Tuple | ast.List | ast.Set)
                    found = " || ".join(self._equal(left, element) for element in right.elts) or "false"
                    parts.append(f"({found})" if isinstance(operator, ast.In) else f"(!({found}))")
                case ast.Eq():
                    parts.append(self._equal(left, right))
                case ast.NotEq():
                    parts.append(f"(!{self._equal(left, right)})")
                case _:
                    (one, other), _ = self._common([left, right])
                    parts.append(f"({one} {_CPP_OPERATORS[type(operator)]} {other})")
            left = right
        return f"({' && '.join(parts)})" if len(parts) > 1 else parts[0]

    def _equal(self, left: ast.expr, right: ast.expr) -> str:
        """Return a comparison, which is false between text and numbers."""
        (one, kind), (other, other_kind) = self.value(left), self.value(right)
        if (kind == _TEXT) != (other_kind == _TEXT):
            return "false"
        return self._use("equal", one, other) if kind == _TEXT else f"({one} == {other})"

    def _called(self, name: str, arguments: Sequence[ast.expr]) -> tuple[str, str]:
        texts, kind = self._common(arguments)
        first = texts[0]
        match name:
            case "min" | "max":
                helper = "least" if name == "min" else "greatest"
                for text in texts[1:]:
                    first = self._use(helper, first, text)
                return first, kind
            case "abs":
                return f"({first} < 0 ? -{first} : {first})", kind
            case "ceil_div":
                return f"(-{self._floor_div(f'(-{first})', texts[1], kind)})", kind
            case "float":
                return f"static_cast<double>({first})", _FLOAT
            case "int" | "floor" | "ceil" if kind == _INTEGER:
                return first, kind
            case "int":
                return f"static_cast<long long>({first})", _INTEGER
            case "floor":
                return f"static_cast<long long>({self._use('floor_of', first)})", _INTEGER
            case "ceil":
                return f"(-static_cast<long long>({self._use('floor_of', f'-({first})')}))", _INTEGER
        raise _UntranslatableError

    def _use(self, helper: str, *arguments: Any) -> str:
        self.used.add(helper)
        return f"detail::{helper}({', '.join(arguments)})"
