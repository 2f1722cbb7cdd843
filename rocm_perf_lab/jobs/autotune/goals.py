"""The objectives and limits that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.config import ObjectiveConfig
from rocm_perf_lab.autotune.goals import RUNTIME, Goal, GoalError, Goals

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.config.lab import LabConfig


def configured_goals(config: LabConfig, space: Space | None = None) -> Goals | None:
    """Return the configured objectives and limits, or None for the time alone.

    Args:
        config: The configuration.
        space: The search space, whose derived values expressions may read.

    Raises:
        GoalError: Settings contradict each other.
    """
    settings = config.autotune
    if not settings.objectives and not settings.limits:
        return None
    single = {
        "autotune.stop_when": settings.stop_when is not None,
        "autotune.prior": settings.prior is not None,
        "autotune.model": settings.model != "gaussian_process",
    }
    for where, given in single.items():
        if given and len(settings.objectives) > 1:
            raise GoalError("this setting is for one objective", where=where, hint="remove it, or all objectives but one")
    goals = tuple(
        Goal(one.metric, one.direction == "maximise") if isinstance(one, ObjectiveConfig) else Goal(one)
        for one in settings.objectives
    )
    if len({goal.metric for goal in goals}) < len(goals):
        raise GoalError("an objective is given twice", where="autotune.objectives", hint="remove one")
    # The configured kernel is unrelated to a command.
    constants = {} if config.job.arguments.get("command") else dict(config.kernel.params)
    return Goals(goals or (Goal(RUNTIME),), settings.limits, constants, space)
