"""The objective of a search: a function from a configuration to a measurement, or to the reason why it cannot run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.autotune.spaces.space import Configuration


@dataclass(frozen=True)
class Measurement:
    """Result of a configuration that ran.

    Args:
        runtime_ms: Time to minimise.
        details: Plain data that is stored in the user attributes of the trial.
    """

    runtime_ms: float
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Infeasible:
    """Reason why a configuration cannot run. Its trial fails; it does not count as slow.

    `stage` is `compile`, `resources`, `run` or `verification`.
    """

    reason: str
    stage: str = "run"


@dataclass(frozen=True)
class Unmeasured:
    """Reason other than the configuration that prevented a measurement, such as an unreachable store. It may be retried."""

    reason: str


@dataclass(frozen=True)
class Preempted:
    """End of a process from outside: killed, out of memory, or preempted. It is independent of the configuration."""

    reason: str


class SearchBroken(LabError):
    """Failure that ends a search; finished trials are kept."""


class Objective(Protocol):
    """Interface of a live kernel, a command, or a recorded landscape."""

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible | Preempted:
        """Measure one configuration, given with its fixed and derived values."""
        ...


@runtime_checkable
class Repeatable(Protocol):
    """Objective that can measure a configuration again."""

    @property
    def deterministic(self) -> bool:
        """True if all runs of a configuration have equal times."""
        ...

    def sample(self, configuration: Configuration, runs: int) -> Sequence[float] | Infeasible:
        """Return `runs` further times in ms, never from a cache."""
        ...


class SpaceExhausted(LabError):
    """Every configuration worth measuring has been measured, or is being measured."""
