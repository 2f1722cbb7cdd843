"""Selection of the fastest of several configurations with noisy times, by racing.

Candidates whose medians are close are measured further, one round each in turn and in random order, so that a drifting clock
affects all alike.
Medians are compared by bootstrap: a candidate that is slower than the leader with 95 % confidence is eliminated; one whose
difference is within 1 % counts as equal. The race ends when no candidate is undecided, or after the last round.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.statistics.bootstrap import CONFIDENCE, bootstrap_medians
from rocm_perf_lab.statistics.stability import warm_up_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

EQUAL = 0.01
"""Relative difference of medians that does not matter."""
_MOST_CONTENDERS = 8
_FEWEST_TIMES = 3
"""Fewer times do not show the spread."""
_LIKELY_SPREAD = 0.10
"""Spread that is assumed for fewer times: a candidate slower than the fastest by more does not race."""


@dataclass(frozen=True)
class RaceStanding:
    """Result of one contender; `outcome` is `winner`, `slower`, `equal`, `failed` or `undecided`."""

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
        """The contender with the smallest median."""
        return self.standings[0]

    @property
    def decided(self) -> bool:
        """True if every other contender was found slower, equal or failed within the allowed rounds."""
        return all(standing.outcome != "undecided" for standing in self.standings)

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"decided": self.decided, "standings": [asdict(standing) for standing in self.standings]}


def race(
    times_ms: Mapping[int, Sequence[float]],
    sample: Callable[[int], Sequence[float] | None],
    *,
    max_rounds: int,
) -> RaceResult | None:
    """Race the trials that may be the fastest, or return None if one is clearly the fastest.

    Args:
        times_ms: Trial -> its times so far.
        sample: Returns one more round of times of a trial, or None if the trial fails.
        max_rounds: Largest number of further rounds.
    """
    contenders = _Contenders(times_ms)
    if len(contenders.open) < 2 or max_rounds == 0:
        return None
    random = np.random.default_rng(0)
    for _ in range(max_rounds):
        for trial in random.permutation(sorted(contenders.open)).tolist():
            contenders.add(trial, sample(trial))
        contenders.eliminate()
        if len(contenders.open) < 2:
            break
    return contenders.result()


class _Contenders:
    def __init__(self, times_ms: Mapping[int, Sequence[float]]) -> None:
        medians = {trial: float(np.median(times)) for trial, times in times_ms.items()}
        limit = min(medians.values(), default=0.0) * (1 + _LIKELY_SPREAD)
        able = [trial for trial in medians if len(times_ms[trial]) >= _FEWEST_TIMES or medians[trial] <= limit]
        first = sorted(able, key=medians.__getitem__)[:_MOST_CONTENDERS]
        self._times = {trial: _without_warm_up(times_ms[trial]) for trial in first}
        self._rounds = dict.fromkeys(first, 0)
        self._outcome: dict[int, str] = {}
        self.eliminate()
        self._times = {trial: times for trial, times in self._times.items() if self._outcome.get(trial) != "slower"}
        self._outcome = {}

    @property
    def open(self) -> set[int]:
        """Trials that may be the fastest."""
        return self._times.keys() - self._outcome.keys()

    def add(self, trial: int, times: Sequence[float] | None) -> None:
        if times is None:
            self._outcome[trial] = "failed"
            return
        self._times[trial] = np.concatenate([self._times[trial], _without_warm_up(times)])
        self._rounds[trial] += 1

    def eliminate(self) -> None:
        """Decide which trials are slower than the leader, or equal to it."""
        leader = self._leader()
        if leader is None or min(len(self._times[trial]) for trial in self.open) < _FEWEST_TIMES:
            return
        best = bootstrap_medians(self._times[leader], stream=leader)
        for trial in self.open - {leader}:
            difference = bootstrap_medians(self._times[trial], stream=trial) / best - 1
            low, high = np.quantile(difference, [1 - CONFIDENCE, CONFIDENCE])
            if low > 0:
                self._outcome[trial] = "slower"
            elif low >= -EQUAL and high <= EQUAL:
                self._outcome[trial] = "equal"

    def result(self) -> RaceResult | None:
        leader = self._leader()
        if leader is None:
            return None
        others = sorted(self._times.keys() - {leader}, key=self._median)
        outcomes = {trial: self._outcome.get(trial, "undecided") for trial in others} | {leader: "winner"}
        return RaceResult(tuple(self._standing(trial, outcomes[trial]) for trial in (leader, *others)))

    def _leader(self) -> int | None:
        return min(self.open, key=self._median, default=None)

    def _median(self, trial: int) -> float:
        return float(np.median(self._times[trial]))

    def _standing(self, trial: int, outcome: str) -> RaceStanding:
        return RaceStanding(trial, outcome, self._median(trial), len(self._times[trial]), self._rounds[trial])


def _without_warm_up(times_ms: Sequence[float]) -> NDArray[np.float64]:
    times = np.asarray(times_ms, float)
    return times[warm_up_runs(times) :]
