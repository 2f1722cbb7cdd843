"""Is the output right: |actual - expected| <= atol + rtol * |expected|, for every type that a kernel may write."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.verify.outputs import OutputCheck, VerificationError, ulp_histogram, verify_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = Tolerance(rtol=0, atol=0)
FLOAT_TYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
]
INTEGER_TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def check(actual: Any, expected: Any, dtype: Any = np.float64, tolerance: Tolerance | None = EXACT) -> OutputCheck:
    tolerances = {} if tolerance is None else {"y": tolerance}
    result = verify_outputs({"y": np.array(actual, dtype)}, {"y": np.array(expected, dtype)}, tolerances)
    return result.checks[0]


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_equal_values_of_every_float_type_pass_at_zero_tolerance(dtype: Any) -> None:
    found = check([0, 0.5, -1, 2], [0, 0.5, -1, 2], dtype)

    assert found.passed
    assert (found.elements, found.mismatches, found.max_abs_error, found.max_rel_error) == (4, 0, 0.0, 0.0)


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_a_wrong_value_of_every_float_type_is_found(dtype: Any) -> None:
    found = check([0, 0.5, -1, 2], [0, 0.5, -1, 4], dtype)

    assert (found.passed, found.mismatches, found.worst_index) == (False, 1, (3,))
    assert (found.actual, found.expected, found.max_abs_error, found.max_rel_error) == (2, 4, 2, 0.5)


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_nan_matches_only_nan(dtype: Any) -> None:
    assert check([math.nan, 1], [math.nan, 1], dtype).passed
    assert check([math.nan, 1], [1, 1], dtype).worst_index == (0,)
    assert check([1, 1], [1, math.nan], dtype).worst_index == (1,)


@pytest.mark.parametrize(
    ("actual", "expected", "passed"),
    [
        (math.inf, math.inf, True),
        (-math.inf, -math.inf, True),
        (-math.inf, math.inf, False),
        (math.inf, 1.0, False),
        (1.0, math.inf, False),  # although rtol * inf would allow anything
        (math.nan, math.inf, False),
        (math.inf, math.nan, False),
    ],
)
def test_infinities_must_have_equal_signs(actual: float, expected: float, passed: bool) -> None:
    assert check([actual], [expected], tolerance=Tolerance(rtol=0.5, atol=1.0)).passed is passed


@pytest.mark.parametrize(
    ("actual", "expected", "tolerance", "passed"),
    [
        (1.25, 1.0, Tolerance(rtol=0, atol=0.25), True),  # at the edge
        (0.75, 1.0, Tolerance(rtol=0, atol=0.25), True),
        (1.2500001, 1.0, Tolerance(rtol=0, atol=0.25), False),
        (5.0, 4.0, Tolerance(rtol=0.25, atol=0), True),
        (4.0, 5.0, Tolerance(rtol=0.2, atol=0), True),
        (6.25, 5.0, Tolerance(rtol=0.2, atol=0), False),  # relative to the expected value, not to the actual one
        (-5.5, -4.0, Tolerance(rtol=0.25, atol=0.5), True),  # both add up
        (0.5, 0.0, Tolerance(rtol=100, atol=0), False),  # no error is relative to 0
        (0.0, -0.0, EXACT, True),
    ],
)
def test_the_tolerance_is_inclusive(actual: float, expected: float, tolerance: Tolerance, passed: bool) -> None:
    assert check([actual], [expected], tolerance=tolerance).passed is passed


def test_the_default_tolerance_of_floats_is_1e_5() -> None:
    assert check([1000.005], [1000.0], tolerance=None).passed
    assert not check([1000.02], [1000.0], tolerance=None).passed


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_integers_must_be_equal_by_default(dtype: Any) -> None:
    top = np.iinfo(dtype).max

    assert check([top, 0], [top, 0], dtype, tolerance=None).passed
    assert not check([top - 1, 0], [top, 0], dtype, tolerance=None).passed


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_beyond_2_to_the_53_are_compared_exactly(dtype: Any) -> None:
    found = check([2**53 + 1], [2**53], dtype)

    assert (found.passed, found.max_abs_error) == (False, 1.0)
    assert str(found) == "y: 1 of 1 elements are wrong, worst at [0]: 9007199254740993 instead of 9007199254740992"


def test_the_distance_of_the_extreme_integers_does_not_wrap() -> None:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max

    found = check([low], [high], np.int64, tolerance=Tolerance(rtol=0, atol=1e18))

    assert (found.passed, found.max_abs_error) == (False, 2.0**64)


def test_integers_may_have_a_tolerance() -> None:
    assert check([7, 200], [8, 202], np.uint8, tolerance=Tolerance(rtol=0, atol=2)).passed
    assert check([7, 199], [8, 202], np.uint8, tolerance=Tolerance(rtol=0, atol=2)).worst_index == (1,)


def test_the_worst_element_is_the_one_furthest_outside_its_own_tolerance() -> None:
    # 100 and 1 of allowed 200 and 0.1: the large error is within, the small one is not
    found = check([[2100.0, 1.0], [2.0, 1.0]], [[2000.0, 1.0], [1.0, 1.0]], tolerance=Tolerance(rtol=0.1, atol=0))

    assert (found.mismatches, found.worst_index, found.actual, found.expected) == (1, (1, 0), 2.0, 1.0)
    assert str(found) == "y: 1 of 4 elements are wrong, worst at [1, 0]: 2 instead of 1"


def test_a_wrong_nan_or_infinity_is_the_worst_element() -> None:
    found = check([1e300, math.nan], [0.0, 0.0])

    assert (found.mismatches, found.worst_index, found.max_abs_error) == (2, (1,), 1e300)
    assert math.isnan(found.actual)


def test_a_correct_output_reports_its_largest_error() -> None:
    found = check([1.0, 2.25, 3.125], [1.0, 2.0, 3.0], tolerance=Tolerance(rtol=0, atol=0.5))

    assert (found.worst_index, found.max_abs_error, found.max_rel_error) == ((1,), 0.25, 0.125)
    assert str(found) == "y: 3 elements within tolerance, largest error 0.25"


@pytest.mark.parametrize("dtype", [np.float32, np.int32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_output_without_elements_is_correct(dtype: Any, shape: tuple[int, ...]) -> None:
    found = check(np.zeros(shape), np.zeros(shape), dtype)

    assert (found.passed, found.elements, found.worst_index) == (True, 0, ())
    assert str(found) == "y: 0 elements within tolerance, largest error 0"


@pytest.mark.parametrize(("actual", "passed"), [(1.0, True), (2.0, False)])
def test_an_output_may_be_a_single_number(actual: float, passed: bool) -> None:
    found = check(actual, 1.0)

    assert (found.passed, found.elements, found.worst_index, found.actual) == (passed, 1, (), actual)


@pytest.mark.parametrize(
    ("actual", "message"),
    [
        (np.zeros((2, 3), np.float32), "output 'y' is float32 (2, 3), but its reference is float32 (3, 2)"),
        (np.zeros(6, np.float32), "output 'y' is float32 (6,), but its reference is float32 (3, 2)"),
        (np.zeros((3, 2), np.float64), "output 'y' is float64 (3, 2), but its reference is float32 (3, 2)"),
        (np.zeros((3, 2), np.int32), "output 'y' is int32 (3, 2), but its reference is float32 (3, 2)"),
    ],
)
def test_a_different_shape_or_type_is_an_error(actual: NDArray[Any], message: str) -> None:
    with pytest.raises(VerificationError) as caught:
        verify_outputs({"y": actual}, {"y": np.zeros((3, 2), np.float32)}, {})

    assert caught.value.what == message
    assert caught.value.where == "kernel.reference.y"


def test_an_unknown_output_is_an_error() -> None:
    with pytest.raises(VerificationError, match="the kernel has no output 'z'") as caught:
        verify_outputs({"x": np.zeros(1), "y": np.zeros(1)}, {"z": np.zeros(1)}, {})

    assert caught.value.hint == "outputs: x, y"


def test_the_result_names_wrong_outputs() -> None:
    expected = {"a": np.array([1.0]), "b": np.array([1.0])}

    right = verify_outputs(expected, expected, {})
    wrong = verify_outputs({**expected, "b": np.array([3.0]), "unchecked": np.array([9.0])}, expected, {})

    assert right.passed
    assert str(right).count("within tolerance") == 2
    assert not wrong.passed
    assert str(wrong) == "b: 1 of 1 elements are wrong, worst at [0]: 3 instead of 1"


@given(nps.arrays(np.float64, nps.array_shapes(max_dims=2, max_side=3), elements=st.floats()))
def test_any_output_equals_itself(values: NDArray[np.float64]) -> None:
    assert check(values, values).passed


@given(
    actual=st.floats(allow_nan=False, allow_infinity=False),
    expected=st.floats(allow_nan=False, allow_infinity=False),
    rtol=st.floats(0, 1),
    atol=st.floats(0, 1e6),
)
def test_the_result_agrees_with_numpy(actual: float, expected: float, rtol: float, atol: float) -> None:
    with np.errstate(over="ignore"):
        close = bool(np.isclose(actual, expected, rtol=rtol, atol=atol))

    assert check([actual], [expected], tolerance=Tolerance(rtol=rtol, atol=atol)).passed is close


def test_the_ulp_histogram_counts_distances_by_bin() -> None:
    one = np.float32(1.0)
    near = np.nextafter(one, np.float32(2.0))
    expected = np.array([1.0, 1.0, -1.0, 0.0, np.nan, np.nan, 1.0, 1.0], np.float32)
    actual = np.array([one, near, -near, -0.0, np.nan, 1.0, 2.0, 1.0 + 100 * 2.0**-23], np.float32)

    # 0: 1.0, -0.0 against 0.0, NaN against NaN; 1: two neighbours; up to 256: 100 steps; more: NaN against 1, and 1 against 2
    assert ulp_histogram(actual, expected) == (3, 2, 0, 0, 0, 1, 2)
    assert ulp_histogram(np.arange(3), np.arange(3)) == ()
