"""Warm starts from earlier results of the same space, for example on another GPU or problem size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.gaussian import GaussianProcess
from rocm_perf_lab.autotune.spaces.encoding import encode
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.trials import is_interrupted
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import optuna

    from rocm_perf_lab.autotune.landscape import Landscape
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space

FEWEST = 5
"""Number of configurations that ran, from which results are a prior."""
_POINTS = 400
_SLOW = 0.9
"""Quantile of the earlier times above which differences are ignored."""
_TESTABLE = 5
"""Number of measurements from which a prior is evaluated."""
_LOOK_AGAIN = 1.2
_CLEAR = 2.0
"""Logarithm of the Bayes factor from which a prior is accepted: odds of seven to one."""
_CHANCE = 0.05
"""Significance level of an agreement with the measurements."""
_HINT = 0.2
"""Significance level of an agreement that justifies one measurement."""
_SHARE = 16
"""Measurements after which a prior without success may propose again."""


class PriorError(LabError):
    """Earlier results that do not match the space."""


@dataclass(frozen=True)
class Prior:
    """Earlier times of a space.

    Args:
        logs: Logarithm of the time of every configuration, measured or predicted.
        known: Number of measured ones.
        source: Origin of the results.
    """

    logs: Column
    known: int
    source: str

    @classmethod
    def from_results(cls, space: Space, results: Iterable[tuple[Mapping[str, Any], float]], source: str) -> Prior:
        """Create a prior from pairs of a configuration and its time in ms (infinite if it failed).

        Configurations of other spaces are ignored.

        Raises:
            PriorError: Fewer than five configurations are in the space.
        """
        if isinstance(space, LazySpace):
            raise PriorError(
                f"about {len(space):.1e} configurations are too many for a prior",
                where=source,
                hint="add constraints, or remove the prior",
            )
        times = np.full(len(space), np.nan)
        for configuration, time in results:
            row = space.index(configuration)
            if row is not None and (time > 0):
                times[row] = time
        known = ~np.isnan(times)
        if np.isfinite(times).sum() < FEWEST:
            raise PriorError(
                f"the earlier results share {int(np.isfinite(times).sum())} configurations with this space",
                where=source,
                hint=f"at least {FEWEST} are needed; check names and values of the parameters",
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
        """Create a prior from a landscape."""
        rows = range(len(landscape.space))
        results = ((landscape.space.configuration(row), float(landscape.times_ms[row])) for row in rows)
        return cls.from_results(space, results, landscape.name)

    @classmethod
    def from_study(cls, space: Space, study: optuna.Study) -> Prior:
        """Create a prior from the finished trials of a study."""
        from optuna.trial import TrialState

        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
        results = ((t.params, t.values[0] if t.values else math.inf) for t in trials if not is_interrupted(t))
        return cls.from_results(space, results, f"study {study.study_name}")

    def feature(self) -> Column:
        """Return the earlier times as an input of a model: 0 for the fastest, 1 for slow."""
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
    """Evaluation of a prior: configurations that it proposes, an input of models, and whether the measurements confirm it.

    The order within a region is often preserved even if that of the whole space is not. So for each seed, the fastest earlier
    configuration of its region may be measured. The prior becomes an input of the models once these explain the measurements
    better with it than without (by a clear Bayes factor) and the order of times agrees, and stops being one if either fails. It
    is evaluated whenever the number of measurements has grown by a fifth.

    Args:
        space: The search space.
        prior: Earlier results.
        design: Rows of the seeds, which represent the space.
    """

    def __init__(self, space: Space, prior: Prior, design: Sequence[int]) -> None:
        self._logs, self._feature = prior.logs, prior.feature()
        self.source = prior.source
        self.winners = _fastest_nearby(space, prior.logs, design)
        self.believed = False
        self._factors: dict[int, float] = {}
        self._looked: dict[int, int] = {}

    def column(self) -> Column:
        """Return the prior as an input of a model."""
        return self._feature

    def entitled(self, led: int, others: int) -> int:
        """Return how many proposals of the prior may have been measured by now.

        One after the seeds, one more for each that was faster than all before it, and one per sixteen other measurements after
        the seeds: a misleading prior costs little, and less the longer the search.

        Args:
            led: Number of its proposals that were faster than all before them.
            others: Number of measurements after the seeds that it did not propose.
        """
        return 1 + led + others // _SHARE

    def next(self, rows: Column, times: Column, free: Column) -> int | None:
        """Return the winner with the smallest time if earlier ratios to the seeds hold, or None if the order disagrees."""
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
        """Return whether the proposals are significantly faster than the seeds (Mann-Whitney test)."""
        from scipy.stats import mannwhitneyu

        if not len(proposed) or not len(design):
            return False
        return bool(mannwhitneyu(proposed, design, alternative="less", method="exact").pvalue < _CHANCE)

    def due(self, model: int, count: int) -> bool:
        """Return whether model number `model` is to be evaluated again after `count` measurements."""
        return count >= max(_TESTABLE, _LOOK_AGAIN * self._looked.get(model, 0)) or count < self._looked.get(model, 0)

    def judge(self, model: int, log_factor: float, rows: Column, times: Column, *, proven: bool) -> None:
        """Decide whether the prior is an input of the models.

        Args:
            model: Number of the model.
            log_factor: Logarithm of the Bayes factor of the model with the prior over that without.
            rows: Measured configurations.
            times: Their times, infinite if failed.
            proven: Whether the proposals of the prior have already confirmed it.
        """
        self._looked[model], self._factors[model] = len(rows), log_factor
        explains = sum(self._factors.values()) / len(self._factors) > (0 if self.believed or proven else _CLEAR)
        own = ~np.isin(rows, list(self.winners))
        self.believed = explains and (proven or _agree(self._feature[rows[own]], times[own], _CHANCE))


def _agree(earlier: Column, times: Column, chance: float) -> bool:
    """Return whether the orders agree, by Spearman's rank correlation; a model could also learn the opposite order."""
    from scipy.stats import rankdata, spearmanr

    if np.ptp(earlier) == 0 or np.ptp(rankdata(times)) == 0:
        return False
    return bool(spearmanr(earlier, rankdata(times), alternative="greater").pvalue < chance)


def _fastest_nearby(space: Space, logs: Column, design: Sequence[int]) -> dict[int, int]:
    """Return winner -> seed: the fastest earlier configuration nearest to each seed, unless that is the seed itself."""
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
