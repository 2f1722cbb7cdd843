"""What a sampler searches: something that takes a configuration and gives a measurement, or says that it cannot run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rocm_perf_lab.errors import LabError

if TYPE_CHECKING:
    import optuna

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
    """A configuration that cannot run, and why. It is told as failed, never as slow."""

    reason: str


class Objective(Protocol):
    """A live kernel, a command, or a landscape that was measured before."""

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        """Measure one configuration, with its fixed and derived values."""
        ...


class SpaceExhausted(LabError):
    """Every configuration that is worth it has been measured, or is being measured."""


def search(study: optuna.Study, space: Space, objective: Objective, budget: int) -> None:
    """Ask and tell until the study has `budget` more trials, or nothing is left that is worth measuring.

    An interrupt marks the trial in hand as `interrupted`, to be measured again, and keeps the rest.
    """
    from optuna.trial import TrialState

    for _ in range(budget):
        trial = study.ask()
        try:
            parameters = {name: trial.suggest_categorical(name, values) for name, values in space.values.items()}
            result = objective(space.complete(parameters))
        except BaseException as error:
            trial.set_user_attr("interrupted", True)
            study.tell(trial, state=TrialState.FAIL)
            if isinstance(error, SpaceExhausted):
                return
            raise
        if isinstance(result, Infeasible):
            trial.set_user_attr("reason", result.reason)
            study.tell(trial, state=TrialState.FAIL)
            continue
        for name, value in result.details.items():
            trial.set_user_attr(name, value)
        study.tell(trial, result.runtime_ms)
