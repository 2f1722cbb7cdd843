"""Limit of wall-clock time for a configuration, relative to the best one: a configuration that hangs must not stop a search."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.shapes import SHAPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.autotune.spaces.space import Configuration


@dataclass
class Cutoff:
    """Limit of wall-clock time of a configuration.

    Args:
        factor: Multiple of the wall-clock time that the best configuration took for its slowest measurement; None never limits.
        at_least_s: The smallest limit in seconds, since starting a process or the emulator needs time as well.
        first_s: The limit in seconds until a configuration has run.
    """

    factor: float | None = 10.0
    at_least_s: float = 10.0
    first_s: float = 600.0
    _best_ms: float = float("inf")
    _best_wall_s: float | None = None
    _wall_s: float = 0.0

    @property
    def limit_s(self) -> float | None:
        """Seconds that a measurement may last; None: unlimited."""
        if self.factor is None:
            return None
        if self._best_wall_s is None:
            return self.first_s
        return max(self.at_least_s, self.factor * self._best_wall_s)

    @property
    def is_first(self) -> bool:
        """Return whether no configuration has run."""
        return self._best_wall_s is None

    @property
    def was_exceeded(self) -> bool:
        """Return whether a measurement of the current configuration reached the limit."""
        return self.limit_s is not None and self._wall_s >= self.limit_s

    @contextmanager
    def measuring(self, runs: int = 1) -> Iterator[None]:
        """Time one measurement of a configuration; `runs` is the number of runs in it that the limit applies to each."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._wall_s = max(self._wall_s, (time.monotonic() - start) / runs)

    def took(self, wall_s: float, runtime_ms: float) -> None:
        """Add a configuration that ran for `wall_s` seconds elsewhere."""
        self._wall_s = wall_s
        self.finished(runtime_ms)

    def finished(self, runtime_ms: float | None) -> None:
        """End a configuration with its time, None if it failed; the fastest one decides about the limit."""
        if runtime_ms is not None and self._wall_s > 0 and runtime_ms < self._best_ms:
            self._best_ms, self._best_wall_s = runtime_ms, self._wall_s
        self._wall_s = 0.0


@dataclass
class Cutoffs:
    """Limits of the shapes of a search, each relative to the best configuration of its shape.

    Args:
        first: The limit before anything has run.
    """

    first: Cutoff
    _of_shape: dict[Any, Cutoff] = field(default_factory=dict)

    def of(self, configuration: Configuration) -> Cutoff:
        """Return the limit for the shape of a configuration."""
        return self._of_shape.setdefault(configuration.get(SHAPE), replace(self.first))
