"""How often `rocm-perf compare` is wrong: false alarms between equal runs, and losses that it sees, over simulated times.

    python -m benchmarks.comparison [--pairs 2000] [--json comparison.json]

Every figure is a share of pairs of runs: a difference was claimed / a regression beyond 5 % was claimed (exit code 1).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from rocm_perf_lab.analysis.comparison import KernelTimes, RunTimes, compare
from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Draw = Callable[[np.random.Generator, int], Floats]

THRESHOLD = 0.05
RUNS = (1, 3, 6, 10, 30, 100)
FAMILY = 300
SHIFTS = (0.03, 0.05, 0.10)
SPREADS = (0.01, 0.03, 0.10)


def normal(spread: float) -> Draw:
    """Independent times with this coefficient of variation."""
    return lambda generator, count: 1 + spread * generator.standard_normal(count)


def lognormal(generator: np.random.Generator, count: int) -> Floats:
    """Long slow tail: sigma 0.3."""
    return np.exp(0.3 * generator.standard_normal(count))


def two_clocks(generator: np.random.Generator, count: int) -> Floats:
    """Each dispatch at one of two clocks, 20 % apart."""
    return np.where(generator.random(count) < 0.5, 0.9, 1.1) * (1 + 0.01 * generator.standard_normal(count))


def outliers(generator: np.random.Generator, count: int) -> Floats:
    """One dispatch in twenty takes three times as long."""
    return (1 + 0.02 * generator.standard_normal(count)) * np.where(generator.random(count) < 0.05, 3, 1)


def ticks(generator: np.random.Generator, count: int) -> Floats:
    """Short kernels: times are multiples of the clock's tick, 4 % of the time."""
    return np.round(25 * (1 + 0.03 * generator.standard_normal(count))) / 25


def drifting(generator: np.random.Generator, count: int) -> Floats:
    """5 % slower from first to last, in both runs."""
    return (1 + 0.05 * np.linspace(0, 1, count)) * (1 + 0.01 * generator.standard_normal(count))


def lasting_clocks(generator: np.random.Generator, count: int) -> Floats:
    """Two clocks 20 % apart that last for ten dispatches on the mean."""
    switches = np.cumsum(generator.random(count) < 0.1) + (generator.random() < 0.5)
    return np.where(switches % 2, 0.9, 1.1) * (1 + 0.01 * generator.standard_normal(count))


def neighbours(generator: np.random.Generator, count: int) -> Floats:
    """Autoregressive: each is 0.8 of the one before and chance; CV 3 %."""
    found = np.empty(count)
    found[0] = generator.standard_normal()
    for i, noise in enumerate(generator.standard_normal(count - 1)):
        found[i + 1] = 0.8 * found[i] + 0.6 * noise
    return 1 + 0.03 * found


def processes(generator: np.random.Generator, count: int) -> Floats:
    """Five processes, each with an offset of its own: 2 % between them, 0.5 % within."""
    offsets = np.repeat(0.02 * generator.standard_normal(5), -(-count // 5))[:count]
    return (1 + offsets) * (1 + 0.005 * generator.standard_normal(count))


INDEPENDENT: dict[str, Draw] = {
    "normal, CV 1 %": normal(0.01),
    "normal, CV 10 %": normal(0.10),
    "lognormal, sigma 0.3": lognormal,
    "two clocks": two_clocks,
    "outliers": outliers,
    "ticks": ticks,
    "drift of 5 % in both": drifting,
}
DEPENDENT: dict[str, Draw] = {
    "clocks that last": lasting_clocks,
    "neighbours alike (0.8)": neighbours,
    "processes apart by 2 %": processes,
}


def claims(base: Draw, new: Draw, runs: int, pairs: int, *, seed: int = 1) -> tuple[float, float]:
    """Shares of pairs of which a difference, and a regression beyond the threshold, was claimed."""
    generator = np.random.default_rng((seed, runs))
    rows = [compare(run(base(generator, runs)), run(new(generator, runs)))[0] for _ in range(pairs)]
    different = sum(row.verdict in ("faster", "slower") for row in rows)
    return different / pairs, sum(row.is_regression(THRESHOLD) for row in rows) / pairs


def family_claims(draw: Draw, runs: int, repeats: int, *, seed: int = 1) -> tuple[float, float]:
    """The same of profiles with 300 equal kernels: shares of profiles with at least one."""
    generator = np.random.default_rng((seed, runs))
    different = regressions = 0
    for _ in range(repeats):
        rows = compare(run(*(draw(generator, runs) for _ in range(FAMILY))), run(*(draw(generator, runs) for _ in range(FAMILY))))
        different += any(row.verdict in ("faster", "slower") for row in rows)
        regressions += any(row.is_regression(THRESHOLD) for row in rows)
    return different / repeats, regressions / repeats


def run(*times: Floats) -> RunTimes:
    """A measured run of kernels with these times."""
    kernels = tuple(
        KernelTimes(str(i), str(i), float(np.median(one)), len(one), durations_ms=tuple(one.tolist()))
        for i, one in enumerate(times)
    )
    return RunTimes(False, (), kernels)


def main() -> None:
    """Print the tables; write them as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    figures: dict[str, Any] = {"pairs": asked.pairs, "false_alarms": {}, "seen": {}}
    console = Console(width=140, highlight=False)
    table = _table("false alarms between equal runs: any difference / regression beyond 5 %")
    for name, draw in (INDEPENDENT | DEPENDENT).items():
        found = {count: claims(draw, draw, count, asked.pairs) for count in RUNS}
        figures["false_alarms"][name] = found
        table.add_row(name, *(f"{100 * any_:.1f} / {100 * lost:.2f} %" for any_, lost in found.values()))
    family = {count: family_claims(normal(0.03), count, max(asked.pairs // 20, 1)) for count in RUNS}
    figures["false_alarms"][f"{FAMILY} kernels"] = family
    table.add_row(f"{FAMILY} kernels, CV 3 %", *(f"{100 * any_:.1f} / {100 * lost:.2f} %" for any_, lost in family.values()))
    console.print(table)
    table = _table("losses that are seen: slower / regression beyond 5 %")
    for shift in SHIFTS:
        for spread in SPREADS:
            found = {count: claims(normal(spread), slowed(normal(spread), shift), count, asked.pairs // 2) for count in RUNS}
            figures["seen"][f"{shift:.0%} at CV {spread:.0%}"] = found
            table.add_row(
                f"+{shift:.0%} at CV {spread:.0%}", *(f"{100 * any_:.0f} / {100 * lost:.0f} %" for any_, lost in found.values())
            )
    console.print(table)
    if asked.json:
        write_text(asked.json, json.dumps(figures, indent=2) + "\n")


def slowed(draw: Draw, shift: float) -> Draw:
    """The same distribution, slower by this share."""
    return lambda generator, count: (1 + shift) * draw(generator, count)


def _table(title: str) -> Table:
    return Table("times", *(f"n = {count}" for count in RUNS), title=title, title_justify="left")


if __name__ == "__main__":
    main()
