"""Error rates of `rocm-perf compare` on simulated times: `python -m benchmarks.comparison [--pairs 2000]`.

Each cell has two shares of pairs of runs in percent: a difference was reported / a regression beyond 5 % was reported (exit
code 1). Pairs of equal runs show false alarms, pairs with a known slowdown show the detection rate.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Publisher
from rocm_perf_lab.analysis.comparison import compare
from rocm_perf_lab.analysis.comparison_model import KernelTimes, RunTimes

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
    """Return a generator of independent times with this coefficient of variation."""
    return lambda generator, count: 1 + spread * generator.standard_normal(count)


def lognormal(generator: np.random.Generator, count: int) -> Floats:
    """Draw times with a long tail: sigma 0.3."""
    return np.exp(0.3 * generator.standard_normal(count))


def two_clocks(generator: np.random.Generator, count: int) -> Floats:
    """Draw times at one of two clocks, 20 % apart."""
    return np.where(generator.random(count) < 0.5, 0.9, 1.1) * (1 + 0.01 * generator.standard_normal(count))


def outliers(generator: np.random.Generator, count: int) -> Floats:
    """Draw times of which one in twenty is three times as long."""
    return (1 + 0.02 * generator.standard_normal(count)) * np.where(generator.random(count) < 0.05, 3, 1)


def ticks(generator: np.random.Generator, count: int) -> Floats:
    """Draw times of short kernels: multiples of the clock tick, which is 4 % of the time."""
    return np.round(25 * (1 + 0.03 * generator.standard_normal(count))) / 25


def drifting(generator: np.random.Generator, count: int) -> Floats:
    """Draw times that increase by 5 % from first to last."""
    return (1 + 0.05 * np.linspace(0, 1, count)) * (1 + 0.01 * generator.standard_normal(count))


def lasting_clocks(generator: np.random.Generator, count: int) -> Floats:
    """Draw times at two clocks, 20 % apart, each lasting ten dispatches on average."""
    switches = np.cumsum(generator.random(count) < 0.1) + (generator.random() < 0.5)
    return np.where(switches % 2, 0.9, 1.1) * (1 + 0.01 * generator.standard_normal(count))


def autocorrelated(generator: np.random.Generator, count: int) -> Floats:
    """Draw autoregressive times: coefficient 0.8, CV 3 %."""
    found = np.empty(count)
    found[0] = generator.standard_normal()
    for i, noise in enumerate(generator.standard_normal(count - 1)):
        found[i + 1] = 0.8 * found[i] + 0.6 * noise
    return 1 + 0.03 * found


def processes(generator: np.random.Generator, count: int) -> Floats:
    """Draw times of five processes: 2 % between processes, 0.5 % within."""
    offsets = np.repeat(0.02 * generator.standard_normal(5), -(-count // 5))[:count]
    return (1 + offsets) * (1 + 0.005 * generator.standard_normal(count))


INDEPENDENT: dict[str, Draw] = {
    "normal, CV 1 %": normal(0.01),
    "normal, CV 10 %": normal(0.10),
    "lognormal, sigma 0.3": lognormal,
    "two clocks, at random": two_clocks,
    "outliers": outliers,
    "ticks": ticks,
    "drift of 5 % in both": drifting,
}
DEPENDENT: dict[str, Draw] = {
    "two clocks, ten dispatches each": lasting_clocks,
    "autocorrelated (0.8)": autocorrelated,
    "five processes, 2 % apart": processes,
}


def claims(base: Draw, new: Draw, runs: int, pairs: int, *, seed: int = 1) -> tuple[float, float]:
    """Return the shares of pairs with a reported difference, and with a reported regression beyond the threshold."""
    generator = np.random.default_rng((seed, runs))
    rows = [compare(run(base(generator, runs)), run(new(generator, runs)))[0] for _ in range(pairs)]
    different = sum(row.verdict in ("faster", "slower") for row in rows)
    return different / pairs, sum(row.is_regression(THRESHOLD) for row in rows) / pairs


def family_claims(draw: Draw, runs: int, repeats: int, *, seed: int = 1) -> tuple[float, float]:
    """Return the same shares for pairs of profiles with 300 equal kernels: at least one reported."""
    generator = np.random.default_rng((seed, runs))
    different = regressions = 0
    for _ in range(repeats):
        rows = compare(run(*(draw(generator, runs) for _ in range(FAMILY))), run(*(draw(generator, runs) for _ in range(FAMILY))))
        different += any(row.verdict in ("faster", "slower") for row in rows)
        regressions += any(row.is_regression(THRESHOLD) for row in rows)
    return different / repeats, regressions / repeats


def run(*times: Floats) -> RunTimes:
    """Return a measured run of kernels with these times."""
    kernels = tuple(
        KernelTimes(str(i), str(i), float(np.median(one)), len(one), durations_ms=tuple(one.tolist()))
        for i, one in enumerate(times)
    )
    return RunTimes(False, (), kernels)


def main(arguments: list[str] | None = None) -> None:
    """Simulate, print and write the shares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=2000)
    publisher = Publisher("comparison", parser, arguments)
    pairs = publisher.options.pairs
    data: dict[str, Any] = {"pairs": pairs, "false_alarms": {}, "detected": {}}
    rows: dict[str, tuple[str, ...]] = {}
    for name, draw in (INDEPENDENT | DEPENDENT).items():
        found = {count: claims(draw, draw, count, pairs) for count in RUNS}
        data["false_alarms"][name] = found
        rows[name] = (f"equal: {name}", *map(_cell, found.values()))
    family = {count: family_claims(normal(0.03), count, max(pairs // 20, 1)) for count in RUNS}
    data["false_alarms"][f"{FAMILY} kernels"] = family
    rows["family"] = (f"equal: {FAMILY} kernels, CV 3 %", *map(_cell, family.values()))
    for shift in SHIFTS:
        for spread in SPREADS:
            found = {count: claims(normal(spread), slowed(normal(spread), shift), count, pairs // 2) for count in RUNS}
            name = f"{shift:.0%} slower, CV {spread:.0%}"
            data["detected"][name] = found
            rows[name] = (name, *map(_cell, found.values()))
    columns = ("pairs of runs", *(f"n = {count}" for count in RUNS))
    publisher.publish("reported: any difference / regression beyond 5 %, in %", columns, rows, data, width=140)


def _cell(shares: tuple[float, float]) -> str:
    return " / ".join(f"{100 * share:.1f}" for share in shares)


def slowed(draw: Draw, shift: float) -> Draw:
    """Return the same distribution, slower by this share."""
    return lambda generator, count: (1 + shift) * draw(generator, count)


if __name__ == "__main__":
    main()
