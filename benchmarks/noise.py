"""Searches of noisy landscapes: `python -m benchmarks.noise`.

Each run of a configuration varies log-normally around its true time. The reported winner is compared with the configuration that
is truly the best of those measured (false winner: slower by more than 1 %) and with the optimum of the landscape.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.families import drawn
from benchmarks.figures import Publisher
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.repeats import Gate, measure
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.tuner import Tuner

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.landscape import Landscape
    from rocm_perf_lab.autotune.space import Configuration

NOISE = (0.01, 0.05, 0.2)
"""Standard deviation of one run's logarithm."""
LANDSCAPES = (("valley", 0), ("plateau", 0), ("mixed", 1), ("constrained", 1))
_FALSE = 0.01


@dataclass
class NoisyLandscape:
    """A landscape with noise in every run.

    Args:
        landscape: The true times.
        noise: Standard deviation of a run's logarithm.
        random: Generator of the noise.
        measured: Rows that were measured.
        runs: Number of runs so far.
    """

    landscape: Landscape
    noise: float
    random: np.random.Generator
    deterministic: bool = False
    measured: list[int] = field(default_factory=list)
    runs: int = 0

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        """Measure a configuration in one or more rounds, like a live kernel."""
        true = self.landscape(configuration)
        if isinstance(true, Infeasible):
            return true
        row = self.landscape.space.index(configuration)
        assert row is not None
        self.measured.append(row)
        return measure(lambda runs: self.sample(configuration, runs), Gate(), deterministic=False)

    def sample(self, configuration: Configuration, runs: int) -> list[float]:
        """Return the times of some runs of a configuration, in ms."""
        row = self.landscape.space.index(configuration)
        assert row is not None
        self.runs += runs
        return list(self.landscape.times_ms[row] * np.exp(self.noise * self.random.standard_normal(runs)))


def search_with_noise(landscape: Landscape, noise: float, seed: int, *, budget: int, max_races: int) -> dict[str, float]:
    """Search once and compare the winner with the best measured configuration and with the optimum."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    objective = NoisyLandscape(landscape, noise, np.random.default_rng([seed, 7]))
    study = optuna.create_study(sampler=RegressionSampler(landscape.space, seed=seed))
    tuner = Tuner(study, landscape.space, objective, budget, max_races=max_races)
    tuner.run()
    best = tuner.result().best
    assert best is not None
    row = landscape.space.index(best.parameters)
    assert row is not None
    true_ms = float(landscape.times_ms[row])
    return {
        "against_measured": true_ms / float(landscape.times_ms[objective.measured].min()) - 1,
        "against_optimum": true_ms / landscape.optimum_ms - 1,
        "runs_per_evaluation": objective.runs / budget,
    }


def main(arguments: list[str] | None = None) -> None:
    """Search, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--max-races", type=int, default=4, help="rounds of the race at the end; 0: the fastest trial wins")
    publisher = Publisher("noise", parser, arguments)
    options = publisher.options
    data = []
    for noise in NOISE:
        found = [
            search_with_noise(drawn(*name), noise, seed, budget=options.budget, max_races=options.max_races)
            for name in LANDSCAPES
            for seed in range(options.seeds)
        ]
        data.append({"noise": noise, **_summary(found)})
    title = f"{len(LANDSCAPES)} landscapes, {options.seeds} seeds, {options.budget} evaluations"
    rows = {f"{row['noise']:.0%}": _cells(row) for row in data}
    columns = ("noise of a run", "false winners", "slower than the best measured", "worst", "slower than the optimum", "runs")
    publisher.publish(title, columns, rows, data, width=120)


def _summary(found: list[dict[str, float]]) -> dict[str, float]:
    return {
        "false_winners": statistics.mean(one["against_measured"] > _FALSE for one in found),
        "worst_against_measured": max(one["against_measured"] for one in found),
        "mean_against_measured": statistics.mean(one["against_measured"] for one in found),
        "mean_against_optimum": statistics.mean(one["against_optimum"] for one in found),
        "runs_per_evaluation": statistics.mean(one["runs_per_evaluation"] for one in found),
    }


def _cells(row: dict[str, float]) -> tuple[str, ...]:
    return (
        f"{row['noise']:.0%}",
        f"{row['false_winners']:.1%}",
        f"{row['mean_against_measured']:.2%}",
        f"{row['worst_against_measured']:.1%}",
        f"{row['mean_against_optimum']:.1%}",
        f"{row['runs_per_evaluation']:.1f}",
    )


if __name__ == "__main__":
    main()
