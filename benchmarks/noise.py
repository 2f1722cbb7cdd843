"""Searches of noisy landscapes: `python -m benchmarks.noise`.

Each run of a configuration varies log-normally around its true time, and the clock drifts slowly. The reported winner is compared
with the configuration that is truly the best of those measured (false winner: slower by more than 1 %) and with the optimum.
Races depend more on chance than searches do, and are cheaper: the configurations of each search are measured and raced
several times with new noise.
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
from rocm_perf_lab.autotune.tuner import RACE_SAMPLES, Tuner
from rocm_perf_lab.statistics.racing import race

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.landscape import Landscape
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.statistics.racing import RaceResult

NOISE = ((0.01, 0.0), (0.05, 0.0), (0.05, 0.03), (0.1, 0.0))
"""Standard deviation of one run's logarithm, and amplitude of the drift."""
LANDSCAPES = (("valley", 0), ("plateau", 0), ("mixed", 1), ("constrained", 1))
_FALSE = 0.01
_PERIOD = 250
"""Number of measurements of one oscillation of the clock."""


@dataclass
class NoisyLandscape:
    """A landscape with noise in every run.

    Args:
        landscape: The true times.
        noise: Standard deviation of a run's logarithm.
        random: Generator of the noise.
        drift: Amplitude of the clock's drift.
        measured: Rows that were measured.
        runs: Number of runs so far.
    """

    landscape: Landscape
    noise: float
    random: np.random.Generator
    drift: float = 0.0
    deterministic: bool = False
    measured: list[int] = field(default_factory=list)
    runs: int = 0
    _phase: float = 0.0

    def __post_init__(self) -> None:
        """Draw the state of the clock."""
        self._phase = float(self.random.uniform(0, 2 * np.pi))

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
        self._phase += 2 * np.pi / _PERIOD
        logs = self.drift * np.sin(self._phase) + self.noise * self.random.standard_normal(runs)
        return list(self.landscape.times_ms[row] * np.exp(logs))


@dataclass(frozen=True)
class NoisySearch:
    """Result of a search and of the races of its configurations.

    Args:
        against_measured: Slowdown of each race's winner against the best of the measured configurations.
        decided: Whether each race was decided.
        against_optimum: Slowdown of the search's own winner against the optimum.
        runs_per_evaluation: Number of runs of the search and its race, per evaluation.
    """

    against_measured: tuple[float, ...]
    decided: tuple[bool, ...]
    against_optimum: float
    runs_per_evaluation: float


def search_with_noise(
    landscape: Landscape, noise: tuple[float, float], seed: int, *, budget: int, max_races: int, races: int
) -> NoisySearch:
    """Search once, race the measured configurations several times, and compare the winners with the truth."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    objective = NoisyLandscape(landscape, noise[0], np.random.default_rng([seed, 7]), noise[1])
    study = optuna.create_study(sampler=RegressionSampler(landscape.space, seed=seed))
    tuner = Tuner(study, landscape.space, objective, budget, max_races=max_races)
    tuner.run()
    best = tuner.result().best
    assert best is not None
    row = landscape.space.index(best.parameters)
    assert row is not None
    runs, measured = objective.runs, sorted(objective.measured)
    fastest = float(landscape.times_ms[measured].min())
    slowdowns, decided = [], []
    for _ in range(races):
        winner, found = _race_again(objective, measured, max_races)
        slowdowns.append(float(landscape.times_ms[winner]) / fastest - 1)
        decided.append(found is None or found.decided)
    against_optimum = float(landscape.times_ms[row]) / landscape.optimum_ms - 1
    return NoisySearch(tuple(slowdowns), tuple(decided), against_optimum, runs / budget)


def _race_again(objective: NoisyLandscape, rows: list[int], max_races: int) -> tuple[int, RaceResult | None]:
    """Measure configurations in random order and race them like a search does; return the winner's row and the race."""
    space = objective.landscape.space
    trials = {row: objective(space.configuration(row)) for row in objective.random.permutation(rows).tolist()}
    ran = {row: trial for row, trial in trials.items() if isinstance(trial, Measurement)}
    found = race(
        {row: trial.details["times_ms"] for row, trial in ran.items()},
        lambda row: objective.sample(space.configuration(row), ran[row].details["runs"]),
        max_rounds=max_races,
        max_samples=max(len(ran), RACE_SAMPLES),
    )
    return found.winner.trial if found is not None else min(ran, key=lambda row: ran[row].runtime_ms), found


def main(arguments: list[str] | None = None) -> None:
    """Search, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--max-races", type=int, default=20, help="rounds of the race at the end; 0: the fastest trial wins")
    parser.add_argument("--races", type=int, default=20, help="number of races of the configurations of each search")
    publisher = Publisher("noise", parser, arguments)
    options = publisher.options
    data = []
    for noise in NOISE:
        found = [
            search_with_noise(drawn(*name), noise, seed, budget=options.budget, max_races=options.max_races, races=options.races)
            for name in LANDSCAPES
            for seed in range(options.seeds)
        ]
        data.append({"noise": noise[0], "drift": noise[1], **_summary(found)})
    searches, races = len(LANDSCAPES) * options.seeds, len(LANDSCAPES) * options.seeds * options.races
    title = f"{searches} searches of {len(LANDSCAPES)} landscapes, {options.budget} evaluations each, and {races} races per row"
    rows = {f"{row['noise']:.0%}_{row['drift']:.0%}": _cells(row) for row in data}
    columns = ("noise", "drift", "false winners", "wrong if decided", "decided", "to best measured", "to optimum", "runs")
    publisher.publish(title, columns, rows, data, width=120)


def _summary(found: list[NoisySearch]) -> dict[str, float]:
    slowdowns = [slowdown for one in found for slowdown in one.against_measured]
    decided = [is_decided for one in found for is_decided in one.decided]
    wrong = [slowdown > _FALSE for slowdown in slowdowns]
    by_search = [statistics.mean(slowdown > _FALSE for slowdown in one.against_measured) for one in found]
    return {
        "false_winners": statistics.mean(wrong),
        "standard_error": statistics.stdev(by_search) / len(by_search) ** 0.5,
        "wrong_if_decided": sum(a and b for a, b in zip(wrong, decided, strict=True)) / max(1, sum(decided)),
        "decided": statistics.mean(decided),
        "mean_against_measured": statistics.mean(slowdowns),
        "mean_against_optimum": statistics.mean(one.against_optimum for one in found),
        "runs_per_evaluation": statistics.mean(one.runs_per_evaluation for one in found),
    }


def _cells(row: dict[str, float]) -> tuple[str, ...]:
    return (
        f"{row['noise']:.0%}",
        f"{row['drift']:.0%}",
        f"{row['false_winners']:.1%} ± {row['standard_error']:.1%}",
        f"{row['wrong_if_decided']:.1%}",
        f"{row['decided']:.0%}",
        f"{row['mean_against_measured']:.2%}",
        f"{row['mean_against_optimum']:.1%}",
        f"{row['runs_per_evaluation']:.1f}",
    )


if __name__ == "__main__":
    main()
