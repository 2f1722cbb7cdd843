"""Changes in the history of many kernels: at which run the typical time became another one.

The history of a kernel is one typical time per run. `ruptures` divides the logarithms of the times into segments of equal level
(optimal partitioning, PELT; J. Am. Stat. Assoc. 107, 2012), deliberately too many. Then each boundary is tested with the noise
between runs, the least certain one is removed, and so on until all that remain are significant. p-values are multiplied by the
number of possible positions and by the number of kernels, so the probability of one or more false changes in the whole series
is about 5 %; half of it is for the last run. `benchmarks/change_points.py` measures these rates.

The noise is the variation from run to run, never only that within a run: two runs of the same code differ by more than their
own standard errors (clocks, temperature, placement of memory). With few runs it is uncertain, so the estimate of a kernel is
combined with one of all kernels, or with 1.5 % if fewer than three kernels have four runs. Single runs are odd for many reasons:
a change at the last run needs stronger evidence until further runs confirm it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ALPHA = 0.05
MIN_CHANGE = 0.02
"""Smaller changes are not reported."""
_USUAL_NOISE = 0.015
_LEAST_NOISE = 0.003
_WEIGHT_OF_USUAL_NOISE = 2.0
"""Degrees of freedom of the noise that is common to all kernels."""
_MIN_RUNS_FOR_NOISE = 4
_MIN_KERNELS_FOR_NOISE = 3
_MIN_RUNS_FOR_CORRELATION = 6
_MIN_TOTAL_RUNS_FOR_CORRELATION = 20
_STRONGEST_CORRELATION = 0.9
_USUAL_QUANTILE = 0.6
_FREEDOM_PER_RUN = 5.0
"""Largest degrees of freedom of a test per run of the shorter segment: single runs are slow for many reasons, so the tails of the
noise are heavier than normal, and those of a mean over several runs less so."""
_NORMAL_MAD = 0.6745
_PENALTY = 2.0
"""Penalty of a segment, in units of the variance times the logarithm of the runs; small, since the boundaries are tested."""


@dataclass(frozen=True)
class History:
    """Typical times of one kernel, one per run in order of time, and their relative standard errors within the run."""

    times: Floats
    errors: Floats
    """0 if unknown."""


@dataclass(frozen=True)
class ChangePoint:
    """Another level from run `position` on. `change` is relative: +0.1 is 10 % slower than the segment before."""

    position: int
    change: float
    p_value: float
    """Probability of such a change by chance in any kernel at any run."""
    before: int
    after: int
    """Number of runs of the segments before and after."""


@dataclass(frozen=True)
class Changes:
    """Changes of one kernel in order of time, and single runs that differ from both of their neighbours."""

    points: tuple[ChangePoint, ...]
    odd_runs: tuple[int, ...]
    noise: float
    """Standard deviation from run to run, relative."""


def find_changes(histories: Sequence[History]) -> tuple[Changes, ...]:
    """Return the changes of each kernel, corrected for all of them together.

    Args:
        histories: Positive times of each kernel.
    """
    logs = [np.log(history.times) for history in histories]
    noise = _Noise(_usual_noise(logs), _inflation(logs), max(1, sum(len(values) > 1 for values in logs)))
    return tuple(_changes(values, history.errors, noise) for values, history in zip(logs, histories, strict=True))


@dataclass(frozen=True)
class _Noise:
    """Noise that is common to all kernels, and the number of tested kernels."""

    usual: float
    inflation: float
    """Factor of the variance of means, for the correlation of consecutive runs."""
    kernels: int


def _changes(values: Floats, errors: Floats, noise: _Noise) -> Changes:
    kept = np.arange(len(values))
    odd: list[int] = []
    while True:
        segments = _Segments(values[kept], errors[kept], noise)
        single = segments.odd_run()
        if single is None:
            break
        odd.append(int(kept[single]))
        kept = np.delete(kept, single)
    return Changes(segments.points(kept), tuple(sorted(odd)), segments.noise)


class _Segments:
    """Division of the logarithms of times into segments that differ significantly."""

    def __init__(self, values: Floats, errors: Floats, noise: _Noise) -> None:
        self._values, self._errors, self._common = values, errors, noise
        self._starts = _candidates(values, max(_noise_of(values), noise.usual / 2))
        """Positions at which segments begin, without 0."""
        while (weakest := self._weakest()) is not None:
            del self._starts[weakest]

    @property
    def noise(self) -> float:
        """Standard deviation from run to run."""
        return math.sqrt(self._variance()[0])

    def odd_run(self) -> int | None:
        """Return a single run that differs from both neighbours, which are alike."""
        bounds = [0, *self._starts, len(self._values)]
        for index in range(1, len(bounds) - 2):
            before, single, end, after = bounds[index - 1 : index + 3]
            if end - single == 1:
                step = float(self._values[end:after].mean() - self._values[before:single].mean())
                if abs(math.expm1(step)) < MIN_CHANGE or self._p_of(step, single - before, after - end) > ALPHA:
                    return single
        return None

    def points(self, position: NDArray[np.int64]) -> tuple[ChangePoint, ...]:
        """Return the changes; `position` is that of each value among all runs."""
        bounds = [0, *self._starts, len(self._values)]
        return tuple(
            ChangePoint(
                position=int(position[start]),
                change=math.expm1(self._step(index)),
                p_value=self._p_value(index),
                before=start - bounds[index],
                after=bounds[index + 2] - start,
            )
            for index, start in enumerate(self._starts)
        )

    def _weakest(self) -> int | None:
        """Return the index of a boundary to remove: the least certain one, or a change that is too small to matter."""
        if not self._starts:
            return None
        p_values = [self._p_value(index) for index in range(len(self._starts))]
        worst = int(np.argmax(p_values))
        if p_values[worst] > ALPHA:
            return worst
        return next((i for i in range(len(self._starts)) if abs(math.expm1(self._step(i))) < MIN_CHANGE), None)

    def _step(self, index: int) -> float:
        bounds = [0, *self._starts, len(self._values)]
        before, start, after = bounds[index : index + 3]
        return float(self._values[start:after].mean() - self._values[before:start].mean())

    def _p_value(self, index: int) -> float:
        bounds = [0, *self._starts, len(self._values)]
        before, start, after = bounds[index : index + 3]
        is_last = start == len(self._values) - 1
        return self._p_of(self._step(index), start - before, after - start, is_last=is_last)

    def _p_of(self, step: float, before: int, after: int, *, is_last: bool = False) -> float:
        from scipy.stats import t

        variance, freedom = self._variance()
        inflation = self._common.inflation
        error = math.sqrt(variance * (min(inflation, before) / before + min(inflation, after) / after))
        freedom = min(freedom, _FREEDOM_PER_RUN * min(before, after))
        return min(1.0, 2 * float(t.sf(abs(step) / error, freedom)) * self._positions(is_last) * self._common.kernels)

    def _positions(self, is_last: bool) -> int:
        """Return the factor of a p-value for the possible positions: half of the error probability is for the last run."""
        others = len(self._values) - 2
        return 1 if others < 1 else 2 if is_last else 2 * others

    def _variance(self) -> tuple[float, float]:
        """Return the variance from run to run and its degrees of freedom."""
        usual, weight = self._common.usual, _WEIGHT_OF_USUAL_NOISE
        segments = [part for part in np.split(self._values, self._starts) if len(part)]
        rest = sum(float(((part - part.mean()) ** 2).sum()) for part in segments)
        freedom = len(self._values) - len(segments)
        # Candidates leave too little variance in the segments; differences of neighbours do not depend on them.
        own = max(rest / freedom, _noise_of(self._values) ** 2) if freedom else 0.0
        combined = (weight * usual**2 + freedom * own) / (weight + freedom)
        within = float((self._errors**2).mean()) if len(self._errors) else 0.0
        return max(combined, within, _LEAST_NOISE**2), weight + freedom


def _candidates(values: Floats, noise: float) -> list[int]:
    if len(values) < 3:
        return [1] if len(values) == 2 else []
    import ruptures

    search = ruptures.KernelCPD(kernel="linear", min_size=1).fit(values[:, None] / noise)
    return [int(end) for end in search.predict(pen=_PENALTY * math.log(len(values)))[:-1]]


def _noise_of(values: Floats) -> float:
    """Return the standard deviation of independent noise, from differences of neighbours; 0 for too few values."""
    if len(values) < _MIN_RUNS_FOR_NOISE:
        return 0.0
    return float(np.median(np.abs(np.diff(values)))) / _NORMAL_MAD / math.sqrt(2)


def _usual_noise(logs: Sequence[Floats]) -> float:
    """Return the noise from run to run that most kernels do not exceed."""
    own = [_noise_of(values) for values in logs if len(values) >= _MIN_RUNS_FOR_NOISE]
    if len(own) < _MIN_KERNELS_FOR_NOISE:
        return _USUAL_NOISE
    return max(float(np.quantile(own, _USUAL_QUANTILE)), _LEAST_NOISE)


def _inflation(logs: Sequence[Floats]) -> float:
    """Return the factor by which correlation of consecutive runs increases the variance of a mean.

    For autoregressive noise with correlation r, differences over two runs have 1 + r times the variance of differences over one.
    Medians of their magnitudes are insensitive to changes of the level.
    """
    ratios, runs = [], 0
    for values in logs:
        if len(values) >= _MIN_RUNS_FOR_CORRELATION:
            one, two = (float(np.median(np.abs(values[lag:] - values[:-lag]))) for lag in (1, 2))
            ratios.append((two / one) ** 2 if one else 1.0)
            runs += len(values)
    if runs < _MIN_TOTAL_RUNS_FOR_CORRELATION:
        return 1.0
    correlation = float(np.median(ratios)) - 1 - 1.5 / math.sqrt(runs)
    correlation = min(max(correlation, 0.0), _STRONGEST_CORRELATION)
    return (1 + correlation) / (1 - correlation)
