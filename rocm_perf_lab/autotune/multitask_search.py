"""Search of several shapes together: one model of all of them, and the largest expected gain for the workload.

Each step measures the shape and configuration with the largest weighted expected improvement over the best of that shape. If the
result may have fewer configurations than shapes, the last measurements are those that the selected configurations lack.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.feasibility import Feasibility
from rocm_perf_lab.autotune.multitask_process import MultiTaskProcess
from rocm_perf_lab.autotune.portfolio import select
from rocm_perf_lab.autotune.remaining import DRAWS, SPACING, Outlook, WorkloadOutlook
from rocm_perf_lab.autotune.search import SEEDS, log_expected_improvement
from rocm_perf_lab.autotune.seeds import Seeds
from rocm_perf_lab.autotune.shapes import normalised
from rocm_perf_lab.autotune.spaces.shaped_space import features_of
from rocm_perf_lab.autotune.spaces.space import Space
from rocm_perf_lab.autotune.strategy import Assessment, Observations, StrategyChoice
from rocm_perf_lab.autotune.surrogate import patience

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
    from rocm_perf_lab.autotune.spaces.space import Configuration

_POINTS = 400
"""Largest number of measurements for a fit."""
_TUNED = 120
"""Largest number of measurements for tuning hyperparameters."""
_EARLIER = 200
"""Largest number of earlier results of all tasks together."""
_POOL = 12_000
_PREDICTED = 2_000
_SETTLED = 0.001
_SLOWEST = 3.0
"""Logarithm of the slowdown above which differences are ignored."""
_PROMISING = 24
"""Configurations of each shape that may be selected without a measurement."""
_DRAWN = 300
"""Number of configurations of a shape that are drawn together, those most likely to be faster than its best."""
_PATIENCE = 4
"""Seeds that fail for a shape before the model of failures chooses."""


@dataclass(frozen=True)
class EarlierTask:
    """Earlier results of one shape on one GPU.

    Args:
        values: The shape.
        gpu: Name of the GPU.
        results: Configurations with their times in ms.
    """

    values: Configuration
    gpu: str
    results: tuple[tuple[Configuration, float], ...]


class MultiTaskSearch:
    """Strategy for a :class:`.ShapedSpace`.

    Args:
        space: The joint space.
        seed: Equal seeds and measurements lead to equal choices.
        most: Largest number of configurations of the result; None: one per shape.
        budget: Number of measurements, of which the last ones complete the result; None: unlimited.
        earlier: Results of other shapes, or of other GPUs.
        start: Configuration to measure first for every shape.
        gpu: Name of this GPU, to distinguish it from those of earlier results.
        features: Further inputs of the model, one row per row of the space.
    """

    name = "multi_task_gaussian_process"

    def __init__(
        self,
        space: ShapedSpace,
        *,
        seed: int = 0,
        most: int | None = None,
        budget: int | None = None,
        earlier: Sequence[EarlierTask] = (),
        start: Configuration | None = None,
        gpu: str = "",
        features: Column | None = None,
    ) -> None:
        self._space, self._seed, self._budget = space, seed, budget
        self._weights = np.array(normalised(space.shapes))
        self._most = min(most or len(space.shapes), len(space.shapes))
        points = space.encoded() if features is None else np.column_stack([space.encoded(), features])
        shapes = [(shape.values, gpu) for shape in space.shapes] + [(task.values, task.gpu) for task in earlier]
        tasks = features_of([{**values, "gpu": name} for values, name in shapes])
        self._inputs = np.column_stack([points, tasks[space.tasks]])
        self._earlier = _earlier_points(space, points, tasks[len(space.shapes) :], earlier)
        self._process = MultiTaskProcess(points.shape[1], tasks.shape[1])
        self._feasibility = Feasibility(self._inputs, seed=seed)
        self._tuned = 0
        self._seeds = _seed_configurations(space, seed, start)

    def choose(self, seen: Observations) -> StrategyChoice | None:
        """See :class:`.strategy.Strategy`."""
        free = seen.open(len(self._space))
        if not free.any():
            return None
        seed = self._seed_choice(seen, free)
        if seed is not None:
            return seed
        best = self._best(seen)
        left = None if self._budget is None else self._budget - len(seen.rows) - len(seen.pending)
        if left is not None and left <= len(self._space.shapes) and (lacking := self._lacking(seen, free)) is not None:
            return lacking
        self._fit(seen, best)
        centre = self._centre
        pool = self._pool(seen, free)
        predicted = self._process.predict(self._inputs[pool].astype(np.float32), _PREDICTED)
        tasks = self._space.tasks[pool]
        limit = np.log(best[tasks]) - centre
        gain = log_expected_improvement(predicted.mean, predicted.deviation, limit)
        gain += np.log(self._weights[tasks])
        if not seen.feasible.all():
            self._feasibility.fit(seen)
            hopeful = np.isfinite(predicted.mean)
            gain[hopeful] += self._feasibility.log_probability(pool[hopeful])
        place = int(np.argmax(gain))
        settled = np.exp(gain[place]) < _SETTLED * self._weights.min()
        if settled and (lacking := self._lacking(seen, free)) is not None:
            return lacking
        decision = {
            "predicted_ms": float(np.exp(predicted.mean[place] + centre)),
            "log_std": float(predicted.deviation[place]),
            "expected_improvement": float(np.exp(gain[place]) / self._weights[tasks[place]]),
            "candidates": len(pool),
        }
        return StrategyChoice(int(pool[place]), "confirmation" if settled else "prediction", decision)

    def assess(self, seen: Observations) -> Assessment:
        """See :class:`.strategy.Strategy`."""
        best = self._best(seen)
        if seen.feasible.sum() < 3 or not np.isfinite(best).any():
            return Assessment(self.name, None, None)
        used = self._fit(seen, best)
        own = len(used)
        truth, guess = self._targets[:own], self._process.left_out()[:own]
        levels = self._space.tasks[seen.rows[used]]
        means = np.array([truth[levels == task].mean() if (levels == task).any() else 0.0 for task in range(len(best))])
        spread = float(((truth - means[levels]) ** 2).sum())
        r2 = 1 - float(((truth - guess) ** 2).sum()) / spread if spread > 0 else 0.0
        residual = float(np.std(truth - guess))
        return Assessment(self.name, r2, residual, outlook=self._outlook(seen, best, residual))

    def _outlook(self, seen: Observations, best: Column, residual: float) -> WorkloadOutlook | None:
        """Draw the times of each shape's most promising unmeasured configurations; None before every shape has a time."""
        if not np.isfinite(best).all():
            return None
        return WorkloadOutlook(tuple(self._outlook_of(task, seen, residual) for task in range(len(best))))

    def _outlook_of(self, task: int, seen: Observations, residual: float) -> Outlook:
        free = replace(seen, pending=np.zeros(0, np.int64)).open(len(self._space))
        own = self._space.tasks[seen.rows] == task
        measured = seen.times[own]
        times = np.sort(np.log(measured[np.isfinite(measured)]))
        rows = self._space.rows_of(task)
        rows = rows[free[rows]]
        random = np.random.default_rng([self._seed, 8, task, len(seen.rows)])
        gains = np.full((4, DRAWS), np.inf)
        if len(rows):
            pool = random.choice(rows, _POOL, replace=False) if len(rows) > _POOL else rows
            predicted = self._process.predict(self._inputs[pool].astype(np.float32), _PREDICTED)
            order = np.argsort((predicted.mean - times[0] + self._centre) / predicted.deviation, kind="stable")[:_DRAWN]
            runs = np.ones(len(order))
            if not seen.feasible.all():
                self._feasibility.fit(seen)
                runs = np.exp(self._feasibility.log_probability(pool[order]))
            points = self._inputs[pool[order]]
            for row in range(len(gains)):  # without and with the unexplained part of the times
                drawn = self._process.draws(points, DRAWS, random)
                if row >= len(gains) // 2:
                    drawn = drawn + self._process.noise**0.5 * random.standard_normal(drawn.shape)
                fastest = np.where(random.random(drawn.shape) < runs, drawn, np.inf).min(axis=1)
                gains[row] = fastest + self._centre - times[0]
        stalled = len(measured) - 1 - int(np.argmin(measured))
        spacing = times[np.minimum(SPACING, len(times) - 1)] - times[0]
        return Outlook(len(measured), len(rows), stalled, residual, spacing, gains)

    def _best(self, seen: Observations) -> Column:
        """Return the smallest time of each shape, infinite without one."""
        best = np.full(len(self._space.shapes), np.inf)
        np.minimum.at(best, self._space.tasks[seen.rows], seen.times)
        return best

    def _seed_choice(self, seen: Observations, free: Column) -> StrategyChoice | None:
        """Return the next seed: the first for every shape, the others for one shape each, and further ones after failures."""
        table, best = self._space.table, self._best(seen)
        waiting = set(self._space.tasks[seen.pending].tolist())
        shapes = len(self._space.shapes)
        for number, column in enumerate(self._seeds):
            for task in range(shapes) if number == 0 else [number % shapes]:
                row = int(table[task, column])
                if row >= 0 and free[row]:
                    return StrategyChoice(row, "seed", {"why": "represents the space"})
        for task in np.flatnonzero(~np.isfinite(best)).tolist():
            if task in waiting:
                continue
            rows = self._space.rows_of(task)
            open_rows = rows[free[rows]]
            tried = len(rows) - len(open_rows)
            if not len(open_rows):
                continue
            planned = [int(table[task, column]) for column in self._seeds]
            unused = [row for row in planned if row >= 0 and free[row]]
            if unused and tried <= _PATIENCE:
                return StrategyChoice(unused[0], "seed", {"why": "no configuration has run for this shape"})
            if seen.feasible.any():
                self._feasibility.fit(seen)
                row = int(open_rows[np.argmax(self._feasibility.log_probability(open_rows))])
            else:
                row = int(np.random.default_rng([self._seed, 4, tried]).choice(open_rows))
            return StrategyChoice(row, "seed", {"why": "no configuration has run for this shape"})
        return None

    def _fit(self, seen: Observations, best: Column) -> Column:
        """Fit the model to logarithms of times, and return the positions of the measurements used."""
        able = np.flatnonzero(seen.feasible)
        slowdown = np.log(seen.times[able] / best[self._space.tasks[seen.rows[able]]])
        order = np.argsort(slowdown, kind="stable")
        able, slowdown = able[order[:_POINTS]], slowdown[order[:_POINTS]]
        logs = np.log(best[self._space.tasks[seen.rows[able]]]) + np.minimum(slowdown, _SLOWEST)
        points = np.vstack([self._inputs[seen.rows[able]], self._earlier[0]])
        logs = np.concatenate([logs, self._earlier[1]])
        self._centre = float(logs.mean())
        targets = logs - self._centre
        count = len(seen.rows)
        if count >= self._tuned + patience(count) or count < self._tuned:
            subset = np.random.default_rng([self._seed, 5, count]).permutation(len(points))[:_TUNED]
            self._process.tune(points[subset], targets[subset])
            self._tuned = count
        self._targets = targets
        self._process.fit(points, targets)
        if len(seen.pending):
            waiting = self._inputs[seen.pending]
            believed = self._process.predict(waiting.astype(np.float32)).mean
            self._process.fit(np.vstack([points, waiting]), np.concatenate([targets, believed]))
        return able

    def _pool(self, seen: Observations, free: Column) -> Column:
        rows = np.flatnonzero(free)
        if len(rows) <= _POOL:
            return rows
        random = np.random.default_rng([self._seed, 1, len(seen.rows)])
        drawn = random.choice(rows, _POOL, replace=False)
        fastest = np.argsort(seen.times, kind="stable")
        leaders = {int(self._space.tasks[seen.rows[place]]): int(seen.rows[place]) for place in fastest[::-1]}
        near = [self._space.neighbours(row) for row in leaders.values()]
        rows = np.unique(np.concatenate([drawn, *near]))
        return rows[free[rows]]

    def _lacking(self, seen: Observations, free: Column) -> StrategyChoice | None:
        """Return the heaviest measurement that the selected configurations lack; None if they are complete.

        The first of several objectives selects.
        """
        if self._most >= len(self._space.shapes):
            return None
        seen = seen if seen.first is None else replace(seen, times=seen.first)
        best = self._best(seen)
        self._fit(seen, best)
        table = self._space.table
        failed = np.zeros(len(self._space), bool)
        failed[seen.rows[~seen.feasible]] = True
        columns = self._candidates(seen)
        rows = table[:, columns]
        slowdown = np.full(rows.shape, np.inf)
        valid = (rows >= 0) & ~failed[rows]
        predicted = self._process.predict(self._inputs[rows[valid]].astype(np.float32)).mean + self._centre
        slowdown[valid] = np.exp(predicted - np.log(best[np.nonzero(valid)[0]]))
        known = np.full(len(self._space), np.nan)
        known[seen.rows] = seen.times
        measured = valid & np.isfinite(known[rows])
        slowdown[measured] = (known[rows] / best[:, None])[measured]
        chosen = select(slowdown, self._weights.tolist(), self._most)
        wanted = [(float(self._weights[task]), int(rows[task, place])) for task, place in enumerate(chosen.choice) if place >= 0]
        open_rows = [(weight, row) for weight, row in wanted if free[row]]
        if not open_rows:
            return None
        return StrategyChoice(max(open_rows)[1], "selection", {"why": "completes the selected configurations"})

    def _candidates(self, seen: Observations) -> Column:
        """Return the configurations that may be selected: all measured ones, and the most promising of each shape."""
        found = [np.unique(self._space.configurations[seen.rows[seen.feasible]])]
        for task in range(len(self._space.shapes)):
            rows = self._space.rows_of(task)
            if not len(rows):
                continue
            if len(rows) > _PREDICTED:
                rows = np.random.default_rng([self._seed, 6, task]).choice(rows, _PREDICTED, replace=False)
            mean = self._process.predict(self._inputs[rows].astype(np.float32)).mean
            found.append(self._space.configurations[rows[np.argsort(mean, kind="stable")[:_PROMISING]]])
        return np.unique(np.concatenate(found))


def _seed_configurations(space: ShapedSpace, seed: int, start: Configuration | None) -> list[int]:
    """Return the numbers of the seeds' configurations, the start first."""
    _, rows = np.unique(space.configurations, return_index=True)
    alone = Space({name: space.values[name] for name in space.tuned}, space.codes[rows, 1:], combinations=space.combinations)
    first = start if start is not None and alone.index(start) is not None else None
    design = Seeds(Space(alone.values, alone.codes, defaults=first, combinations=alone.combinations), seed, SEEDS).design()
    return [int(space.configurations[rows[row]]) for row in design]


def _earlier_points(
    space: ShapedSpace, points: Column, features: Column, earlier: Sequence[EarlierTask]
) -> tuple[Column, Column]:
    """Return inputs and logarithms of times of the earlier results whose configuration is in the space.

    Of each task, the fastest and a regular selection of the others are used if there are too many.
    """
    _, rows = np.unique(space.configurations, return_index=True)
    alone = Space({name: space.values[name] for name in space.tuned}, space.codes[rows, 1:])
    found: list[Column] = []
    logs: list[float] = []
    for task, feature in zip(earlier, features, strict=True):
        numbers = [(time, alone.index(values)) for values, time in task.results]
        known = sorted((time, number) for time, number in numbers if number is not None)
        most = max(2, _EARLIER // len(earlier))
        kept = known if len(known) <= most else known[: most // 2] + known[most // 2 :: 2 * len(known) // most]
        for time, number in kept:
            found.append(np.concatenate([points[rows[number]], feature]))
            logs.append(float(min(np.log(time), np.log(known[0][0]) + _SLOWEST)))
    width = points.shape[1] + features.shape[1]
    return (np.array(found), np.array(logs)) if found else (np.zeros((0, width)), np.zeros(0))
