"""What a sampler searches: something that takes a configuration and gives a measurement, or says that it cannot run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import optuna
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.space import Configuration, Space


@dataclass(frozen=True)
class Measurement:
    """A configuration that ran.

    Args:
        runtime_ms: The figure that is minimised.
        details: What else is known of it; goes into the trial's user attributes and has to be plain data.
    """

    runtime_ms: float
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Infeasible:
    """A configuration that cannot run, and why. It is told as failed, never as slow.

    `stage` says where it failed: `compile`, `resources`, `run` or `verification`.
    """

    reason: str
    stage: str = "run"


@dataclass(frozen=True)
class Unmeasured:
    """Something beside the configuration prevented its measurement, which may be tried again: a store that does not answer."""

    reason: str


class SearchBroken(LabError):
    """A search that could not go on; what was measured is kept."""


class Objective(Protocol):
    """A live kernel, a command, or a landscape that was measured before."""

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        """Measure one configuration, with its fixed and derived values."""
        ...


@runtime_checkable
class Repeatable(Protocol):
    """An objective that can be asked for more times of a configuration."""

    @property
    def deterministic(self) -> bool:
        """Whether one time tells all."""
        ...

    def sample(self, configuration: Configuration, runs: int) -> Sequence[float] | Infeasible:
        """So many further times, in ms; never from a cache."""
        ...


class SpaceExhausted(LabError):
    """Every configuration that is worth it has been measured, or is being measured."""


def search(
    study: optuna.Study,
    space: Space,
    objective: Objective,
    budget: int,
    *,
    told: Callable[[FrozenTrial], bool] | None = None,
) -> None:
    """Ask and tell until the study has `budget` more trials, or nothing is left that is worth measuring.

    An interrupt marks the trial in hand as `interrupted`, to be measured again, and keeps the rest.

    Args:
        study: Where trials are kept; its sampler chooses.
        space: What is searched.
        objective: Measures.
        budget: Trials.
        told: Called with every trial that has ended; True ends the search.

    Raises:
        StorageError: The storage fails.
    """
    from rocm_perf_lab.autotune.heartbeats import Heartbeats
    from rocm_perf_lab.autotune.storage import storage_errors
    from rocm_perf_lab.autotune.trials import ask, release, tell

    where = f"study {study.study_name}"
    with Heartbeats(study) as hearts:
        for _ in range(budget):
            try:
                with storage_errors(where):
                    hearts.release_dead()
                    asked = ask(study, space)
                    hearts.begin(asked.trial._trial_id)
            except SpaceExhausted:
                return
            try:
                result = objective(asked.configuration)
            except BaseException:
                release(study, asked.trial)
                raise
            finally:
                hearts.end(asked.trial._trial_id)
            with storage_errors(where):
                tell(study, asked.trial, result)
                ended = study._storage.get_trial(asked.trial._trial_id)
            if told is not None and told(ended):
                return
