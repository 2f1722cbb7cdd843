"""The ask-and-tell loop of one process: begin a trial with a valid configuration, measure it, record the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.claims import ClaimingSampler
from rocm_perf_lab.autotune.heartbeats import Heartbeats
from rocm_perf_lab.autotune.objective import Preempted, SearchBroken, SpaceExhausted
from rocm_perf_lab.autotune.storage import storage_errors
from rocm_perf_lab.autotune.trials import is_interrupted, measured, preempted, release, tell
from rocm_perf_lab.autotune.wrapped_sampler import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

    from rocm_perf_lab.autotune.objective import Objective
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space

_MOST_REFUSED = 200
"""Proposals in a row that may violate constraints before the search ends."""
MOST_PREEMPTED = 6
"""Number of consecutive trials ended from outside that ends a search."""


@dataclass(frozen=True)
class AskedTrial:
    """Trial that has begun, and its configuration with fixed and derived values."""

    trial: Trial
    configuration: Configuration


def ask(study: Study, space: Space) -> AskedTrial:
    """Begin a trial with a valid configuration that no other trial has.

    Raises:
        SpaceExhausted: Nothing worth measuring is left, or the sampler does not find it.
    """
    if measured(study) >= len(space):  # Optuna does not ask the sampler if every parameter has a single value
        raise SpaceExhausted(
            f"all {len(space)} configurations are measured", where=f"study {study.study_name}", hint="widen the space"
        )
    for _ in range(_MOST_REFUSED):
        trial = study.ask()
        try:
            if isinstance(study.sampler, ClaimingSampler):
                study.sampler.claim(study, trial)
            parameters = {name: trial.suggest_categorical(name, values) for name, values in space.values.items()}
        except BaseException:
            release(study, trial)
            raise
        if not refuse(study, trial, space, parameters):
            return AskedTrial(trial, space.complete(parameters))
    raise SpaceExhausted(
        f"the sampler proposed {_MOST_REFUSED} combinations in a row that violate the constraints",
        where=f"study {study.study_name}",
        hint="use the default sampler (autotune.sampler=null), or a smaller budget",
    )


def search(
    study: Study,
    space: Space,
    objective: Objective,
    budget: int,
    *,
    told: Callable[[FrozenTrial], bool] | None = None,
) -> None:
    """Ask and tell until the study has `budget` more trials, or nothing worth measuring is left.

    On an interrupt, the current trial is marked as interrupted, so that its configuration is measured again.

    Args:
        study: Study with its sampler.
        space: The search space.
        objective: Measures a configuration.
        budget: Number of trials.
        told: Called with every finished trial; returning True ends the search.

    Raises:
        StorageError: The storage fails.
    """
    where = f"study {study.study_name}"
    with Heartbeats(study) as heartbeats:
        left, interrupted = budget, 0
        while left > 0:
            left -= 1
            try:
                with storage_errors(where):
                    heartbeats.release_dead()
                    asked = ask(study, space)
                    heartbeats.begin(asked.trial)
            except SpaceExhausted:
                return
            try:
                result = objective(asked.configuration)
            except BaseException:
                release(study, asked.trial)
                raise
            finally:
                heartbeats.end(asked.trial)
            with storage_errors(where):
                if isinstance(result, Preempted):
                    finished = preempted(study, asked.trial, result.reason)
                    interrupted += 1
                    if interrupted >= MOST_PREEMPTED:
                        raise SearchBroken(result.reason, where=where, hint="fix this, then resume the search")
                    if is_interrupted(finished):
                        left += 1
                        continue
                else:
                    finished, interrupted = tell(study, asked.trial, result), 0
            if told is not None and told(finished):
                return
