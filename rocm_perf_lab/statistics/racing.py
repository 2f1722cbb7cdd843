"""Selection of the fastest of several configurations with noisy times, by racing.

Candidates that may be the fastest are measured further, one round each in turn and in random order. Runs of one round depend on
each other (same process, clock and placement), so a round counts as one value: the mean of the middle half of the logarithms of
its times. Clocks drift from round to round, so candidates are compared within rounds only, by paired differences. Their variance
is pooled over all candidates as far as single ones have few rounds (Smyth: moderated t, 2004). Times from before the race only
select its candidates.

A candidate is eliminated once it is, with 95 % confidence for all of them together, not faster than the leader by more than 1 %.
The race ends when one is left, or after the last round.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.statistics.bootstrap import CONFIDENCE
from rocm_perf_lab.statistics.stability import warm_up_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

EQUAL = 0.01
"""Relative difference that does not matter."""
_MOST_CONTENDERS = 8
_DRIFT = 0.03
"""Drift of clocks between measurements before the race."""
_FEWEST_TIMES = 3
"""Fewer times do not show the spread."""
_LIKELY_SPREAD = 0.10
"""Spread that is assumed for fewer times."""
_SPREAD_OF_MIDDLE = 1.08
"""Standard error of the mean of the middle half of normal values, relative to that of their mean."""
_POOLED = 4
"""Weight of the pooled variance of differences, in degrees of freedom."""


@dataclass(frozen=True)
class RaceStanding:
    """Result of one contender; `outcome` is `winner`, `slower`, `equal`, `failed` or `undecided`.

    `equal` is estimated to be slower than the leader by at most 1 %. `runs` and `median_ms` are those of the race.
    """

    trial: int
    outcome: str
    median_ms: float
    runs: int
    rounds: int


@dataclass(frozen=True)
class RaceResult:
    """Result of a race, the winner first."""

    standings: tuple[RaceStanding, ...]

    @property
    def winner(self) -> RaceStanding:
        """The fastest contender."""
        return self.standings[0]

    @property
    def decided(self) -> bool:
        """True if every other contender was eliminated within the allowed rounds."""
        return all(standing.outcome != "undecided" for standing in self.standings)

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"decided": self.decided, "standings": [asdict(standing) for standing in self.standings]}


def race(
    times_ms: Mapping[int, Sequence[float]],
    sample: Callable[[int], Sequence[float] | None],
    *,
    max_rounds: int,
    max_samples: int | None = None,
) -> RaceResult | None:
    """Race the trials that may be the fastest, or return None if one is clearly the fastest.

    Args:
        times_ms: Trial -> its times so far.
        sample: Returns one more round of times of a trial, or None if the trial fails.
        max_rounds: Largest number of rounds.
        max_samples: Largest number of calls of `sample`; None: unlimited. No round is begun that would exceed it.
    """
    contenders = _Contenders(times_ms)
    if len(contenders.open) < 2 or max_rounds == 0:
        return None
    random = np.random.default_rng(0)
    samples = 0
    for _ in range(max_rounds):
        samples += len(contenders.open)
        if max_samples is not None and samples > max_samples:
            break
        for trial in random.permutation(sorted(contenders.open)).tolist():
            contenders.add(trial, sample(trial))
        contenders.eliminate()
        if len(contenders.open) < 2:
            break
    return contenders.result()


class _Contenders:
    def __init__(self, times_ms: Mapping[int, Sequence[float]]) -> None:
        self._before = {trial: _without_warm_up(times) for trial, times in times_ms.items() if len(times)}
        self._rounds: dict[int, list[NDArray[np.float64]]] = {trial: [] for trial in _possible_winners(self._before)}
        self._middles: dict[int, list[float]] = {trial: [] for trial in self._rounds}
        self._outcome: dict[int, str] = {}

    @property
    def open(self) -> set[int]:
        """Trials that may be the fastest."""
        return self._rounds.keys() - self._outcome.keys()

    def add(self, trial: int, times: Sequence[float] | None) -> None:
        if times is None or not len(times):
            self._outcome[trial] = "failed"
            return
        self._rounds[trial].append(_without_warm_up(times))
        self._middles[trial].append(_middle(self._rounds[trial][-1]))

    def eliminate(self) -> None:
        """Eliminate the trials that are not faster than the leader by more than the difference that does not matter."""
        from scipy.stats import t

        trials = sorted(self.open)
        rounds = min((len(self._rounds[trial]) for trial in trials), default=0)
        if len(trials) < 2 or rounds < 2:
            return
        values = np.array([self._values(trial) for trial in trials])
        leader = int(np.argmin(values.mean(axis=1)))
        within = values - values.mean(axis=0)
        within -= within.mean(axis=1, keepdims=True)
        pooled_freedom = (len(trials) - 1) * (rounds - 1)
        pooled = 2 * float((within**2).sum()) / pooled_freedom
        weight = min(_POOLED, pooled_freedom) if len(trials) > 2 else 0
        freedom = weight + rounds - 1
        quantile = float(t.ppf(1 - (1 - CONFIDENCE) / (len(self._rounds) - 1), freedom))
        for place, trial in enumerate(trials):
            if place == leader:
                continue
            differences = values[place] - values[leader]
            variance = (weight * pooled + (rounds - 1) * float(differences.var(ddof=1))) / freedom
            slowdown = float(differences.mean())
            if slowdown + EQUAL > quantile * (variance / rounds) ** 0.5:
                self._outcome[trial] = "slower" if slowdown > EQUAL else "equal"

    def result(self) -> RaceResult | None:
        leader = min(self.open, key=lambda trial: float(np.mean(self._values(trial))), default=None)
        if leader is None:
            return None
        others = sorted(self._rounds.keys() - {leader}, key=self._median)
        outcomes = {trial: self._outcome.get(trial, "undecided") for trial in others} | {leader: "winner"}
        return RaceResult(tuple(self._standing(trial, outcomes[trial]) for trial in (leader, *others)))

    def _values(self, trial: int) -> list[float]:
        return self._middles[trial] or [_middle(self._before[trial])]

    def _times(self, trial: int) -> NDArray[np.float64]:
        return np.concatenate(self._rounds[trial] or [self._before[trial]])

    def _median(self, trial: int) -> float:
        return float(np.median(self._times(trial)))

    def _standing(self, trial: int, outcome: str) -> RaceStanding:
        return RaceStanding(trial, outcome, self._median(trial), len(self._times(trial)), len(self._rounds[trial]))


def _possible_winners(times: Mapping[int, NDArray[np.float64]]) -> list[int]:
    """Return the trials that may be the fastest by their times so far, at most eight, fastest first."""
    logs = {trial: _middle(found) for trial, found in times.items()}
    ordered = sorted(logs, key=logs.__getitem__)
    if not ordered:
        return []
    fastest = ordered[0]
    reach = {
        trial: logs[fastest] + _DRIFT + 2 * float(np.hypot(_error(times[trial]), _error(times[fastest]))) for trial in ordered
    }
    return [trial for trial in ordered if logs[trial] <= reach[trial]][:_MOST_CONTENDERS]


def _error(times: NDArray[np.float64]) -> float:
    """Return the standard error of :func:`_middle`."""
    spread = float(np.log(times).std(ddof=1)) if len(times) >= _FEWEST_TIMES else _LIKELY_SPREAD
    return float(_SPREAD_OF_MIDDLE * spread / len(times) ** 0.5)


def _middle(times: NDArray[np.float64]) -> float:
    """Return the mean of the middle half of the logarithms of some times."""
    logs, cut = np.sort(np.log(times)), len(times) // 4
    return float(logs[cut : len(logs) - cut].mean())


def _without_warm_up(times_ms: Sequence[float]) -> NDArray[np.float64]:
    times = np.asarray(times_ms, float)
    return times[warm_up_runs(times) :]
