"""Which configuration to measure next: seeds that fill the space, then the largest expected improvement of a model.

Nothing here knows where a measurement comes from or where it is kept; see `sampler.py` for Optuna.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rocm_perf_lab.autotune.encoding import encode
from rocm_perf_lab.autotune.gaussian import GaussianProcess
from rocm_perf_lab.autotune.prior import Trust

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.prior import Prior
    from rocm_perf_lab.autotune.space import Space

SEEDS = 8
LOW_CONFIDENCE = 0.75
"""R² below which predictions must not exclude anything."""
WARNING = "low_model_confidence"
FROM_PRIOR = "from_prior"
"""Key of a decision: the prior proposed it."""
_PREDICTED = 1500
"""Candidates, by predicted mean, whose uncertainty is worked out."""
_POOL = 16_000
"""Larger spaces are searched in samples of this size, and around the best configurations."""
_AROUND = 8
_POINTS = 300
"""Measurements that a model learns from; of more it takes the best half and a sample of the others."""
_SEED_SAMPLE = 1000
"""Configurations that stand for the space when seeds are chosen."""
_SEED_TRIES = 300
_SETTLED = 0.001
"""Expected improvement (as a fraction of the time) below which further trials only confirm the best."""
_COMPRESS = (False, True)


@dataclass(frozen=True)
class Observations:
    """What is known so far.

    Args:
        rows: Configurations that were measured.
        times: Their times; infinite where one cannot run.
        pending: Configurations that are being measured.
        proposed: Those of all these that a prior proposed.
    """

    rows: Column
    times: Column
    pending: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    proposed: Column = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def feasible(self) -> Column:
        """Which of them ran."""
        return np.isfinite(self.times)

    @property
    def tried(self) -> Column:
        """Which of the measured ones a prior proposed."""
        return np.isin(self.rows, self.proposed)

    @property
    def led(self) -> Column:
        """Which of them were faster than all before them."""
        return self.times < np.minimum.accumulate(np.append(np.inf, self.times))[:-1]

    def open(self, count: int) -> Column:
        """Which of `count` configurations nobody has taken."""
        free = np.ones(count, bool)
        free[self.rows] = False
        free[self.pending] = False
        return free


@dataclass(frozen=True)
class Choice:
    """The next configuration, the phase that it belongs to, and why it was taken (plain data)."""

    row: int
    phase: str
    decision: dict[str, Any]


@dataclass(frozen=True)
class Assessment:
    """How far the model can be trusted, and what it rules out.

    Args:
        r2: Cross-validated, of what the model was fitted to; None below three measurements.
        residual_std: Of the same predictions and in the same unit (logarithm of time, for the default model).
        pruned_rows: Configurations that are neither measured nor worth it; none under low confidence.
    """

    name: str
    r2: float | None
    residual_std: float | None
    pruned_rows: Column = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def pruned(self) -> int:
        """How many are pruned."""
        return len(self.pruned_rows)

    @property
    def warning(self) -> str | None:
        """`low_model_confidence`, or nothing."""
        return WARNING if self.r2 is None or self.r2 < LOW_CONFIDENCE else None


class Strategy(Protocol):
    """One way to search a space. Equal observations and seed give equal choices."""

    def choose(self, seen: Observations) -> Choice | None:
        """The next configuration; None where the search has come to its end."""
        ...

    def assess(self, seen: Observations) -> Assessment:
        """What the model makes of the measurements."""
        ...


class Seeds:
    """A design that represents the valid configurations: each brings the others, on average, as near to a seed as one more can.

    Unlike a design of greatest distances it does not spend itself on corners, where GPU kernels are slow. Defaults come first.
    """

    def __init__(self, space: Space, seed: int, count: int) -> None:
        self._random = np.random.default_rng([seed, 0])
        points = encode(space, factors=False).astype(np.float32)
        sample = self._random.choice(len(space), min(_SEED_SAMPLE, len(space)), replace=False)
        self._rows, self._sample, self._candidates = sample, points[sample], points
        start = space.index(space.defaults) if space.defaults else None
        self._planned: list[int] = []
        self._distance = np.full(len(sample), np.inf, np.float32)
        if start is not None:
            self._add(start)
        self.count = min(count, len(space))

    def next(self, seen: Observations, size: int) -> int | None:
        """The first seed that nobody has taken; None when there are enough."""
        free = seen.open(size)
        position = 0
        while position < self.count:
            if position == len(self._planned):
                self._add(self._representative())
            if free[self._planned[position]]:
                return self._planned[position]
            position += 1
        return None

    def design(self) -> list[int]:
        """The whole plan."""
        while len(self._planned) < self.count:
            self._add(self._representative())
        return self._planned

    def more(self, seen: Observations, size: int) -> int:
        """One beyond the plan, for a start on which nothing ran."""
        free = np.flatnonzero(seen.open(size))
        return int(np.random.default_rng([int(self._random.integers(2**31)), len(seen.rows)]).choice(free))

    def _representative(self) -> int:
        if not self._planned:
            return int(self._rows[0])
        fresh = np.setdiff1d(self._rows, self._planned, assume_unique=True)
        if not len(fresh):
            return int(self._random.choice(np.setdiff1d(np.arange(len(self._candidates)), self._planned)))
        tried = self._random.permutation(fresh)[:_SEED_TRIES]
        nearer = np.minimum(_distances(self._candidates[tried], self._sample), self._distance)
        return int(tried[np.argmin(nearer.sum(axis=1))])

    def _add(self, row: int) -> None:
        self._planned.append(row)
        self._distance = np.minimum(self._distance, _distances(self._candidates[[row]], self._sample)[0])


def _distances(left: Column, right: Column) -> Column:
    """Euclidean distances of shape (left, right)."""
    squares = (left * left).sum(1)[:, None] + (right * right).sum(1) - 2 * left @ right.T
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


class _View:
    """One model of the times, as they are or compressed."""

    def __init__(self, inputs: Column, *, compress: bool) -> None:
        self.model = GaussianProcess(inputs.shape[1])
        self.candidates = inputs.astype(np.float32)
        self._inputs = inputs
        self.evidence = 0.0
        self._compress = compress
        self.tuned = 0

    def fit(self, seen: Observations, used: Column) -> Targets:
        """Learn from what was measured; what is being measured counts with the value that is expected of it."""
        targets = Targets.of(seen.times[used], used, compress=self._compress)
        points, count = self._inputs[seen.rows[used]], len(seen.rows)
        if count >= self.tuned + _patience(count) or count < self.tuned:
            self.evidence = self.model.tune(points, targets.values)
            self.tuned = count
        self.model.fit(points, targets.values)
        if len(seen.pending):
            waiting = self._inputs[seen.pending]
            believed = self.model.predict(waiting.astype(np.float32)).mean
            self.model.fit(np.vstack([points, waiting]), np.concatenate([targets.values, believed]))
        return targets


def _patience(count: int) -> int:
    """New measurements after which length scales are found anew: it takes longer and changes less, the more there are."""
    return max(1, min(5, count // 10), count // 20)


class GaussianSearch:
    """The default: Gaussian processes on the logarithm of time, and the expected improvement over the best.

    Two models take turns: one of the times as they are, one that cares little how slow the slow half is. Where one of them
    has settled for a region, the other has its own opinion.
    """

    name = "gaussian_process"

    def __init__(
        self, space: Space, *, seed: int = 0, seeds: int = SEEDS, prior: Prior | None = None, features: Column | None = None
    ) -> None:
        self._space = space
        self._seed = seed
        points = encode(space) if features is None else np.column_stack([encode(space), features])
        self._views = [_View(points, compress=compress) for compress in _COMPRESS]
        self._seeds = Seeds(space, seed, seeds)
        self._trust = Trust(space, prior, self._seeds.design()) if prior is not None else None
        self._believing: list[_View] = []
        if self._trust is not None:
            with_prior = np.column_stack([points, self._trust.column()])
            self._believing = [_View(with_prior, compress=compress) for compress in _COMPRESS]

    def choose(self, seen: Observations) -> Choice | None:
        """See :class:`Strategy`."""
        free = seen.open(len(self._space))
        if not free.any():
            return None
        seed = self._seed_choice(seen, free)
        if seed is not None:
            return seed
        learned = self._learned_from(seen)
        if learned.feasible.sum() < 2:
            return Choice(self._seeds.more(seen, len(self._space)), "seed", {"why": "too few configurations have run"})
        view, targets = self._fit(learned, len(learned.rows) + len(learned.pending))
        pool = self._pool(learned, free)
        predicted = view.model.predict(view.candidates[pool], _PREDICTED)
        gain = log_expected_improvement(predicted.mean, predicted.deviation, float(targets.values.min()))
        best = int(np.argmax(gain))
        decision = {
            "predicted_ms": targets.as_time(float(predicted.mean[best])),
            "log_std": float(predicted.deviation[best]) * targets.scale,
            "expected_improvement": float(np.exp(gain[best])) * targets.scale,
            "candidates": len(pool),
        }
        if self._believing:
            decision["prior_believed"] = view in self._believing
        settled = decision["expected_improvement"] < _SETTLED
        return Choice(int(pool[best]), "confirmation" if settled else "prediction", decision)

    def _seed_choice(self, seen: Observations, free: Column) -> Choice | None:
        """The design, then what a prior is entitled to propose."""
        row = self._seeds.next(seen, len(self._space))
        if row is not None:
            return Choice(row, "seed", {"why": "represents the space"})
        if self._trust is None or self._trust.believed:
            return None
        tried = seen.tried
        others = int((~tried).sum()) - self._seeds.count
        if len(seen.proposed) >= self._trust.entitled(int(seen.led[tried].sum()), others):
            return None
        row = self._trust.next(seen.rows[~tried], seen.times[~tried], free)
        if row is None:
            return None
        return Choice(row, "seed", {"why": f"fastest of its region according to {self._trust.source}", FROM_PRIOR: True})

    def _proven(self, seen: Observations) -> bool:
        assert self._trust is not None
        planned = np.isin(seen.rows, self._seeds.design())
        return self._trust.proven(seen.times[seen.tried], seen.times[planned])

    def _learned_from(self, seen: Observations) -> Observations:
        """All measurements; without what the prior proposed in vain while it is neither proven nor believed: it costs no more."""
        if self._trust is None or self._trust.believed or self._proven(seen):
            return seen
        kept = ~seen.tried | seen.led
        return Observations(seen.rows[kept], seen.times[kept], seen.pending)

    def assess(self, seen: Observations) -> Assessment:
        """See :class:`Strategy`."""
        learned = self._learned_from(replace(seen, pending=np.zeros(0, np.int64)))
        if learned.feasible.sum() < 3:
            return Assessment(self.name, None, None)
        view, targets = self._fit(learned, 0)
        left_out = view.model.left_out()
        kept = np.isfinite(learned.times[targets.used])
        truth, guess = targets.values[kept], left_out[kept]
        spread = float(((truth - truth.mean()) ** 2).sum())
        r2 = 1 - float(((truth - guess) ** 2).sum()) / spread if spread > 0 else 0.0
        pruned = [np.zeros(0, np.int64)]
        if r2 >= LOW_CONFIDENCE:
            free = np.flatnonzero(seen.open(len(self._space)))
            for part in np.array_split(free, max(1, len(free) // 20_000)):
                predicted = view.model.predict(view.candidates[part])
                pruned.append(part[predicted.mean - 2 * predicted.deviation > targets.values.min()])
        return Assessment(self.name, r2, float(np.std(truth - guess)) * targets.scale, np.concatenate(pruned))

    def _fit(self, seen: Observations, turn: int) -> tuple[_View, Targets]:
        """The view whose turn it is: that with the prior where the prior is believed.

        That without is fitted no less and no more often than if there were no prior, until there is belief.
        """
        used, turn = _informative(seen, self._seed), turn % len(self._views)
        view, count = self._views[turn], len(seen.rows)
        if self._trust is None:
            return view, view.fit(seen, used)
        due = self._trust.due(turn, count)
        believing = self._believing[turn]
        if due or not self._trust.believed:
            targets = view.fit(seen, used)
            if due and view.tuned == count:
                if not self._trust.believed:
                    believing.model.start_from(view.model)
                believing.tuned = 0
                believing.fit(seen, used)
                factor = believing.evidence - view.evidence
                self._trust.judge(turn, factor, seen.rows, seen.times, proven=self._proven(seen))
            if not self._trust.believed:
                return view, targets
        return believing, believing.fit(seen, used)

    def _pool(self, learned: Observations, free: Column) -> Column:
        rows = np.flatnonzero(learned.open(len(self._space)))
        if len(rows) > _POOL:
            random = np.random.default_rng([self._seed, 1, len(learned.rows), len(learned.pending)])
            best = learned.rows[np.argsort(learned.times, kind="stable")[:_AROUND]]
            near = np.concatenate([self._space.neighbours(int(row)) for row in best])
            rows = np.unique(np.concatenate([random.choice(rows, _POOL, replace=False), near]))
        return rows[free[rows]]


@dataclass(frozen=True)
class Targets:
    """Times as a model wants them: logarithms, centred and scaled; what cannot run counts as the slowest that did.

    With `compress`, differences above the median shrink: how slow the slow half is then matters little.
    """

    values: Column
    used: Column
    centre: float
    scale: float
    knee: float
    width: float

    @classmethod
    def of(cls, times: Column, used: Column, *, compress: bool) -> Targets:
        """Transform times."""
        ran = np.isfinite(times)
        logs = np.log(np.where(ran, times, 1.0))
        knee, width = np.inf, 1.0
        if compress:
            knee = float(np.median(logs[ran]))
            width = max(knee - float(logs[ran].min()), 0.1)
            excess = np.maximum(logs - knee, 0) / width
            logs = np.minimum(logs, knee) + width / 2 * np.log1p(excess)
        logs = np.where(ran, logs, logs[ran].max())
        spread = float(logs.std())
        scale = spread if spread > 0 else 1.0
        centre = float(logs.mean())
        return cls((logs - centre) / scale, used, centre, scale, knee, width)

    def as_time(self, value: float) -> float:
        """Back to ms."""
        log = value * self.scale + self.centre
        if log > self.knee:
            log = self.knee + self.width * float(np.expm1(2 * (log - self.knee) / self.width))
        return float(np.exp(min(log, 700.0)))


def _informative(seen: Observations, seed: int) -> Column:
    count = len(seen.rows)
    if count <= _POINTS:
        return np.arange(count)
    order = np.argsort(seen.times, kind="stable")
    half = _POINTS // 2
    others = np.random.default_rng([seed, 2, count]).choice(order[half:], _POINTS - half, replace=False)
    return np.sort(np.concatenate([order[:half], others]))


def log_expected_improvement(mean: Column, deviation: Column, best: float) -> Column:
    """Logarithm of the improvement over `best` to expect; finite even where the improvement is not to be expected at all."""
    from scipy.special import ndtr

    z = np.maximum((best - mean) / deviation, -1e6)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    near = np.log(np.maximum(z * ndtr(z) + density, 1e-300))
    far = -0.5 * z * z - 0.5 * np.log(2 * np.pi) - 2 * np.log(np.maximum(-z, 1))
    return np.asarray(np.where(z > -5, near, far) + np.log(deviation))
