"""Spaces: descriptions, enumeration, expressions, and invalid input."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.formula import compile_formula
from rocm_perf_lab.autotune.spaces.space import Space, SpaceError
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.spaces.space_files import load_space, space_of_list
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from pathlib import Path


def space(**content: Any) -> Space:
    return build_space(describe(content, where="test"), where="test")


def rows(a: Space) -> list[tuple[Any, ...]]:
    return [tuple(a.configuration(i).values()) for i in range(len(a))]


def test_lists_ranges_derived_fixed_and_constraints_become_configurations() -> None:
    a = space(
        parameters={"x": {"start": 16, "stop": 64, "factor": 2}, "y": {"start": 1, "stop": 3}, "kind": ["row", "column"]},
        fixed={"warps": 4},
        derived={"area": "x * y", "threads": "area * warps"},
        constraints=["threads <= 256", "kind == 'row' or y == 1"],
        defaults={"x": 16, "y": 2, "kind": "row"},
    )

    assert rows(a) == [
        *[(16, 1, "row"), (16, 1, "column"), (16, 2, "row"), (16, 3, "row")],
        *[(32, 1, "row"), (32, 1, "column"), (32, 2, "row"), (64, 1, "row"), (64, 1, "column")],
    ]
    assert a.combinations == 18
    assert a.defaults == {"x": 16, "y": 2, "kind": "row"}
    assert a.complete(a.configuration(3)) == {"x": 16, "y": 3, "kind": "row", "warps": 4, "area": 48, "threads": 192}
    assert a.column("x").tolist() == [16, 16, 16, 16, 32, 32, 32, 64, 64]


def test_a_range_of_fractions_ends_at_its_stop() -> None:
    assert len(space(parameters={"x": {"start": 0.1, "stop": 0.5, "step": 0.1}})) == 5


def test_configurations_are_found_by_their_values() -> None:
    a = space(parameters={"x": [3, 1, 2], "flag": [True, False]}, constraints=["x > 1 or flag"])

    assert [a.index(a.configuration(i)) for i in range(len(a))] == list(range(5))
    assert a.index({"x": 1, "flag": False}) is None
    assert a.index({"x": 7, "flag": True}) is None
    assert a.index({"x": 3}) is None


def test_neighbours_differ_in_one_parameter() -> None:
    a = space(parameters={"x": [1, 2, 3], "y": [1, 2]})

    assert [rows(a)[i] for i in a.neighbours(0)] == [(1, 2), (2, 1), (3, 1)]


@pytest.mark.parametrize("parameters", [4, 30])  # the keys of thirty parameters do not fit 64 bits
def test_neighbours_agree_with_a_comparison_of_all_rows(parameters: int) -> None:
    random = np.random.default_rng(parameters)
    start = random.integers(0, 7, parameters)
    codes = np.tile(start, (60, 1))
    for row in codes[1:]:  # one or two parameters away from the first
        changed = random.choice(parameters, random.integers(1, 3), replace=False)
        row[changed] = random.integers(0, 7, len(changed))
    codes = np.unique(codes, axis=0).astype(np.int32)
    a = Space({f"p{i}": tuple(range(7)) for i in range(parameters)}, codes)

    for row in range(len(a)):
        assert a.neighbours(row).tolist() == np.flatnonzero((codes != codes[row]).sum(axis=1) == 1).tolist()


def test_equal_spaces_have_equal_fingerprints() -> None:
    a, b = space(parameters={"x": [1, 2, 3]}, constraints=["x < 3"]), space(parameters={"x": [1, 2, 3]}, constraints=["x <= 2"])

    assert a.fingerprint() == b.fingerprint()
    assert a.fingerprint() != space(parameters={"x": [1, 2, 3]}).fingerprint()


_ATOMS = st.sampled_from(["a", "b", "c", "2", "3", "(a + b)", "(a * c)", "min(a, b)", "abs(b - c)", "(a if b > 1 else c)"])
_COMPARISON = st.builds("{} {} {}".format, _ATOMS, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), _ATOMS)
_DIVISIONS = st.builds("({} != 0 and {} % {} == 0)".format, st.just("a"), _ATOMS, st.just("a"))
_MEMBERS = st.builds("{} in (1, 2, {})".format, _ATOMS, _ATOMS)
_CONSTRAINT = st.one_of(
    _COMPARISON,
    _DIVISIONS,
    _MEMBERS,
    st.builds("{} or not {}".format, _COMPARISON, _COMPARISON),
    st.builds("1 < {} <= {}".format, _ATOMS, _ATOMS),
)
_VALUES = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True)


@settings(deadline=None, max_examples=100)
@given(a=_VALUES, b=_VALUES, c=_VALUES, constraints=st.lists(_CONSTRAINT, max_size=4))
def test_enumeration_agrees_with_brute_force(a: list[int], b: list[int], c: list[int], constraints: list[str]) -> None:
    code = [compile(text, "constraint", "eval") for text in constraints]
    scope = {"min": min, "abs": abs}
    expected = [
        values
        for values in itertools.product(a, b, c)
        if all(eval(one, scope, dict(zip("abc", values, strict=True))) for one in code)
    ]
    parameters = {"a": a, "b": b, "c": c}

    if expected:
        assert rows(space(parameters=parameters, constraints=constraints)) == expected
    else:
        with pytest.raises(SpaceError, match="the space is empty: constraint"):
            space(parameters=parameters, constraints=constraints)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7 // 2", 3), ("-7 // 2", -4), ("-7 % 4", 1), ("7 / 2", 3.5), ("2 ** 10", 1024), ("2 ** -1", 0.5), ("1 << 4", 16),
        ("6 & 3", 2), ("ceil_div(7, 2)", 4), ("ceil(x / 2)", 2), ("floor(-0.5)", -1), ("int(-1.5)", -1), ("log2(8)", 3),
        ("max(1, x, 2)", 3), ("sqrt(9)", 3), ("x == 'x'", 0), ("name == 'row'", 1), ("name in ('a', 'row')", 1),
        ("flag + 1", 2), ("not flag", 0), ("5 if x == 3 else 1 // 0", 5), ("x == 0 or 6 % x == 0", 1), ("x not in (1, 2)", 1),
    ],
)  # fmt: skip
def test_expressions_have_the_semantics_of_python(text: str, value: float) -> None:
    columns = {"x": np.array([3]), "name": np.array(["row"]), "flag": np.array([True])}

    assert compile_formula(text, where="test", known=set(columns)).over(columns, 1).tolist() == [value]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nose > 1", "unknown name 'nose'"), ("x.real > 1", "Attribute is not allowed"),
        ("__import__('os')", "unknown function"),
        ("(lambda: 1)()", "Call is not allowed"), ("[y for y in (1, 2)]", "ListComp is not allowed"),
        ("x[0]", "Subscript is not"),
        ("x >", "cannot read"), ("x := 3", "cannot read"), ("min(x)", "min needs 2 or more arguments"),
        ("x is 3", "Compare is not"),
        ("ceil_div(x, y=1)", "Call is not allowed"),
        ("f'{x}'", "JoinedStr is not"), ("1j", "Constant is not"),
        ("x" * 3000, "3000 characters"),
        ("-" * 500 + "x", "nested too deeply"),
    ],
)  # fmt: skip
def test_forbidden_expressions_are_refused_before_anything_is_evaluated(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message.replace("(", r"\(")) as error:
        space(parameters={"x": [1, 2]}, constraints=["x > 0", text])

    assert error.value.where == "test, constraints[1]"
    assert error.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 // x == 0", "divide by zero"), ("x ** 60 > 0", "too large"), ("1 << x * 40 > 0", "too large|shift"),
        ("log2(x) > 0", "divide by zero"), ("s + 1 > 0", "text can only be compared"), ("1 << (x - 9) > 0", "shift"),
    ],
)  # fmt: skip
def test_an_evaluation_error_names_the_expression(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        space(parameters={"x": [0, 1, 3]}, fixed={"s": "text"}, constraints=[text])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"parameters": {"x": [1, 2, 1]}}, "parameter x lists 1 more than once"),
        ({"parameters": {"x": [1, True]}}, "more than once"),
        ({"parameters": {"x": []}}, "parameter x has no values"),
        ({"parameters": {}}, "without parameters"),
        ({"parameters": {"x": {"start": 4, "stop": 1}}}, "stop 1 is below start 4"),
        ({"parameters": {"x": {"start": 0, "stop": 8, "factor": 2}}}, "above 0"),
        ({"parameters": {"x": {"start": 1, "stop": 8, "factor": 2, "step": 1}}}, "exclude each other"),
        ({"parameters": {"x": {"start": 0, "stop": 1e9}}}, "more than 100000 values"),
        ({"parameters": {"x": [float("nan")]}}, "finite"),
        ({"parameters": {"x": [[1]]}}, "parameters.x"),
        ({"parameters": {"x y": [1]}}, "'x y' cannot be a name"),
        ({"parameters": {"max": [1]}}, "'max' cannot be a name"),
        ({"parameters": {"x": [1]}, "fixed": {"x": 2}}, "x is in both parameters and fixed"),
        ({"parameters": {"x": [1]}, "derived": {"z": "y", "y": "x"}}, "unknown name 'y'"),
        ({"parameters": {"x": [1]}, "defaults": {"x": 2}}, "not one of its values"),
        ({"parameters": {"x": [1], "y": [1]}, "defaults": {"x": 1}}, "differ in y"),
        ({"parameters": {"x": [1, 2]}, "constraints": ["x > 1"], "defaults": {"x": 1}}, "the defaults violate 'x > 1'"),
        ({"parameters": {"x": [1, 2]}, "constraints": ["x < 3", "x > 5"]}, "constraint 'x > 5' excludes all of 2 configurations"),
        ({"parameters": {"x": [1, 2]}, "fixed": {"n": 1}, "constraints": ["n > 5"]}, "'n > 5' excludes all configurations"),
        ({"parameter": {"x": [1, 2]}}, "is not a key of a space"),
    ],
)  # fmt: skip
def test_bad_descriptions_are_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError) as error:
        space(**content)

    assert message in str(error.value)
    assert error.value.where is not None and "test" in error.value.where


def test_a_list_of_configurations_is_a_space(tmp_path: Path) -> None:
    path = tmp_path / "search_space.json"
    listed = [{"BLOCK_M": 64, "kind": "b"}, {"BLOCK_M": 16, "kind": "a"}, {"BLOCK_M": 16, "kind": "b"}]
    path.write_text(json.dumps(listed))

    a = load_space(path)

    assert [a.configuration(i) for i in range(3)] == listed
    assert a.values == {"BLOCK_M": (16, 64), "kind": ("b", "a")}


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([], "empty list"),
        ([{"a": 1}, {"a": 1}], "more than once"),
        ([{"a": 1}, {"b": 1}], "some configurations lack"),
        ([3], "maps names to values"),
        ([{"a": None}], "a is None"),
    ],
)
def test_bad_lists_are_refused(listed: list[Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        space_of_list(listed, where="test")


@pytest.mark.parametrize("text", ["just words", "a: [1\nb: }", "", "\x00\x01", "12"])
def test_a_file_that_is_neither_yaml_nor_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text)

    with pytest.raises(SpaceError, match=r"neither a YAML mapping nor a JSON list|cannot read the space") as error:
        load_space(path)

    assert error.value.where == str(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="cannot read the space"):
        load_space(tmp_path / "none.yaml")


def test_a_million_combinations_with_ten_constraints_take_seconds() -> None:
    parameters = {name: list(range(1, 11)) for name in "abcdef"}
    constraints = [
        *["(a + b + c + d + e + f) % 2 == 0", "a * b <= 90", "b * c <= 90", "c * d <= 90", "d * e <= 90", "e * f <= 90"],
        *["a + f > 2", "a * b * c * d * e * f <= 500000", "a != 7 or b != 7", "max(a, b, c) >= 2"],
    ]
    start = time.process_time()

    a = space(parameters=parameters, constraints=constraints)

    assert time.process_time() - start < 10  # 0.4 s on an idle machine; a minute for one combination after the other
    assert a.combinations == 10**6
    assert 100_000 < len(a) < 500_000


def test_constraints_are_applied_before_the_product_is_complete() -> None:
    a = space(parameters={f"p{i}": list(range(20)) for i in range(10)}, constraints=[f"p{i} == p{i + 1}" for i in range(9)])

    assert len(a) == 20
    assert a.index(dict.fromkeys(a.names, 7)) == 7


def test_the_shipped_space_of_matrix_multiplication_is_valid() -> None:
    a = load_space(resource_dir("conf") / "space" / "gemm.yaml")

    assert len(a) > 50
    assert a.defaults is not None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"parameters": {"x": 5}}, "parameters.x (5) is neither a list of values nor a range"),
        ({"parameters": ["x"]}, "parameters is not a mapping of names to values"),
        ({"parameters": {"x": [1, None]}}, "parameters.x.1 (null) is not a value"),
        ({"parameters": {"list": [[1]]}}, "parameters.list.0 is not a value"),
        ({"parameters": {"x": {"start": 1}}}, "parameters.x.stop is missing"),
        ({"parameters": {"x": {"start": "a", "stop": 2}}}, 'parameters.x.start ("a") is not a number'),
        ({"parameters": {"x": {"start": 1, "stop": 2, "step": 0}}}, "parameters.x.step (0) is not above 0"),
        ({"parameters": {"x": {"start": 1, "stop": 2, "end": 0}}}, "parameters.x.end is not a key of a range"),
        ({"params": {"x": [1]}}, "params is not a key of a space"),
        ({"constraints": "x > 1"}, 'constraints ("x > 1") is not a list'),
        ({"derived": {"d": 5}}, "derived.d (5) is not text"),
        ({"fixed": {"k": [1]}}, "fixed.k is not a value"),
    ],
)
def test_an_invalid_description_is_explained_in_terms_of_yaml(content: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        describe(content, where="space.yaml")

    assert message in caught.value.what
    assert (caught.value.hint is not None and "for example" in caught.value.hint) or "keys:" in str(caught.value.hint)


def test_a_syntax_error_of_a_space_file_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("parameters:\n  x: [1, 2\n")

    with pytest.raises(SpaceError, match="line 2"):
        load_space(tmp_path / "space.yaml")
