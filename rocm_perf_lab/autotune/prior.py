"""Warm starts: earlier results of the same space, from another GPU or problem size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.encoding import encode
from rocm_perf_lab.autotune.gaussian import GaussianProcess
from rocm_perf_lab.autotune.trials import is_interrupted
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import optuna

    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.landscape import Landscape
    from rocm_perf_lab.autotune.space import Space

_FEWEST = 5
_POINTS = 400
_SLOW = 0.9
"""Quantile of the earlier times above which slow is simply slow."""
_TESTABLE = 5
"""Measurements below which nothing can be said of a prior."""
_LOOK_AGAIN = 1.2
_CLEAR = 2.0
"""Logarithm of the Bayes factor from which on a prior is believed: odds of seven to one."""
_CHANCE = 0.05
"""Probability below which an agreement is no chance."""
_HINT = 0.2
"""The same for an agreement that is worth one measurement."""
_SHARE = 16
"""Measurements after which a prior that led to nothing gets another try."""


class PriorError(LabError):
    """Earlier results that do not fit the space."""


@dataclass(frozen=True)
class Prior:
    """Earlier times.

    Args:
        logs: Logarithm of the time of every configuration of the space; what was not measured is predicted.
        known: How many of them were measured.
        source: Where they come from.
    """

    logs: Column
    known: int
    source: str

    @classmethod
    def from_results(cls, space: Space, results: Iterable[tuple[Mapping[str, Any], float]], source: str) -> Prior:
        """Pairs of a configuration and its time in ms, infinite where it failed. Configurations of other spaces are left out.

        Raises:
            PriorError: Fewer than five configurations of the space.
        """
        times = np.full(len(space), np.nan)
        for configuration, time in results:
            row = space.index(configuration)
            if row is not None and (time > 0):
                times[row] = time
        known = ~np.isnan(times)
        if np.isfinite(times).sum() < _FEWEST:
            raise PriorError(
                f"the earlier results share {int(np.isfinite(times).sum())} configurations with this space",
                where=source,
                hint=f"at least {_FEWEST} are needed; check names and values of the parameters",
            )
        logs = np.full(len(space), np.nan)
        logs[known] = np.log(times[known])
        slowest = float(logs[np.isfinite(logs)].max())
        logs[np.isposinf(logs)] = slowest
        if not known.all():
            with one_thread():
                logs = _fill(space, logs, known)
        return cls(logs, int(known.sum()), source)

    @classmethod
    def from_landscape(cls, space: Space, landscape: Landscape) -> Prior:
        """The times of a landscape file."""
        rows = range(len(landscape.space))
        results = ((landscape.space.configuration(row), float(landscape.times_ms[row])) for row in rows)
        return cls.from_results(space, results, landscape.name)

    @classmethod
    def from_study(cls, space: Space, study: optuna.Study) -> Prior:
        """The finished trials of a study."""
        from optuna.trial import TrialState

        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
        results = ((t.params, t.values[0] if t.values else math.inf) for t in trials if not is_interrupted(t))
        return cls.from_results(space, results, f"study {study.study_name}")

    def feature(self) -> Column:
        """The earlier times as one column for a model: 0 for the fastest, 1 for slow."""
        fastest, slow = float(self.logs.min()), float(np.quantile(self.logs, _SLOW))
        return np.clip((self.logs - fastest) / max(slow - fastest, 1e-9), 0, 1.5)


def _fill(space: Space, logs: Column, known: Column) -> Column:
    points, rows = encode(space), np.flatnonzero(known)
    if len(rows) > _POINTS:
        order = rows[np.argsort(logs[rows], kind="stable")]
        rows = np.unique(np.concatenate([order[: _POINTS // 2], order[:: max(1, 2 * len(order) // _POINTS)]]))
    centre, scale = float(logs[rows].mean()), float(logs[rows].std()) or 1.0
    model = GaussianProcess(points.shape[1])
    values = (logs[rows] - centre) / scale
    model.tune(points[rows], values)
    model.fit(points[rows], values)
    filled = logs.copy()
    for part in np.array_split(np.flatnonzero(~known), max(1, int((~known).sum()) // 20_000)):
        filled[part] = model.predict(points[part].astype(np.float32)).mean * scale + centre
    return filled


class Trust:
    """What a prior is worth: a few configurations to measure, a column for models, and whether measurements bear that column out.

    Regions keep their order where whole spaces do not: of each region that the design stands for, what was fastest there is
    worth a try. The column is believed once the models with it explain the measurements better than those without, by a clear
    Bayes factor, and the order of times agrees; no longer when either fails. It is looked at whenever there are a fifth more
    measurements.

    Args:
        space: What is searched.
        prior: Earlier results.
        design: Rows that represent the space.
    """

    def __init__(self, space: Space, prior: Prior, design: Sequence[int]) -> None:
        self._logs, self._feature = prior.logs, prior.feature()
        self.source = prior.source
        self.winners = _fastest_nearby(space, prior.logs, design)
        self.believed = False
        self._factors: dict[int, float] = {}
        self._looked: dict[int, int] = {}

    def column(self) -> Column:
        """The prior as a column of the model's input."""
        return self._feature

    def entitled(self, led: int, others: int) -> int:
        """How many tries the prior may have had by now.

        One after the design, one more for each that was faster than all before it, and one for every sixteen measurements
        beyond the design that were not its own: in vain it costs little, and less the further a search has come.

        Args:
            led: Tries that were faster than all before them.
            others: Measurements beyond the design that it did not propose.
        """
        return 1 + led + others // _SHARE

    def next(self, rows: Column, times: Column, free: Column) -> int | None:
        """The winner that would be fastest if it differed from its seed as it once did; None where the order disagrees."""
        if not _agree(self._feature[rows], times, _HINT):
            return None
        known = dict(zip(rows.tolist(), times.tolist(), strict=True))
        expected = {
            row: math.log(known[seed]) + self._logs[row] - self._logs[seed]
            for row, seed in self.winners.items()
            if free[row] and math.isfinite(known.get(seed, math.inf))
        }
        return min(expected, key=expected.__getitem__, default=None)

    def proven(self, proposed: Column, design: Column) -> bool:
        """Whether what was proposed is so much faster than the design that it is no chance (Mann and Whitney's test)."""
        from scipy.stats import mannwhitneyu

        if not len(proposed) or not len(design):
            return False
        return bool(mannwhitneyu(proposed, design, alternative="less", method="exact").pvalue < _CHANCE)

    def due(self, model: int, count: int) -> bool:
        """Whether `count` measurements are enough to look at a model (of several, by number) again."""
        return count >= max(_TESTABLE, _LOOK_AGAIN * self._looked.get(model, 0)) or count < self._looked.get(model, 0)

    def judge(self, model: int, log_factor: float, rows: Column, times: Column, *, proven: bool) -> None:
        """Decide anew whether to believe.

        Args:
            model: Which of several.
            log_factor: Logarithm of the Bayes factor of this model with the prior over the same without.
            rows: Configurations that were measured.
            times: Their times, infinite where one cannot run.
            proven: Whether what the prior proposed says already that it can be believed.
        """
        self._looked[model], self._factors[model] = len(rows), log_factor
        explains = sum(self._factors.values()) / len(self._factors) > (0 if self.believed or proven else _CLEAR)
        own = ~np.isin(rows, list(self.winners))
        self.believed = explains and (proven or _agree(self._feature[rows[own]], times[own], _CHANCE))


def _agree(earlier: Column, times: Column, chance: float) -> bool:
    """Whether what was fast is fast, by Spearman's rank correlation; a model alone might believe the opposite of a prior."""
    from scipy.stats import rankdata, spearmanr

    if np.ptp(earlier) == 0 or np.ptp(rankdata(times)) == 0:
        return False
    return bool(spearmanr(earlier, rankdata(times), alternative="greater").pvalue < chance)


def _fastest_nearby(space: Space, logs: Column, design: Sequence[int]) -> dict[int, int]:
    """Of the configurations that are nearest to each row of the design the fastest, unless that row is: winner to row."""
    points = encode(space, factors=False)
    centres = points[list(design)]
    nearest = ((centres * centres).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
    nearest[list(design)] = np.arange(len(design))
    winners = {}
    for number, row in enumerate(design):
        members = np.flatnonzero(nearest == number)
        fastest = int(members[np.argmin(logs[members])])
        if logs[fastest] < logs[row]:
            winners[fastest] = row
    return winners
