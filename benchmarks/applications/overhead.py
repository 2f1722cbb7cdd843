"""Time with checks and with a profile relative to the plain run, of kernels that run for seconds."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.applications.measures import fastest
from benchmarks.applications.programs import SOURCES, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.applications.measures import Run

_KERNELS = Program(SOURCES / "long" / "kernels.hip")
_TIMES = {"arithmetic": 3, "dispatches": 2, "gather": 4, "gemm": 2, "histogram": 3, "stencil": 2, "triad": 4}
"""Amount of work with which the plain run takes one to two seconds of processor time."""


@dataclass(frozen=True)
class Overhead:
    """Runs of one kernel: plain, with `--check all`, and with `--profile`."""

    name: str
    plain: Run
    checked: Run
    profiled: Run

    @property
    def passed(self) -> bool:
        """Whether every run ended with exit code 0."""
        return all(run.exit_code == 0 for run in (self.plain, self.checked, self.profiled))

    @property
    def check_factor(self) -> float:
        """Wall-clock time with all checks relative to the plain run."""
        return self.checked.seconds / self.plain.seconds

    @property
    def profile_factor(self) -> float:
        """Wall-clock time with a profile relative to the plain run."""
        return self.profiled.seconds / self.plain.seconds


def measure_overheads(repetitions: int) -> list[Overhead]:
    """Return the overheads of all kernels; the fastest of some runs counts, after one that fills caches."""
    return [_measure(name, times, repetitions) for name, times in _TIMES.items()]


def geometric_mean_and_worst(overheads: Sequence[Overhead], factor: Callable[[Overhead], float]) -> tuple[float, float]:
    """Return the geometric mean and the maximum of a factor."""
    factors = [factor(one) for one in overheads]
    return math.exp(sum(map(math.log, factors)) / len(factors)), max(factors)


def _measure(name: str, times: int, repetitions: int) -> Overhead:
    arguments = ("--", name, str(times))
    with tempfile.TemporaryDirectory(prefix="rpl-", ignore_cleanup_errors=True) as directory:

        def best(*options: str) -> Run:
            return fastest([*_KERNELS.lab_command(options), *arguments], repetitions + 1, Path(directory))

        return Overhead(name, best(), best("--check", "all"), best("--profile"))
