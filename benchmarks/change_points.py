"""Error rates of `rocm-perf analyze --series` on simulated histories: `python -m benchmarks.change_points [--series 60]`.

Each series has 20 kernels whose times vary from run to run by 0.5 to 5 %. Rows without a change show the share of series with a
false change of any kernel. Rows with a change of one kernel, which varies by 1 %, show the share in which exactly that change is
reported for it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Publisher
from rocm_perf_lab.statistics.change_points import History, find_changes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RUNS = (3, 5, 8, 15, 30)
KERNELS = 20
SPREADS = (0.005, 0.01, 0.02, 0.05)
NOISES = ("normal", "heavy tails (t, 3 degrees)", "correlated (0.5)")
SHIFTS = (0.05, 0.10, 0.20)


def deviations(noise: str, generator: np.random.Generator, runs: int) -> Floats:
    """Draw deviations of unit variance, one row per kernel."""
    if noise == NOISES[1]:
        heavy: Floats = generator.standard_t(3, (KERNELS, runs)) / np.sqrt(3)
        return heavy
    values: Floats = generator.standard_normal((KERNELS, runs))
    for run in range(1, runs if noise == NOISES[2] else 0):
        values[:, run] = 0.5 * values[:, run - 1] + np.sqrt(0.75) * values[:, run]
    return values


def histories(noise: str, generator: np.random.Generator, runs: int) -> Floats:
    """Draw times of one series; the first kernel varies by 1 %."""
    spread = generator.choice(SPREADS, (KERNELS, 1))
    spread[0] = 0.01
    times: Floats = 1e4 * np.exp(spread * deviations(noise, generator, runs))
    return times


def false_changes(noise: str, runs: int, series: int) -> float:
    """Return the share of series without a change in which one is reported."""
    generator = np.random.default_rng((1, runs))
    found = (find_changes([_history(times) for times in histories(noise, generator, runs)]) for _ in range(series))
    return sum(any(kernel.points for kernel in kernels) for kernels in found) / series


def detected(shift: float, position: int, runs: int, series: int) -> float:
    """Return the share of series in which the change of the first kernel at that run is reported, and no other of it."""
    generator = np.random.default_rng((2, runs))
    count = 0
    for _ in range(series):
        times = histories(NOISES[0], generator, runs)
        times[0, position:] *= 1 + shift
        first = find_changes([_history(one) for one in times])[0]
        count += [point.position for point in first.points] == [position]
    return count / series


def main(arguments: list[str] | None = None) -> None:
    """Simulate, print and write the shares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.change_points", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--series", type=int, default=60)
    publisher = Publisher("change_points", parser, arguments)
    series = publisher.options.series
    data: dict[str, Any] = {"series": series, "kernels": KERNELS, "false": {}, "detected": {}}
    rows: dict[str, tuple[str, ...]] = {}
    for noise in NOISES:
        found = {runs: false_changes(noise, runs, series) for runs in RUNS}
        data["false"][noise] = found
        rows[noise] = (f"no change: {noise}", *map(_percent, found.values()))
    for place in ("middle", "last run"):
        for shift in SHIFTS:
            found = {runs: detected(shift, runs - 1 if place == "last run" else runs // 2, runs, series) for runs in RUNS}
            name = f"{shift:.0%} slower from the {place}"
            data["detected"][name] = found
            rows[name] = (name, *map(_percent, found.values()))
    columns = ("series", *(f"{runs} runs" for runs in RUNS))
    publisher.publish("series with the (or a false) change reported, in %", columns, rows, data)


def _history(times: Floats) -> History:
    return History(times, np.zeros(len(times)))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


if __name__ == "__main__":
    main()
