"""Warm starts: earlier results of the same space, from another GPU or problem size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.encoding import encode
from rocm_perf_lab.autotune.gaussian import GaussianProcess
from rocm_perf_lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
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
                remedy=f"at least {_FEWEST} are needed; check names and values of the parameters",
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
        results = ((t.params, t.values[0] if t.values else math.inf) for t in trials if not t.user_attrs.get("interrupted"))
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

    The column is believed once the models with it explain the measurements better than those without, by a clear Bayes factor,
    and the order of times agrees; no longer when either fails. It is looked at whenever there are a fifth more measurements.
    """

    def __init__(self, space: Space, prior: Prior, promising: int) -> None:
        self._feature = prior.feature()
        self.source = prior.source
        self.promising = _spread_out(space, self._feature, promising)
        self.believed = False
        self._factors: dict[int, float] = {}
        self._looked: dict[int, int] = {}

    def column(self) -> Column:
        """The prior as a column of the model's input."""
        return self._feature

    def worth_a_try(self, rows: Column, times: Column) -> bool:
        """Whether the order of the first measurements hints that what was fast is fast."""
        return _agree(self._feature[rows], times, _HINT)

    def proven(self, proposed: Column, design: Column) -> bool:
        """Whether what was proposed is so much faster than the design that it is no chance.

        Of d + k configurations the k proposed are by chance the fastest once in (d + k)! / (d! k!) times.
        """
        leads = len(proposed) > 0 and proposed.max() < design.min(initial=np.inf)
        return bool(leads) and math.comb(len(design) + len(proposed), len(proposed)) * _CHANCE > 1

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
        own = ~np.isin(rows, self.promising)
        self.believed = explains and (proven or _agree(self._feature[rows[own]], times[own], _CHANCE))


def _agree(earlier: Column, times: Column, chance: float) -> bool:
    """Whether what was fast is fast, by Spearman's rank correlation; a model alone might believe the opposite of a prior."""
    from scipy.stats import rankdata, spearmanr

    if np.ptp(earlier) == 0 or np.ptp(rankdata(times)) == 0:
        return False
    return bool(spearmanr(earlier, rankdata(times), alternative="greater").pvalue < chance)


def _spread_out(space: Space, feature: Column, count: int) -> tuple[int, ...]:
    """The fastest configurations that differ from each other in two parameters at least."""
    chosen: list[int] = []
    for row in np.argsort(feature, kind="stable")[:2000].tolist():
        if all((space.codes[row] != space.codes[other]).sum() >= 2 for other in chosen):
            chosen.append(row)
            if len(chosen) == count:
                break
    return tuple(chosen)
