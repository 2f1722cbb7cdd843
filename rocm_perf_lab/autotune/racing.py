"""Configurations too close to call are measured further, in turns, until one is the fastest or the difference does not matter.

Medians are compared by bootstrap: one that is slower than the leader with 95 % confidence is out; one whose difference lies
within one per cent is as good as the leader. Turns, so that a drifting clock treats all alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.objective import Infeasible
from rocm_perf_lab.statistics.stability import bootstrap_medians, warm_up_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CONFIDENCE = 0.95
EQUAL = 0.01
"""A difference of medians that does not matter."""
_MOST = 8
"""Contenders of a race, the fastest ones."""
_FEWEST_TIMES = 3
"""Fewer say nothing of the spread."""
_LIKELY_SPREAD = 0.10
"""What is assumed then: who is slower than the fastest by more does not race."""


@dataclass(frozen=True)
class Standing:
    """One contender at the end: `outcome` is `winner`, `slower`, `equal`, `failed` or `undecided`."""

    trial: int
    outcome: str
    median_ms: float
    runs: int
    rounds: int


@dataclass(frozen=True)
class Race:
    """How a race ended, the winner first."""

    standings: tuple[Standing, ...]

    @property
    def winner(self) -> Standing:
        """The fastest."""
        return self.standings[0]

    @property
    def decided(self) -> bool:
        """False where the rounds were used up before the others were slower, or as good."""
        return all(standing.outcome != "undecided" for standing in self.standings)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"decided": self.decided, "standings": [asdict(standing) for standing in self.standings]}


def race(
    times_ms: Mapping[int, Sequence[float]],
    sample: Callable[[int], Sequence[float] | Infeasible],
    *,
    max_rounds: int,
) -> Race | None:
    """Race the trials that may be the fastest; None where one is clearly the fastest already.

    Args:
        times_ms: Trial -> its times so far.
        sample: Takes a trial; gives one more round of its times.
        max_rounds: Further rounds.
    """
    field = _Field(times_ms)
    if len(field.open) < 2 or max_rounds == 0:
        return None
    for _ in range(max_rounds):
        for trial in sorted(field.open):
            field.add(trial, sample(trial))
        field.judge()
        if len(field.open) < 2:
            break
    return field.result()


class _Field:
    def __init__(self, times_ms: Mapping[int, Sequence[float]]) -> None:
        medians = {trial: float(np.median(times)) for trial, times in times_ms.items()}
        limit = min(medians.values(), default=0.0) * (1 + _LIKELY_SPREAD)
        able = [trial for trial in medians if len(times_ms[trial]) >= _FEWEST_TIMES or medians[trial] <= limit]
        first = sorted(able, key=medians.__getitem__)[:_MOST]
        self._times = {trial: _settled(times_ms[trial]) for trial in first}
        self._rounds = dict.fromkeys(first, 0)
        self._outcome: dict[int, str] = {}
        self.judge()
        self._outcome = {trial: outcome for trial, outcome in self._outcome.items() if outcome == "slower"}
        self._times = {trial: times for trial, times in self._times.items() if trial not in self._outcome}
        self._outcome = {}

    @property
    def open(self) -> set[int]:
        """Trials that may be the fastest."""
        return self._times.keys() - self._outcome.keys()

    def add(self, trial: int, times: Sequence[float] | Infeasible) -> None:
        if isinstance(times, Infeasible):
            self._outcome[trial] = "failed"
            return
        self._times[trial] = np.concatenate([self._times[trial], _settled(times)])
        self._rounds[trial] += 1

    def judge(self) -> None:
        """Take out who is slower than the leader, or as good as it."""
        leader = self._leader()
        if leader is None:
            return
        if min(len(self._times[trial]) for trial in self.open) < _FEWEST_TIMES:
            return
        best = bootstrap_medians(self._times[leader], stream=leader)
        for trial in self.open - {leader}:
            difference = bootstrap_medians(self._times[trial], stream=trial) / best - 1
            low, high = np.quantile(difference, [1 - CONFIDENCE, CONFIDENCE])
            if low > 0:
                self._outcome[trial] = "slower"
            elif low >= -EQUAL and high <= EQUAL:
                self._outcome[trial] = "equal"

    def result(self) -> Race | None:
        leader = self._leader()
        if leader is None:
            return None
        others = sorted(self._times.keys() - {leader}, key=self._median)
        ended = {trial: self._outcome.get(trial, "undecided") for trial in others} | {leader: "winner"}
        return Race(tuple(self._standing(trial, ended[trial]) for trial in (leader, *others)))

    def _leader(self) -> int | None:
        return min(self.open, key=self._median, default=None)

    def _median(self, trial: int) -> float:
        return float(np.median(self._times[trial]))

    def _standing(self, trial: int, outcome: str) -> Standing:
        return Standing(trial, outcome, self._median(trial), len(self._times[trial]), self._rounds[trial])


def _settled(times_ms: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    times = np.asarray(times_ms, float)
    return times[warm_up_runs(times) :]
