"""The objectives and limits that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.config import ObjectiveConfig
from rocm_perf_lab.autotune.goals import RUNTIME, Goal, GoalError, Goals

if TYPE_CHECKING:
    from rocm_perf_lab.config.lab import LabConfig


def configured_goals(config: LabConfig) -> Goals | None:
    """Return the configured objectives and limits, or None for the time alone.

    Raises:
        GoalError: Settings contradict each other.
    """
    settings = config.autotune
    if not settings.objectives and not settings.limits:
        return None
    single = {
        "autotune.stop_when": settings.stop_when is not None,
        "autotune.sampler": settings.sampler is not None,
        "autotune.prior": settings.prior is not None,
        "autotune.model": settings.model != "gaussian_process",
        "autotune.shapes": settings.shapes is not None,
    }
    for where, given in single.items():
        if given:
            raise GoalError(
                "this setting is for the search of the smallest time", where=where, hint="remove it, or objectives and limits"
            )
    goals = tuple(
        Goal(one.metric, one.direction == "maximise") if isinstance(one, ObjectiveConfig) else Goal(one)
        for one in settings.objectives
    )
    if len({goal.metric for goal in goals}) < len(goals):
        raise GoalError("an objective is given twice", where="autotune.objectives", hint="remove one")
    return Goals(goals or (Goal(RUNTIME),), settings.limits, dict(config.kernel.params))
