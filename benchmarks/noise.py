"""Whether noise chooses the winner: searches of landscapes whose every run scatters, `python -m benchmarks.noise`.

A search sees runs that scatter around the true time, log-normally. What it reports as the best is compared with the truly
best of all that it measured (false winners: slower by more than 1 %), and with the optimum of the landscape.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.families import drawn
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.repeats import Gate, measure
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.tuner import Tuner
from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.landscape import Landscape
    from rocm_perf_lab.autotune.space import Configuration

NOISE = (0.01, 0.05, 0.2)
"""Standard deviation of one run's logarithm."""
LANDSCAPES = (("valley", 0), ("plateau", 0), ("mixed", 1), ("constrained", 1))
_FALSE = 0.01


@dataclass
class Noisy:
    """A landscape whose runs scatter.

    Args:
        landscape: The true times.
        noise: Standard deviation of a run's logarithm.
        random: Of the runs.
        measured: Rows that were asked for.
        runs: How many runs that took.
    """

    landscape: Landscape
    noise: float
    random: np.random.Generator
    deterministic: bool = False
    measured: list[int] = field(default_factory=list)
    runs: int = 0

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        """One round or more, as of a live kernel."""
        true = self.landscape(configuration)
        if isinstance(true, Infeasible):
            return true
        row = self.landscape.space.index(configuration)
        assert row is not None
        self.measured.append(row)
        return measure(lambda runs: self.sample(configuration, runs), Gate(), deterministic=False)

    def sample(self, configuration: Configuration, runs: int) -> list[float]:
        """So many runs of a configuration, in ms."""
        row = self.landscape.space.index(configuration)
        assert row is not None
        self.runs += runs
        return list(self.landscape.times_ms[row] * np.exp(self.noise * self.random.standard_normal(runs)))


def search_with_noise(landscape: Landscape, noise: float, seed: int, *, budget: int, max_races: int) -> dict[str, float]:
    """One search: how much slower the winner is than the best measured and than the optimum, and the runs of one evaluation."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    objective = Noisy(landscape, noise, np.random.default_rng([seed, 7]))
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
    """Search, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--max-races", type=int, default=4, help="rounds of the race at the end; 0: the fastest trial wins")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    figures = []
    for noise in NOISE:
        found = [
            search_with_noise(drawn(*name), noise, seed, budget=options.budget, max_races=options.max_races)
            for name in LANDSCAPES
            for seed in range(options.seeds)
        ]
        figures.append({"noise": noise, **_summary(found)})
    _print(figures, options.budget, options.seeds)
    if options.json:
        write_text(options.json, json.dumps({"budget": options.budget, "seeds": options.seeds, "rows": figures}, indent=2) + "\n")


def _summary(found: list[dict[str, float]]) -> dict[str, float]:
    return {
        "false_winners": statistics.mean(one["against_measured"] > _FALSE for one in found),
        "worst_against_measured": max(one["against_measured"] for one in found),
        "mean_against_measured": statistics.mean(one["against_measured"] for one in found),
        "mean_against_optimum": statistics.mean(one["against_optimum"] for one in found),
        "runs_per_evaluation": statistics.mean(one["runs_per_evaluation"] for one in found),
    }


def _print(figures: list[dict[str, Any]], budget: int, seeds: int) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{len(LANDSCAPES)} landscapes, {seeds} seeds, {budget} evaluations"
    table = Table(
        "noise of a run", "false winners", "slower than the best measured", "worst", "than the optimum", "runs", title=title
    )
    for row in figures:
        table.add_row(
            f"{row['noise']:.0%}",
            f"{row['false_winners']:.1%}",
            f"{row['mean_against_measured']:.2%}",
            f"{row['worst_against_measured']:.1%}",
            f"{row['mean_against_optimum']:.1%}",
            f"{row['runs_per_evaluation']:.1f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
