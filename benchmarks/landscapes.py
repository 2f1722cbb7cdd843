"""The sampler against its peers on spaces that were measured exhaustively: `python -m benchmarks.landscapes`.

The measure: optimum_time / best_time after 20, 50, 100 and 200 distinct evaluations, averaged over seeds; and the median number
of evaluations until within 5 % of the optimum. A landscape is searched through the same code as a live kernel.
"""

from __future__ import annotations

import argparse
import json
import math
import os
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
from benchmarks.families import PARTS, drawn_families
from benchmarks.synthetic import drawn_prior, synthetic_landscapes
from rocm_perf_lab.autotune.landscape import Landscape, landscapes_in, load_landscape
from rocm_perf_lab.autotune.objective import Infeasible, Measurement, search
from rocm_perf_lab.autotune.prior import Prior
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler

    from rocm_perf_lab.autotune.space import Configuration

BUDGETS = (20, 50, 100, 200)
CLOSE = 0.05
MISLEADING = ("shuffled", "inverted", "foreign")
_PATIENCE = 10
"""Proposals in a row that may be invalid or known."""


@dataclass(frozen=True)
class Run:
    """One search.

    Args:
        fractions: optimum_time / best_time after each of the budgets.
        close: The evaluation that came within 5 % of the optimum; infinite where none did.
        overhead_ms: Processor time of the sampler, per evaluation.
    """

    landscape: str
    sampler: str
    fractions: tuple[float, ...]
    close: float
    overhead_ms: float


def main(arguments: list[str] | None = None) -> None:
    """Run, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.landscapes", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=_default_data(), help="directory of landscapes (*.json.gz)")
    parser.add_argument(
        "--prior",
        type=Path,
        nargs="?",
        const=_default_data() / "prior",
        help="directory of earlier landscapes: KERNEL_*.json.gz warms up the runs on KERNEL_GPU; "
        "with --synthetic, the same kernels on other drawn GPUs do",
    )
    parser.add_argument("--mislead", choices=MISLEADING, help="spoil the priors: what does believing them cost?")
    parser.add_argument("--synthetic", action="store_true", help="on modelled landscapes, instead of --data")
    parser.add_argument("--families", choices=PARTS, help="on landscapes of known structure, instead of --data")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these landscapes, by the beginning of their names")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sampler", nargs="+", choices=[*SAMPLERS, "kernel_tuner"], default=None)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    samplers = options.sampler or ["regression", "tpe", "random", *(["kernel_tuner"] if kernel_tuner_peer.installed() else [])]
    try:
        if "kernel_tuner" in samplers and not kernel_tuner_peer.installed():
            raise LabError("Kernel Tuner is not installed", where="--sampler", hint="pip install kernel-tuner")
        drawn = "synthetic" if options.synthetic else options.families
        source = Source(None if drawn else options.data, options.prior, options.mislead, drawn, tuple(options.only or [""]))
        document = measure(source, options.seeds, samplers, options.workers)
    except LabError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    _print(document)
    if options.json:
        write_text(options.json, json.dumps(document, indent=2) + "\n")


def _default_data() -> Path:
    return Path(os.environ.get("ROCM_PERF_LAB_LANDSCAPES", Path(__file__).parents[2] / "shared" / "data" / "landscapes"))


@dataclass(frozen=True)
class Source:
    """Where landscapes and priors come from.

    Args:
        data: A directory of landscapes; None: drawn ones.
        prior: A directory of earlier landscapes: that of the same kernel (the name before the last `_`) is the prior. Of the
            synthetic ones it is drawn, whatever the directory.
        mislead: How priors are spoilt: times that are shuffled, inverted, or those of another kernel; None: not at all.
        drawn: Without `data`: `synthetic`, or the part of the families.
        only: Beginnings of names; landscapes of other names are left out.
    """

    data: Path | None
    prior: Path | None = None
    mislead: str | None = None
    drawn: str | None = None
    only: tuple[str, ...] = ("",)


def measure(source: Source, seeds: int, samplers: list[str], workers: int = 1) -> dict[str, Any]:
    """Every sampler on every landscape, from every seed.

    Raises:
        LandscapeError: A directory without landscapes, or a file that is none.
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
        parts = [document["landscapes"][name][sampler] for name in names]
        document["aggregate"][sampler] = {"fraction": statistics.mean(part["fraction"] for part in parts)}
    return document


def _task(task: tuple[Source, str, str, int]) -> Run:
    source, name, sampler, seed = task
    return run(_landscapes(source)[name], sampler, seed, earlier(source, name))


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
    """What is known of a kernel from another GPU, spoilt where the source says so."""
    if source.prior is None:
        return None
    if source.data is None:
        if source.drawn in PARTS:
            raise LabError("families have no priors", where="--prior", hint="leave it out, or take --synthetic or --data")
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
        # A kernel of other habits: smooth in the same parameters, with its optimum elsewhere.
        codes = found.space.codes / np.maximum(found.space.codes.max(axis=0), 1)
        return replace(found, times_ms=np.exp(((codes - random.random(codes.shape[1])) ** 2).sum(axis=1)))
    return found


def run(landscape: Landscape, sampler: str, seed: int, earlier: Landscape | None = None) -> Run:
    """One search with a fresh sampler and study."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings_off()
    budget = min(BUDGETS[-1], len(landscape.space))
    recorder = _Recorder(landscape)
    if sampler == "kernel_tuner":
        start = time.process_time()
        recorder.times.extend(kernel_tuner_peer.times_of(landscape, seed, budget))
        return _outcome(landscape, sampler, recorder.times[:budget], time.process_time() - start)
    start = time.process_time()
    study = optuna.create_study(sampler=SAMPLERS[sampler](landscape, seed, earlier))
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
    """A landscape that remembers what it was asked for."""

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
    """Optuna's own samplers do not know the valid configurations, and repeat themselves: neither counts as an evaluation.

    After ten such proposals in a row a random new configuration is measured, as their users do.
    """
    from optuna.trial import TrialState

    space = recorder.landscape.space
    distributions = space.distributions()
    spare = iter(np.random.default_rng([seed, 3]).permutation(len(space)).tolist())
    wasted = 0
    while len(recorder.rows) < budget:
        if wasted == _PATIENCE:
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
    """Optuna warns of the experimental options that its multivariate TPE still is."""
    import warnings

    import optuna

    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


def _regression(landscape: Landscape, seed: int, earlier: Landscape | None) -> BaseSampler:
    prior = Prior.from_landscape(landscape.space, earlier) if earlier is not None else None
    return RegressionSampler(landscape.space, seed=seed, prior=prior)


def _classic(landscape: Landscape, seed: int, earlier: Landscape | None) -> BaseSampler:
    return RegressionSampler(landscape.space, seed=seed, model="classic")


def _tpe(landscape: Landscape, seed: int, earlier: Landscape | None) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(multivariate=True, seed=seed)


def _random(landscape: Landscape, seed: int, earlier: Landscape | None) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


SAMPLERS: dict[str, Callable[[Landscape, int, Landscape | None], BaseSampler]] = {
    "regression": _regression,
    "classic": _classic,
    "tpe": _tpe,
    "random": _random,
}
_PEERS = ("tpe", "random")


def summarise(runs: list[Run]) -> dict[str, Any]:
    """The figures of one sampler on one landscape."""
    by_budget = {str(count): statistics.mean(run.fractions[position] for run in runs) for position, count in enumerate(BUDGETS)}
    close = statistics.median(run.close for run in runs)
    return {
        "fraction": statistics.mean(by_budget.values()),
        "by_budget": by_budget,
        "median_evaluations_to_5_percent": close if math.isfinite(close) else None,
        "overhead_ms": statistics.mean(run.overhead_ms for run in runs),
    }


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        *["landscape", "sampler", "fraction", *(f"after {count}" for count in BUDGETS), "to 5 %", "ms each"],
        title=f"optimum_time / best_time, {document['seeds']} seeds",
    )
    for name, samplers in document["landscapes"].items():
        for sampler, figures in samplers.items():
            close = figures["median_evaluations_to_5_percent"]
            table.add_row(
                *[name, sampler, f"{figures['fraction']:.3f}", *(f"{value:.3f}" for value in figures["by_budget"].values())],
                *["never" if close is None else f"{close:g}", f"{figures['overhead_ms']:.0f}"],
            )
    for sampler, figures in document["aggregate"].items():
        table.add_row("aggregate", sampler, f"{figures['fraction']:.3f}")
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
