"""Safe evaluation of the expressions in YAML files; `eval` is never used.

Expressions contain arithmetic, comparisons and a few functions of named values. :func:`evaluate_array` adds the NumPy functions
that references of kernels need. A name may be a Python keyword: a value named `in` hides the operator `in`.
"""

from __future__ import annotations

import ast
import keyword
import math
import operator
import tokenize
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

Number = int | float


class ExpressionError(LabError):
    """Expression with forbidden syntax, an unknown name, or a value of the wrong kind."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the smallest integer that is not less than numerator / denominator."""
    return -(-numerator // denominator)


_SCALAR_FUNCTIONS: dict[str, Any] = {
    "abs": abs,
    "ceil": math.ceil,
    "ceil_div": ceil_div,
    "float": float,
    "floor": math.floor,
    "int": int,
    "log2": math.log2,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}

_ARRAY_FUNCTIONS = (
    "abs", "arange", "argmax", "argmin", "bincount", "clip", "concatenate", "cos", "cumprod", "cumsum", "diff", "dot", "einsum",
    "erf", "exp", "exp2", "expand_dims", "float16", "float32", "float64", "floor", "full", "int32", "int64", "log",
    "log1p", "log2", "matmul", "max", "maximum", "mean", "min", "minimum", "ones", "pad", "power", "prod", "reshape", "roll",
    "round", "sign", "sin", "sort", "sqrt", "square", "sum", "tanh", "tile", "transpose", "uint32", "var", "where",
    "zeros",
)  # fmt: skip


def evaluate(expression: Number | str, names: Mapping[str, Any], *, where: str) -> Any:
    """Return the value of an expression; numbers are returned unchanged.

    Args:
        expression: Number or expression.
        names: Values of the names in the expression.
        where: Key path of the expression, for errors.

    Raises:
        ExpressionError: The expression cannot be evaluated.
    """
    if not isinstance(expression, str):
        return expression
    if expression in names:  # Fast path: most shapes are a single name, and creating an evaluator is slow.
        return names[expression]
    return _run(expression, names, dict(_SCALAR_FUNCTIONS), where)


def evaluate_integer(expression: Number | str, names: Mapping[str, Any], *, where: str) -> int:
    """Return the value of an expression for a count or size; see :func:`evaluate`.

    Raises:
        ExpressionError: The expression cannot be evaluated, or its value is not a whole number.
    """
    value = evaluate(expression, names, where=where)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ExpressionError(f"{expression!r} is {value!r}, not a whole number", where=where, hint="use // or ceil_div(a, b)")
    return int(value)


def evaluate_array(expression: str, names: Mapping[str, Any], *, where: str) -> Any:
    """Return the value of a NumPy expression, for example `exp(x) / sum(exp(x), axis=1, keepdims=True)`.

    Raises:
        ExpressionError: The expression cannot be evaluated.
    """
    import numpy as np

    functions: dict[str, Any] = {name: getattr(np, name) for name in _ARRAY_FUNCTIONS if hasattr(np, name)}
    functions |= {"ceil_div": ceil_div, "int": int, "float": float, "erf": np.vectorize(math.erf, otypes=[float])}
    # simpleeval's operators limit the length of results; the limit is intended for strings, not arrays.
    operators = {ast.Add: operator.add, ast.Mult: operator.mul, ast.Pow: operator.pow, ast.MatMult: operator.matmul}
    return _run(expression, names, functions, where, operators)


def _run(
    expression: str,
    names: Mapping[str, Any],
    functions: dict[str, Any],
    where: str,
    operators: Mapping[type[ast.operator], Any] | None = None,
) -> Any:
    from simpleeval import DEFAULT_OPERATORS, EvalWithCompoundTypes, InvalidExpression

    renamed = {name: f"renamed_keyword_{name}" if keyword.iskeyword(name) else name for name in names}
    evaluator = EvalWithCompoundTypes(
        names={renamed[name]: value for name, value in names.items()},
        functions=functions,
        operators={**DEFAULT_OPERATORS, **(operators or {})},
    )
    try:
        text = _with_renamed_keywords(expression.strip(), renamed)
        return evaluator.eval(text, _parsed(text))
    except (InvalidExpression, SyntaxError, ArithmeticError, TypeError, ValueError, KeyError, AttributeError) as error:
        known = ", ".join(sorted(names)) or "none"
        raise ExpressionError(f"cannot evaluate {expression!r}: {error}", where=where, hint=f"known names: {known}") from error


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.stmt:
    """Return the syntax tree of an expression; evaluation does not change it.

    Raises:
        InvalidExpression: The text is empty.
        SyntaxError: The text is not an expression.
    """
    from simpleeval import SimpleEval

    parsed: ast.stmt = SimpleEval.parse(text)
    return parsed


def _with_renamed_keywords(expression: str, renamed: Mapping[str, str]) -> str:
    """Replace the names that are Python keywords, which the parser would read as operators or statements."""
    if all(name == new for name, new in renamed.items()):
        return expression
    try:
        tokens = [
            (token.type, renamed.get(token.string, token.string) if token.type == tokenize.NAME else token.string)
            for token in tokenize.generate_tokens(StringIO(expression).readline)
        ]
    except (tokenize.TokenError, IndentationError):
        return expression  # The evaluator reports the syntax error.
    return tokenize.untokenize(tokens).strip()
