"""Error bands of estimated times, from cases whose true time is known.

The error of a case is the logarithm of estimated over true time. An absolute band is a quantile of its magnitude; the band of a
ratio is a quantile of the difference of two errors of one family, because an error that all variants of a kernel share cancels.
Quantiles are conformal: of n exchangeable cases, the one of rank ceil((n + 1) * coverage) covers the next case with that
probability (Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World, 2005). If n is too small for the coverage, the
largest error is used, with the coverage n / (n + 1) that it supports.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, combinations
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING

from pydantic import Field

from rocm_perf_lab.core.models import StrictModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class TimeBand(StrictModel):
    """Range of the true time: `low` to `high` times the estimate, with probability `coverage`."""

    coverage: float = Field(gt=0, lt=1)
    low: float = Field(gt=0, le=1)
    high: float = Field(ge=1)

    def around(self, time: float) -> tuple[float, float]:
        """Return the bounds of the true time, in the unit of `time`."""
        return self.low * time, self.high * time

    def contains(self, estimate: float, true: float) -> bool:
        """Return whether a true time is in the band of an estimate."""
        low, high = self.around(estimate)
        return low <= true <= high


class RatioBand(StrictModel):
    """Range of the true ratio of two variants of one kernel: from 1 / `factor` to `factor` times the estimated one."""

    coverage: float = Field(gt=0, lt=1)
    factor: float = Field(ge=1)

    @property
    def confidence(self) -> float:
        """Probability that the true ratio is above the lower bound: errors of a ratio are symmetric."""
        return (1 + self.coverage) / 2

    def around(self, ratio: float) -> tuple[float, float]:
        """Return the bounds of the true ratio."""
        return ratio / self.factor, ratio * self.factor

    def distinguishes(self, first: float, second: float) -> bool:
        """Return whether two estimated times differ by more than the band; equal times never do."""
        return max(first, second) > self.factor * min(first, second)


@dataclass(frozen=True)
class ErrorCase:
    """One case with known true time; `log_estimated` and `log_true` are logarithms of values in one unit."""

    family: str
    log_estimated: float
    log_true: float

    @property
    def error(self) -> float:
        """Logarithm of estimated over true value."""
        return self.log_estimated - self.log_true

    @classmethod
    def of(cls, family: str, *, estimated: float, true: float) -> ErrorCase:
        """Return the case of two positive values."""
        return cls(family, math.log(estimated), math.log(true))


@dataclass(frozen=True)
class Quantile:
    """Quantile of errors and the coverage that it supports."""

    value: float
    coverage: float


@dataclass(frozen=True)
class Decisions:
    """Pairs of variants that a band distinguishes: how many, and how many of them in the true order."""

    pairs: int
    decided: int
    right: int


def conformal_quantile(
    errors: Sequence[float], coverage: float, *, weights: Sequence[float] | None = None, units: int
) -> Quantile:
    """Return the magnitude that covers a new error with probability `coverage`.

    Args:
        errors: Errors; their sign is ignored.
        coverage: Wanted probability.
        weights: Weight of each error; equal ones if None.
        units: Number of independent cases, for the correction of small samples.
    """
    shares = [1.0] * len(errors) if weights is None else weights
    ordered = sorted(zip((abs(error) for error in errors), shares, strict=True), key=itemgetter(0))
    level = math.ceil((units + 1) * coverage - _ROUNDING) / units
    if level > 1:
        return Quantile(ordered[-1][0], units / (units + 1))
    total = math.fsum(shares)
    cumulative = [weight / total for weight in accumulate(share for _, share in ordered)]
    place = min(bisect_left(cumulative, level - _ROUNDING), len(ordered) - 1)
    return Quantile(ordered[place][0], coverage)


_ROUNDING = 1e-9
"""Sums of weights and products with a coverage are rounded: 20 * 0.95 must not count as more than 19."""


def time_band(cases: Sequence[ErrorCase], coverage: float) -> TimeBand:
    """Return the band of a time of a kernel from a new family: families are the independent units, and weigh the same."""
    sizes = _sizes(case.family for case in cases)
    found = conformal_quantile(
        [case.error for case in cases], coverage, weights=[1 / sizes[case.family] for case in cases], units=len(sizes)
    )
    factor = math.exp(found.value)
    return TimeBand(coverage=_rounded(found.coverage), low=1 / factor, high=factor)


NEAR = 4.0
"""Ratio of two estimated times up to which a pair counts for the band: decisions between variants are among such pairs."""


def ratio_band(cases: Sequence[ErrorCase], coverage: float) -> RatioBand:
    """Return the band of the ratio of two variants of one kernel whose estimated times are near each other.

    Families weigh the same. Variants are the independent units: the error that a family shares cancels in a ratio. The band is
    widened until the order of the pairs that it distinguishes is right as often as its confidence states, because errors that
    reverse a pair are among the large ones.

    Args:
        cases: Cases of several families.
        coverage: Wanted probability.
    """
    pairs = [pair for pair in _pairs(cases) if _distance(*pair) <= math.log(NEAR)] or _pairs(cases)
    sizes = _sizes(first.family for first, _ in pairs)
    units = len({id(case) for pair in pairs for case in pair})
    errors = [first.error - second.error for first, second in pairs]
    found = conformal_quantile(errors, coverage, weights=[1 / sizes[first.family] for first, _ in pairs], units=units)
    band = RatioBand(coverage=_rounded(found.coverage), factor=math.exp(found.value))
    return _widened(cases, band)


def _widened(cases: Sequence[ErrorCase], band: RatioBand) -> RatioBand:
    """Return the narrowest band from `band` on whose decisions are right as often as its confidence states."""
    factors = sorted({math.exp(_distance(*pair)) for pair in _pairs(cases)})
    for factor in [band.factor, *(factor for factor in factors if factor > band.factor)]:
        wider = band.model_copy(update={"factor": factor})
        found = decisions(cases, wider)
        if found.right >= band.confidence * found.decided:
            return wider
    return band


def _distance(first: ErrorCase, second: ErrorCase) -> float:
    return abs(first.log_estimated - second.log_estimated)


def decisions(cases: Sequence[ErrorCase], band: RatioBand) -> Decisions:
    """Return the number of pairs of one family that a band distinguishes, and the number of these with the true order."""
    pairs = _pairs(cases)
    decided = [(a, b) for a, b in pairs if _distance(a, b) > math.log(band.factor) + _ROUNDING]
    right = sum((a.log_estimated - b.log_estimated) * (a.log_true - b.log_true) > 0 for a, b in decided)
    return Decisions(len(pairs), len(decided), right)


def coverage_of_new_families(cases: Sequence[ErrorCase], coverage: float) -> float:
    """Return the mean share of cases of a family in the band of the other families; 0 for a single family."""
    shares = []
    for family in sorted({case.family for case in cases}):
        own = [case for case in cases if case.family == family]
        others = [case for case in cases if case.family != family]
        if others:
            limit = math.log(time_band(others, coverage).high)
            shares.append(sum(abs(case.error) <= limit + _ROUNDING for case in own) / len(own))
    return fmean(shares) if shares else 0.0


def families_with_pairs(cases: Sequence[ErrorCase]) -> int:
    """Return the number of families with two cases or more."""
    return sum(size > 1 for size in _sizes(case.family for case in cases).values())


def _pairs(cases: Sequence[ErrorCase]) -> list[tuple[ErrorCase, ErrorCase]]:
    by_family: dict[str, list[ErrorCase]] = defaultdict(list)
    for case in cases:
        by_family[case.family].append(case)
    return [pair for members in by_family.values() for pair in combinations(members, 2)]


def _sizes(families: Iterable[str]) -> Mapping[str, int]:
    sizes: dict[str, int] = defaultdict(int)
    for family in families:
        sizes[family] += 1
    return sizes


def _rounded(coverage: float) -> float:
    return math.floor(coverage * 1000) / 1000
