"""Expressions in YAML files: values, and syntax that is refused."""

import numpy as np
import pytest

from rocm_perf_lab.core.expressions import ExpressionError, evaluate, evaluate_array, evaluate_integer


def test_a_number_is_its_own_value() -> None:
    assert evaluate(7, {}, where="here") == 7


@pytest.mark.parametrize(
    ("expression", "value"),
    [("rows * cols", 24), ("ceil_div(rows, 5)", 2), ("rows // 4 + 1", 2), ("max(rows, cols)", 6), ("2 ** cols", 16)],
)
def test_arithmetic_over_params(expression: str, value: int) -> None:
    assert evaluate_integer(expression, {"rows": 6, "cols": 4}, where="here") == value


def test_a_fraction_is_not_a_count() -> None:
    with pytest.raises(ExpressionError, match="not a whole number") as caught:
        evaluate_integer("cols / 3", {"cols": 4}, where="kernel.grid[0]")
    assert caught.value.where == "kernel.grid[0]"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate("row * 2", {"rows": 6}, where="here")
    assert "rows" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "(1).__class__.__bases__",
        "open('/etc/passwd')",
        "[x for x in (1).__class__.__mro__]",
        "lambda: 1",
        "9 ** 9 ** 9 ** 9",
        "1 +",
    ],
)
def test_forbidden_syntax_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(expression, {}, where="here")


def test_an_array_expression_uses_numpy_functions_with_keywords() -> None:
    x = np.array([[1.0, 3.0], [2.0, 2.0]])

    result = evaluate_array("x / sum(x, axis=1, keepdims=True)", {"x": x}, where="here")

    np.testing.assert_array_equal(result, [[0.25, 0.75], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("expression", "value"),
    [("in + lambda", 5), ("max(in, lambda) * 2", 6), ("1 if in > 1 else 0", 1), ("[in, 'in'][0]", 2)],
)
def test_names_may_be_python_keywords(expression: str, value: int) -> None:
    assert evaluate(expression, {"in": 2, "lambda": 3}, where="here") == value


def test_a_keyword_that_is_no_name_stays_an_operator() -> None:
    assert evaluate("1 if n in [2, 4] else 0", {"n": 4}, where="here") == 1


@pytest.mark.parametrize("expression", ["in * (2", "in +", "in\n  + 1"])
def test_wrong_syntax_next_to_a_keyword_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError, match="cannot evaluate") as caught:
        evaluate(expression, {"in": 2}, where="here")

    assert "in" in (caught.value.hint or "")
