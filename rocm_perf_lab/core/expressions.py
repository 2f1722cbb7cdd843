"""Safe evaluation of the expressions that YAML files may hold; `eval` is never used.

Arithmetic, comparison and a few functions over named values. NumPy references are evaluated with
:func:`evaluate_array`, which adds the array functions that a kernel's truth needs.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

Number = int | float


class ExpressionError(LabError):
    """An expression with forbidden syntax, an unknown name, or a value of the wrong kind."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Smallest integer not below numerator / denominator."""
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
    "abs", "arange", "argmax", "argmin", "bincount", "clip", "concatenate", "cos", "cumsum", "diff", "dot", "einsum",
    "erf", "exp", "exp2", "expand_dims", "float16", "float32", "float64", "floor", "full", "int32", "int64", "log",
    "log1p", "log2", "matmul", "max", "maximum", "mean", "min", "minimum", "ones", "pad", "power", "reshape", "roll",
    "round", "sign", "sin", "sort", "sqrt", "square", "sum", "tanh", "tile", "transpose", "uint32", "var", "where",
    "zeros",
)  # fmt: skip


def evaluate(expression: Number | str, names: Mapping[str, Any], *, where: str) -> Any:
    """The value of `expression` over `names`; numbers pass through.

    Raises:
        ExpressionError: With the expression, the place it stands in (`where`) and the names that it may use.
    """
    if not isinstance(expression, str):
        return expression
    return _run(expression, names, dict(_SCALAR_FUNCTIONS), where)


def evaluate_integer(expression: Number | str, names: Mapping[str, Any], *, where: str) -> int:
    """Like :func:`evaluate`, for counts and sizes.

    Raises:
        ExpressionError: Also where the value is not a whole number.
    """
    value = evaluate(expression, names, where=where)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ExpressionError(f"{expression!r} is {value!r}, not a whole number", where=where, hint="use // or ceil_div(a, b)")
    return int(value)


def evaluate_array(expression: str, names: Mapping[str, Any], *, where: str) -> Any:
    """A NumPy expression over arrays and params, for example `exp(x) / sum(exp(x), axis=1, keepdims=True)`."""
    import numpy as np

    functions: dict[str, Any] = {name: getattr(np, name) for name in _ARRAY_FUNCTIONS if hasattr(np, name)}
    functions |= {"ceil_div": ceil_div, "int": int, "float": float, "erf": np.vectorize(math.erf, otypes=[float])}
    # The evaluator's own operators limit the length of what they make, which is meant for strings, not arrays.
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

    evaluator = EvalWithCompoundTypes(
        names=dict(names), functions=functions, operators={**DEFAULT_OPERATORS, **(operators or {})}
    )
    try:
        return evaluator.eval(expression.strip())
    except (InvalidExpression, SyntaxError, ArithmeticError, TypeError, ValueError, KeyError, AttributeError) as error:
        known = ", ".join(sorted(names)) or "none"
        raise ExpressionError(
            f"cannot evaluate {expression!r}: {error}", where=where, hint=f"names that may be used: {known}"
        ) from error
