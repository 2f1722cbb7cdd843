"""Small spaces and slots for tests of sweeps, without Hydra and without a kernel."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna import Study

    from rocm_perf_lab.autotune.objective import Infeasible, Preempted, Unmeasured
    from rocm_perf_lab.autotune.slots import Result, Task
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space

Measure = "Callable[[Configuration], Measurement | Infeasible]"


def small_space(**more: Any) -> Space:
    """Return 36 combinations, 26 of them valid; the fastest is x=3, y=2, order=a."""
    content = {
        "parameters": {"x": [1, 2, 3, 4, 5, 6], "y": [1, 2, 3], "order": ["a", "b"]},
        "derived": {"tile": "x * y"},
        "constraints": ["tile <= 12", "tile != 4"],
        **more,
    }
    return build_space(describe(content, where="test"))


def time_of(configuration: Configuration) -> Measurement:
    """Return a time in ms that is easy to compute by hand."""
    x, y = int(configuration["x"]), int(configuration["y"])
    return Measurement(1.0 + abs(x - 3) + abs(y - 2) + 0.5 * (configuration["order"] == "b"))


class ThreadSlots:
    """Slots in threads, each with a separate worker."""

    def __init__(
        self, count: int, measure: Callable[[Configuration], Measurement | Infeasible | Unmeasured | Preempted] = time_of
    ) -> None:
        self.count = count
        self.begun: list[Task] = []
        self.stopped = False
        self._measure = measure
        self._threads = ThreadPoolExecutor(count)

    def start(self, task: Task) -> Future[Result]:
        """Begin in a free thread."""
        self.begun.append(task)
        return self._threads.submit(self._run, task.configuration)

    def stop(self) -> None:
        """Wait for the rest."""
        self.stopped = True
        self._threads.shutdown(wait=True)

    def _run(self, configuration: Configuration) -> Result:
        return self._measure(configuration)


def proposed(study: Study) -> list[tuple[Any, ...]]:
    """Return the parameters of every trial that has parameters."""
    return [tuple(sorted(trial.params.items())) for trial in study.get_trials() if trial.params]
