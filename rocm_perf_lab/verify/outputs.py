"""Comparison of kernel outputs with expected outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.languages.spec import Tolerance

_EXACT_KINDS = "biu"
_SHOWN_CHECKS = 3
ULP_EDGES = (0, 1, 2, 4, 16, 256)
"""Upper bounds of the histogram bins in units in the last place (ULP)."""
_INTEGERS_OF_SIZE: Mapping[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


class VerificationError(LabError):
    """Outputs that cannot be compared: missing, or with a different shape or type."""


@dataclass(frozen=True)
class OutputCheck:
    """Comparison of one output.

    `worst_index` is the element furthest outside its tolerance, or with the largest error; `actual` and `expected` are its
    values (integers for an integer output). An empty output passes, with NaN for both.
    """

    name: str
    passed: bool
    mismatches: int
    elements: int
    max_abs_error: float
    max_rel_error: float
    worst_index: tuple[int, ...]
    actual: float
    expected: float
    ulp_histogram: tuple[int, ...] = ()
    """Number of elements per bin of `ULP_EDGES` and above the last bound; empty for integers."""

    def __str__(self) -> str:
        if self.passed:
            return f"{self.name}: {self.elements:,} elements within tolerance, largest error {self.max_abs_error:.3g}"
        place = ", ".join(map(str, self.worst_index))
        return (
            f"{self.name}: {self.mismatches:,} of {self.elements:,} elements are wrong, "
            f"worst at [{place}]: {_number(self.actual)} instead of {_number(self.expected)}"
        )


@dataclass(frozen=True)
class VerificationResult:
    """Comparison of all outputs."""

    checks: tuple[OutputCheck, ...]

    @property
    def passed(self) -> bool:
        """Return whether every output passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        shown = [check for check in self.checks if check.passed == self.passed]
        if not self.passed or len(shown) <= _SHOWN_CHECKS:
            return "; ".join(map(str, shown))
        elements, error = sum(c.elements for c in shown), max(c.max_abs_error for c in shown)
        return f"{len(shown)} comparisons, {elements:,} elements within tolerance, largest error {error:.3g}"


def verify_outputs(
    actual: Mapping[str, NDArray[Any]],
    expected: Mapping[str, NDArray[Any]],
    tolerances: Mapping[str, Tolerance] | Mapping[str, Tolerance | NDArray[np.float64]],
) -> VerificationResult:
    """Compare every expected output: |actual - expected| <= atol + rtol * |expected|; NaN only equals NaN.

    Args:
        actual: Outputs by name.
        expected: Expected outputs by name.
        tolerances: Tolerance of each output, or an array with the allowed absolute error of each element. The default is rtol
            1e-5 and atol 1e-6 for floats, and zero for integers.

    Raises:
        VerificationError: An output is missing, or has a different shape or type.
    """
    return VerificationResult(tuple(_check(name, actual, expected[name], tolerances.get(name)) for name in expected))


def default_tolerance(values: NDArray[Any]) -> Tolerance:
    """Return the tolerance of an output without a declared tolerance."""
    from rocm_perf_lab.languages.spec import Tolerance

    return Tolerance(rtol=0, atol=0) if values.dtype.kind in _EXACT_KINDS else Tolerance(rtol=1e-5, atol=1e-6)


def allowed_errors(values: NDArray[Any], tolerance: Tolerance | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the allowed absolute error of each expected value."""
    if isinstance(tolerance, np.ndarray):
        return np.broadcast_to(tolerance, values.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed: NDArray[np.float64] = tolerance.atol + tolerance.rtol * np.abs(values.astype(np.float64))
    return allowed


def _check(
    name: str,
    outputs: Mapping[str, NDArray[Any]],
    expected: NDArray[Any],
    tolerance: Tolerance | NDArray[np.float64] | None,
) -> OutputCheck:
    actual = outputs.get(name)
    if actual is None:
        raise VerificationError(f"the kernel has no output {name!r}", hint=f"outputs: {', '.join(outputs)}")
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise VerificationError(
            f"output {name!r} is {actual.dtype} {actual.shape}, but its reference is {expected.dtype} {expected.shape}",
            where=f"kernel.reference.{name}",
        )
    return _compare(name, actual, expected, tolerance if tolerance is not None else default_tolerance(expected))


def _compare(name: str, actual: NDArray[Any], expected: NDArray[Any], limits: Tolerance | NDArray[np.float64]) -> OutputCheck:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # Uninitialised memory may contain a signalling NaN.
        got: NDArray[Any] = actual.astype(np.float64)
        want: NDArray[Any] = expected.astype(np.float64)
        same, error = _difference(actual, expected, got, want)
        allowed = allowed_errors(expected, limits)
        finite = np.isfinite(got) & np.isfinite(want)
        wrong = ~same & ~(finite & (error <= allowed))
        relative = np.where(want != 0, error / np.abs(want), np.where(error > 0, np.inf, 0.0))
        excess = np.where(wrong, np.where(np.isfinite(error), error - allowed, np.inf), np.where(same, -np.inf, error - allowed))
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape) if excess.size else None
    return OutputCheck(
        name=name,
        passed=not bool(wrong.any()),
        mismatches=int(wrong.sum()),
        elements=int(wrong.size),
        max_abs_error=_largest(error[finite]),
        max_rel_error=_largest(relative[finite]),
        worst_index=tuple(int(i) for i in worst) if worst is not None else (),
        actual=_value(actual[worst]) if worst is not None else math.nan,
        expected=_value(expected[worst]) if worst is not None else math.nan,
        ulp_histogram=_ulp_histogram(actual, expected, np.isnan(got), np.isnan(want)),
    )


def ulp_histogram(actual: NDArray[Any], expected: NDArray[Any]) -> tuple[int, ...]:
    """Return the histogram of distances in units in the last place; NaN instead of a number is counted in the last bin.

    The bit patterns of IEEE floats, as integers with folded sign, have the same order as the values.
    """
    with np.errstate(invalid="ignore"):  # Uninitialised memory may contain a signalling NaN.
        return _ulp_histogram(actual, expected, np.isnan(actual.astype(np.float64)), np.isnan(expected.astype(np.float64)))


def _ulp_histogram(
    actual: NDArray[Any], expected: NDArray[Any], actual_nan: NDArray[np.bool_], expected_nan: NDArray[np.bool_]
) -> tuple[int, ...]:
    if actual.dtype.kind in _EXACT_KINDS or "8" in actual.dtype.name:
        return ()
    distance = np.abs(_ordered(actual) - _ordered(expected)).reshape(-1)
    distance[(actual_nan & expected_nan).reshape(-1)] = 0.0
    distance[(actual_nan ^ expected_nan).reshape(-1)] = np.inf
    counts = np.bincount(np.searchsorted(ULP_EDGES, distance), minlength=len(ULP_EDGES) + 1)
    return tuple(int(count) for count in counts)


def _ordered(values: NDArray[Any]) -> NDArray[np.float64]:
    kind: Any = _INTEGERS_OF_SIZE[values.dtype.itemsize]
    bits = np.ascontiguousarray(values).view(kind).astype(np.int64)
    ordered: NDArray[np.float64] = np.where(bits < 0, np.iinfo(kind).min - bits, bits).astype(np.float64)
    return ordered


def _difference(
    actual: NDArray[Any], expected: NDArray[Any], got: NDArray[np.float64], want: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return equality and absolute difference of each element, exact for integers beyond 2^53. `got`, `want`: float64 values."""
    if actual.dtype.kind in _EXACT_KINDS:
        larger, smaller = np.maximum(actual, expected), np.minimum(actual, expected)
        apart = larger.astype(np.uint64) - smaller.astype(np.uint64)  # the difference is below 2^64
        return actual == expected, apart.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return same, np.where(same, 0.0, np.abs(got - want))


def _value(element: Any) -> float:
    return int(element) if element.dtype.kind in _EXACT_KINDS else float(element)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _largest(values: NDArray[Any]) -> float:
    return float(values.max()) if values.size else 0.0
