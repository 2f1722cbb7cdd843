"""Huge spaces with tight constraints: partial configurations that cannot be completed are dropped, and no others."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.autotune.spaces.chains import Enumeration
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.formula import compile_formula
from rocm_perf_lab.autotune.spaces.guided_draws import GuidedEnumeration
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.spaces.separable import separable
from rocm_perf_lab.autotune.spaces.space import SpaceError
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.core.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.autotune.spaces.space import Space

TEN = {f"p{number}": list(range(1, 11)) for number in range(12)}
BITS = {f"p{number}": [False, True] for number in range(50)}
SUM = " + ".join(TEN)
PRODUCT = " * ".join(TEN)
VALUES: dict[str, tuple[Any, ...]] = {
    "a": (0, 1, 2, 3, 8),
    "b": (-3, -1, 0, 2, 5),
    "c": (0.5, 1.0, 4.0),
    "t": ("x", "y"),
    "f": (False, True),
}
FIXED = {"k": 3, "s": "x"}


def built(parameters: dict[str, Any], *constraints: str, **more: Any) -> Space:
    return build_space(describe({"parameters": parameters, "constraints": constraints, **more}, where="test"))


@pytest.mark.parametrize(
    ("parameters", "constraint", "count"),
    [
        (TEN, f"{SUM} == 12", 1),
        (TEN, f"{SUM} == 14", math.comb(13, 2)),
        (TEN, f"{SUM} >= 119", 13),
        (TEN, f"{PRODUCT} == 10**12", 1),
        (TEN, f"{SUM} == 13 and p3 == 2", 1),
        ({name: list(range(1, 101)) for name in list(TEN)[:9]}, " * ".join(list(TEN)[:9]) + " == 97**9", 1),
        (BITS, " + ".join(BITS) + " == 3", math.comb(50, 3)),
        (BITS, "3 == " + " + ".join(BITS), math.comb(50, 3)),
        (BITS, "not (" + " or ".join(BITS) + ")", 1),
        (BITS, " + ".join(f"{2**i} * p{i}" for i in range(50)) + " == 123456789012345", 1),
        (BITS, " - ".join(list(BITS)[:25]) + " == " + " + ".join(list(BITS)[25:]) + " + 1 - p7 * 1", 2),
    ],
)
def test_all_configurations_of_a_tight_space_are_found(parameters: dict[str, Any], constraint: str, count: int) -> None:
    space = built(parameters, constraint)

    assert len(space) == count
    assert not space.violated(space.configuration(count - 1))


@pytest.mark.parametrize(
    "constraint", [f"{SUM} > 120", f"({SUM}) % 2 == 1", f"{PRODUCT} == 11", f"{SUM} == 11", f"max({', '.join(TEN)}) < 1"]
)
def test_an_empty_space_is_proved_and_names_the_constraint(constraint: str) -> None:
    even = {name: [2 * value for value in values] for name, values in TEN.items()}
    with pytest.raises(SpaceError, match="the space is empty: constraint") as caught:
        built(even if "% 2" in constraint else TEN, constraint)

    assert constraint in str(caught.value)


def test_derived_sums_are_followed() -> None:
    names = [f"p{i}" for i in range(18)]
    derived = {"s0": "p0", **{f"s{i}": f"s{i - 1} + p{i}" for i in range(1, 18)}}
    space = built({name: list(range(1, 9)) for name in names}, "s17 == 19", derived=derived)

    assert len(space) == 18


@pytest.mark.parametrize(
    ("parameters", "constraints", "size"),
    [
        (TEN, [f"({' + '.join(f'{3**i} * p{i}' for i in range(12))}) % 100003 == 17"], 1e12 / 100003),
        ({f"p{i}": list(range(1, 1001)) for i in range(6)}, ["p0 + p1 + p2 + p3 + p4 + p5 == 3000", "p2 * p3 <= 5000"], None),
        (BITS, [f"{' + '.join(f'{i * 7 % 13 + 1} * p{i}' for i in range(50))} <= 60"], None),
    ],
)
def test_many_configurations_of_a_tight_space_are_drawn(
    parameters: dict[str, Any], constraints: list[str], size: float | None
) -> None:
    space = built(parameters, *constraints)

    assert isinstance(space, LazySpace)
    assert len(space.codes) > 500
    assert space.allowed(space.codes).all()
    assert size is None or len(space) == pytest.approx(size, rel=0.3)


def expressions(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["a", "b", "c", "f", "d", "k", "0", "1", "2", "3", "7", "-2", "0.5"])
    if depth == 0:
        return leaves
    inner = expressions(depth - 1)
    operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&"])
    return st.one_of(
        leaves,
        st.tuples(inner, operators, inner).map(lambda part: f"({part[0]} {part[1]} {part[2]})"),
        st.tuples(st.sampled_from(["abs", "ceil", "floor", "int", "sqrt", "log2"]), inner).map(
            lambda part: f"{part[0]}({part[1]})"
        ),
        st.tuples(st.sampled_from(["max", "min", "ceil_div"]), inner, inner).map(lambda part: f"{part[0]}({part[1]}, {part[2]})"),
        st.tuples(inner, conditions(depth - 1), inner).map(lambda part: f"({part[0]} if {part[1]} else {part[2]})"),
    )


def conditions(depth: int) -> st.SearchStrategy[str]:
    inner = expressions(depth)
    simple = st.one_of(
        st.tuples(inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner).map(" ".join),
        st.sampled_from(
            ["t == 'x'", "t != s", "t in ('y', 'z')", "a in (1, 3)", "b not in (0, 2)", "f", "t == a", "0 < a <= 3 != b"]
        ),
    )
    if depth == 0:
        return simple
    other = conditions(depth - 1)
    return st.one_of(
        simple,
        st.tuples(other, st.sampled_from(["and", "or"]), other).map(lambda part: f"({' '.join(part)})"),
        other.map(lambda part: f"not ({part})"),
    )


def codes_of(kind: type[Enumeration], constraints: Sequence[str], **more: Any) -> np.ndarray[Any, Any] | None:
    names = {*VALUES, *FIXED}
    derived = {"d": compile_formula("a * b + k", where="test", known=names)}
    formulas = [compile_formula(text, where="test", known={*names, "d"}) for text in constraints]
    if kind is GuidedEnumeration:
        more["separables"] = {formula.text: separable(formula, VALUES, {**FIXED, **derived}) for formula in formulas}
    try:
        return kind(VALUES, FIXED, derived, formulas, "test", **more).run()
    except SpaceError:
        return None


@settings(max_examples=300, deadline=None)
@given(st.lists(conditions(2), min_size=1, max_size=3))
def test_no_valid_configuration_is_dropped(constraints: list[str]) -> None:
    try:
        expected = codes_of(Enumeration, constraints)
    except ExpressionError:
        return
    found = codes_of(GuidedEnumeration, constraints)

    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert np.array_equal(found, expected)


def test_the_overflow_of_a_product_has_its_own_hint() -> None:
    with pytest.raises(ExpressionError, match="compare logarithms"):
        built({name: [2**i for i in range(10)] for name in TEN}, f"{PRODUCT} == 2**100")


def test_logarithms_of_products_are_followed() -> None:
    space = built(
        {name: [2**i for i in range(10)] for name in TEN},
        " + ".join(f"log2({name})" for name in TEN) + " >= 107",
        *(f"{left} <= {right}" for left, right in pairwise(TEN)),
    )

    assert len(space) == 2  # all are 512, or the first is 256
