"""Search strategies on landscapes, spaces of which every time is known: `python -m benchmarks.landscapes`.

Reported are optimum_time / best_time after 20, 50, 100 and 200 distinct evaluations, averaged over seeds, its standard error, and
the median number of evaluations until a time within 5 % of the optimum. The last row is the difference of the first sampler to
each other one, paired by landscape and seed. A landscape is searched through the same code as a live kernel.

By default the landscapes are the held-out synthetic families of `benchmarks/families.py`, which were not used to develop the
sampler. `--data DIRECTORY` searches measured landscapes; `tests/data/landscapes` has two, which were used for development.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import kernel_tuner_peer
from benchmarks.extra_trees_peer import ExtraTrees
from benchmarks.families import PARTS, drawn_families
from benchmarks.figures import Publisher
from benchmarks.synthetic import drawn_prior, synthetic_landscapes
from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.landscape import Landscape, landscapes_in, load_landscape
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.prior import Prior
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.samplers import BaseSampler

    from rocm_perf_lab.autotune.spaces.space import Configuration

BUDGETS = (20, 50, 100, 200)
CLOSE = 0.05
MISLEADING = ("shuffled", "inverted", "foreign")
_MAX_WASTED = 10
"""Largest number of consecutive proposals that are invalid or already measured."""


@dataclass(frozen=True)
class Run:
    """Result of one search.

    Args:
        fractions: optimum_time / best_time after each of the budgets.
        close: The first evaluation within 5 % of the optimum; infinite if there is none.
        overhead_ms: Processor time of the sampler, per evaluation.
    """

    landscape: str
    sampler: str
    fractions: tuple[float, ...]
    close: float
    overhead_ms: float


def main(arguments: list[str] | None = None) -> None:
    """Search, print and write the table."""
    publisher = Publisher("landscapes", _parser(), arguments)
    options = publisher.options
    optional = ["kernel_tuner"] if kernel_tuner_peer.installed() else []
    samplers = options.sampler or ["regression", "tpe", "extra_trees", "random", *optional]
    drawn = None if options.data else "synthetic" if options.synthetic else options.families
    try:
        if set(samplers) & set(kernel_tuner_peer.PEERS) and not kernel_tuner_peer.installed():
            raise LabError("Kernel Tuner is not installed", where="--sampler", hint="make .venv/.ready installs it")
        source = Source(options.data, options.prior, options.mislead, drawn, tuple(options.only or [""]))
        document = measure(source, options.seeds, samplers, options.workers)
    except LabError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    kind = "measured, used for development" if options.data else drawn
    title = f"optimum_time / best_time, mean after 20, 50, 100 and 200 evaluations, {options.seeds} seeds, {kind} landscapes"
    rows = _rows(document, by_family=drawn in PARTS)
    publisher.publish(title, ("landscape", *samplers), rows, document, width=130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.landscapes", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="directory of landscapes (*.json.gz)")
    parser.add_argument(
        "--prior",
        type=Path,
        help="directory of earlier landscapes: KERNEL_*.json.gz is the prior for KERNEL_GPU; "
        "with --synthetic, the prior is the same kernel on another generated GPU",
    )
    parser.add_argument("--mislead", choices=MISLEADING, help="make the priors misleading, to measure the cost of bad priors")
    parser.add_argument("--synthetic", action="store_true", help="search models of tiled kernels instead of the families")
    parser.add_argument("--families", choices=PARTS, default="held-out", help="part of the families to search")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="landscapes whose names begin with NAME")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sampler", nargs="+", choices=[*SAMPLERS, *kernel_tuner_peer.PEERS], default=None)
    parser.add_argument("--workers", type=int, default=1)
    return parser


@dataclass(frozen=True)
class Source:
    """Origin of landscapes and priors.

    Args:
        data: Directory of landscapes, or None for generated ones.
        prior: Directory of earlier landscapes; the prior is the landscape of the same kernel (the name before the last `_`). For
            synthetic landscapes the prior is generated and the directory is ignored.
        mislead: Change to the priors: times shuffled, inverted, or of another kernel; None keeps them.
        drawn: `synthetic` or the part of the families, if `data` is None.
        only: Prefixes of the names to search.
    """

    data: Path | None
    prior: Path | None = None
    mislead: str | None = None
    drawn: str | None = None
    only: tuple[str, ...] = ("",)


def measure(source: Source, seeds: int, samplers: list[str], workers: int = 1) -> dict[str, Any]:
    """Run every sampler on every landscape with every seed.

    Raises:
        LandscapeError: The directory has no landscapes, or a file is not a landscape.
    """
    names = list(_landscapes(source))
    tasks = [(source, name, sampler, seed) for sampler in samplers for name in names for seed in range(seeds)]
    if workers > 1:
        with ProcessPoolExecutor(workers) as pool:
            runs = list(pool.map(_task, tasks))
    else:
        runs = [_task(task) for task in tasks]
    document: dict[str, Any] = {"budgets": list(BUDGETS), "seeds": seeds, "landscapes": {}, "aggregate": {}}
    for name in names:
        document["landscapes"][name] = {
            sampler: summarise([run for run in runs if (run.landscape, run.sampler) == (name, sampler)]) for sampler in samplers
        }
    for sampler in samplers:
        own = _by_seed([document["landscapes"][name][sampler] for name in names])
        first = _by_seed([document["landscapes"][name][samplers[0]] for name in names])
        fraction, error = _mean_and_error(own)
        difference, its_error = _mean_and_error([one - other for one, other in zip(first, own, strict=True)])
        document["aggregate"][sampler] = {
            "fraction": fraction,
            "standard_error": error,
            "difference": difference,
            "difference_standard_error": its_error,
        }
    return document


def _by_seed(parts: Sequence[dict[str, Any]]) -> list[float]:
    """Return the mean fraction over some landscapes, for each seed."""
    return [statistics.mean(fractions) for fractions in zip(*(part["by_seed"] for part in parts), strict=True)]


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, None for one value."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return statistics.mean(values), error


def _task(task: tuple[Source, str, str, int]) -> Run:
    source, name, sampler, seed = task
    landscape, before = _landscapes(source)[name], earlier(source, name)
    return run(landscape, sampler, seed, Prior.from_landscape(landscape.space, before) if before is not None else None)


@cache
def _landscapes(source: Source) -> dict[str, Landscape]:
    if source.data is not None:
        found = landscapes_in(source.data)
    else:
        found = drawn_families(PARTS[source.drawn]) if source.drawn in PARTS else synthetic_landscapes()
    chosen = {landscape.name: landscape for landscape in found if landscape.name.startswith(source.only)}
    if not chosen:
        raise LabError("no landscape of this name", where="--only", hint=f"names: {', '.join(one.name for one in found)}")
    return chosen


@cache
def earlier(source: Source, name: str) -> Landscape | None:
    """Return the landscape of the same kernel on another GPU, changed as `source.mislead` asks; None without one."""
    if source.prior is None:
        return None
    if source.data is None:
        if source.drawn in PARTS:
            raise LabError("families have no priors", where="--prior", hint="omit it, or add --synthetic or --data")
        found = drawn_prior(name)
    else:
        kernel = name.rpartition("_")[0] or name
        paths = [*sorted(source.prior.glob(f"{kernel}_*.json.gz")), *sorted(source.prior.glob(f"{kernel}_*.json"))]
        if not paths:
            return None
        found = load_landscape(paths[0])
    times = found.times_ms
    random = np.random.default_rng(len(times))
    if source.mislead == "shuffled":
        return replace(found, times_ms=random.permutation(times))
    if source.mislead == "inverted":
        return replace(found, times_ms=np.where(np.isfinite(times), 1 / times, np.inf))
    if source.mislead == "foreign":
        # A smooth function of the same parameters with another optimum.
        codes = found.space.codes / np.maximum(found.space.codes.max(axis=0), 1)
        return replace(found, times_ms=np.exp(((codes - random.random(codes.shape[1])) ** 2).sum(axis=1)))
    return found


def run(landscape: Landscape, sampler: str, seed: int, prior: Prior | None = None) -> Run:
    """Search a landscape with a new sampler and study."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings_off()
    budget = min(BUDGETS[-1], len(landscape.space))
    recorder = _Recorder(landscape)
    if (strategy := kernel_tuner_peer.PEERS.get(sampler)) is not None:
        start = time.process_time()
        recorder.times.extend(kernel_tuner_peer.times_of(landscape, seed, budget, strategy))
        return _outcome(landscape, sampler, recorder.times[:budget], time.process_time() - start)
    start = time.process_time()
    study = optuna.create_study(sampler=SAMPLERS[sampler](landscape, seed, prior))
    if sampler in _PEERS:
        _search_freely(study, recorder, budget, seed)
    else:
        search(study, landscape.space, recorder, budget)
    return _outcome(landscape, sampler, recorder.times[:budget], time.process_time() - start)


def _outcome(landscape: Landscape, sampler: str, times: list[float], elapsed_s: float) -> Run:
    best, fractions = math.inf, []
    close = math.inf
    for number, value in enumerate(times, start=1):
        best = min(best, value)
        fraction = landscape.optimum_ms / best
        if close == math.inf and fraction >= 1 / (1 + CLOSE):
            close = number
        fractions.append(fraction)
    fractions = fractions or [0.0]
    at = tuple(fractions[min(count, len(fractions)) - 1] for count in BUDGETS)
    return Run(landscape.name, sampler, at, close, 1e3 * elapsed_s / max(1, len(times)))


class _Recorder:
    """Landscape that records its evaluations."""

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape
        self.rows: set[int | None] = set()
        self.times: list[float] = []

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        result = self.landscape(configuration)
        self.rows.add(self.landscape.space.index(configuration))
        self.times.append(result.runtime_ms if isinstance(result, Measurement) else math.inf)
        return result


def _search_freely(study: Any, recorder: _Recorder, budget: int, seed: int) -> None:
    """Search with a sampler of Optuna, which proposes invalid and repeated configurations; these do not count as evaluations.

    After ten such proposals in a row a random new configuration is measured.
    """
    from optuna.trial import TrialState

    space = recorder.landscape.space
    distributions = space.distributions()
    spare = iter(np.random.default_rng([seed, 3]).permutation(len(space)).tolist())
    wasted = 0
    while len(recorder.rows) < budget:
        if wasted == _MAX_WASTED:
            study.enqueue_trial(space.configuration(next(row for row in spare if row not in recorder.rows)))
        trial = study.ask(distributions)
        row = space.index(trial.params)
        if row is None or row in recorder.rows:
            study.tell(trial, state=TrialState.FAIL)
            wasted += 1
            continue
        wasted = 0
        result = recorder(dict(trial.params))
        if isinstance(result, Measurement):
            study.tell(trial, result.runtime_ms)
        else:
            study.tell(trial, state=TrialState.FAIL)


def warnings_off() -> None:
    """Disable the warnings of Optuna about the experimental multivariate TPE."""
    import warnings

    import optuna

    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


def _regression(landscape: Landscape, seed: int, prior: Prior | None) -> BaseSampler:
    return RegressionSampler(landscape.space, seed=seed, prior=prior)


def _classic(landscape: Landscape, seed: int, prior: Prior | None) -> BaseSampler:
    return RegressionSampler(landscape.space, seed=seed, model="classic")


def _tpe(landscape: Landscape, seed: int, prior: Prior | None) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(multivariate=True, seed=seed)


def _extra_trees(landscape: Landscape, seed: int, prior: Prior | None) -> BaseSampler:
    return RegressionSampler(landscape.space, seed=seed, strategy=ExtraTrees(landscape.space, seed))


def _random(landscape: Landscape, seed: int, prior: Prior | None) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


SAMPLERS: dict[str, Callable[[Landscape, int, Prior | None], BaseSampler]] = {
    "regression": _regression,
    "classic": _classic,
    "tpe": _tpe,
    "extra_trees": _extra_trees,
    "random": _random,
}
_PEERS = ("tpe", "random")


def summarise(runs: list[Run]) -> dict[str, Any]:
    """Return the mean results of one sampler on one landscape."""
    by_budget = {str(count): statistics.mean(run.fractions[position] for run in runs) for position, count in enumerate(BUDGETS)}
    close = statistics.median(run.close for run in runs)
    return {
        "fraction": statistics.mean(by_budget.values()),
        "by_seed": [statistics.mean(run.fractions) for run in runs],
        "by_budget": by_budget,
        "median_evaluations_to_5_percent": close if math.isfinite(close) else None,
        "overhead_ms": statistics.mean(run.overhead_ms for run in runs),
    }


def _rows(document: dict[str, Any], *, by_family: bool) -> dict[str, tuple[str, ...]]:
    """Return the mean fractions of each sampler by family or landscape, over all, and the paired differences."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, samplers in document["landscapes"].items():
        groups.setdefault(name.rpartition("_")[0] if by_family else name, []).append(samplers)
    rows = {
        group: (group, *(_text(*_mean_and_error(_by_seed([one[sampler] for one in found]))) for sampler in found[0]))
        for group, found in groups.items()
    }
    aggregate = document["aggregate"]
    rows["aggregate"] = ("aggregate", *(_text(one["fraction"], one["standard_error"]) for one in aggregate.values()))
    first = next(iter(aggregate))
    differences = [_text(one["difference"], one["difference_standard_error"]) for one in aggregate.values()]
    rows["difference"] = (f"{first} minus", "-", *differences[1:])
    return rows


def _text(value: float, error: float | None) -> str:
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
