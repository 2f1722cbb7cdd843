"""Selected configurations of a workload, from the trials of a search of its joint space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.portfolio import select
from rocm_perf_lab.autotune.shapes import SHAPE, normalised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.autotune.goals import Goals
    from rocm_perf_lab.autotune.shaped_space import ShapedSpace
    from rocm_perf_lab.autotune.shapes import WorkloadShape
    from rocm_perf_lab.autotune.space import Configuration
    from rocm_perf_lab.autotune.trials import TrialRecord


@dataclass(frozen=True)
class TunedShape:
    """Result of one shape; see :class:`.shapes_document.ShapeResult`."""

    shape: WorkloadShape
    weight: float
    evaluated: int
    configuration: int | None
    runtime_ms: float | None
    best: TrialRecord | None
    first_ms: float | None

    @property
    def regret(self) -> float | None:
        """Slowdown of the selected configuration against the best one measured."""
        if self.runtime_ms is None or self.best is None or self.best.runtime_ms is None:
            return None
        return self.runtime_ms / self.best.runtime_ms - 1


@dataclass(frozen=True)
class TunedWorkload:
    """Selected configurations, and the result of each shape."""

    configurations: tuple[Configuration, ...]
    shapes: tuple[TunedShape, ...]

    @property
    def weighted_regret(self) -> float | None:
        """Weighted mean regret of the shapes that have a configuration."""
        known = [(one.weight, one.regret) for one in self.shapes if one.regret is not None]
        total = sum(weight for weight, _ in known)
        return sum(weight * regret for weight, regret in known) / total if known else None


def tuned_workload(
    space: ShapedSpace, trials: Sequence[TrialRecord], most: int | None, limits: Goals | None = None
) -> TunedWorkload:
    """Select at most `most` configurations (None: one per shape) by the measured times of the trials that exceed no limit."""
    table = space.table
    times = np.full(table.shape, np.inf)
    by_shape: dict[str, list[TrialRecord]] = {shape.label: [] for shape in space.shapes}
    for trial in trials:
        row = space.index(trial.parameters)
        if row is None:
            continue
        if limits is not None and limits.values(trial) is None:
            trial = replace(trial, runtime_ms=None)
        by_shape[trial.parameters[SHAPE]].append(trial)
        if trial.runtime_ms is not None:
            place = int(space.tasks[row]), int(space.configurations[row])
            times[place] = min(times[place], trial.runtime_ms)
    best = times.min(axis=1)
    weights = normalised(space.shapes)
    used = np.flatnonzero(np.isfinite(times).any(axis=0))
    relative = times[:, used] / np.where(np.isfinite(best), best, 1.0)[:, None]
    chosen = select(relative, weights, most or len(space.shapes))
    shapes = []
    for task, (shape, weight) in enumerate(zip(space.shapes, weights, strict=True)):
        column, own = chosen.choice[task], by_shape[shape.label]
        ran = [trial for trial in own if trial.runtime_ms is not None]
        shapes.append(
            TunedShape(
                shape,
                weight,
                len(own),
                chosen.columns.index(column) if column >= 0 else None,
                float(times[task, used[column]]) if column >= 0 else None,
                min(ran, key=lambda trial: (trial.runtime_ms or 0.0, trial.number), default=None),
                own[0].runtime_ms if own else None,
            )
        )
    return TunedWorkload(tuple(_configuration(space, int(used[column])) for column in chosen.columns), tuple(shapes))


def _configuration(space: ShapedSpace, column: int) -> Configuration:
    rows = space.table[:, column]
    found = space.configuration(int(rows[rows >= 0][0]))
    return {name: value for name, value in found.items() if name != SHAPE}
