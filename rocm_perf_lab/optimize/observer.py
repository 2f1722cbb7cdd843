"""Protocols of the closed loop for events and for storage of verdicts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.optimize.proposal import Proposal, Verdict


class LoopObserver(Protocol):
    """Receives the events of the loop. A resumed loop repeats all events in the same order."""

    def proposed(self, proposal: Proposal, number: int) -> None:
        """Called before a proposal is evaluated."""
        ...

    def evaluated(self, verdict: Verdict) -> None:
        """Called with each verdict, before the best proposal of the round is known."""
        ...

    def accepted(self, verdict: Verdict) -> None:
        """Called with the new best proposal of a round."""
        ...

    def rolled_back(self, verdict: Verdict) -> None:
        """Called with a proposal that was measured and not accepted."""
        ...

    def withdrawn(self, verdict: Verdict) -> None:
        """Called at the end with each accepted proposal, if the final comparison did not confirm the best one."""
        ...


class VerdictStore(Protocol):
    """Storage of verdicts across processes."""

    @property
    def is_replaying(self) -> bool:
        """Return whether verdicts from before the interruption remain to be recalled."""
        ...

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of the run, excluding interruptions."""
        ...

    def recall(self, proposal: Proposal) -> Verdict | None:
        """Return the verdict from before the interruption, or None."""
        ...

    def remember(self, verdict: Verdict) -> None:
        """Store a verdict."""
        ...


class NullVerdictStore:
    """Store that keeps nothing, for loops that are not resumed."""

    is_replaying = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the store was created."""
        return self._clock() - self._start

    def recall(self, proposal: Proposal) -> Verdict | None:
        """Return None."""
        return None

    def remember(self, verdict: Verdict) -> None:
        """Discard a verdict."""
