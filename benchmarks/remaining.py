"""Reliability of the estimated probability that a better configuration remains: `python -m benchmarks.remaining`.

Landscapes of which every time is known are searched. After several numbers of evaluations the search states the probability that
a configuration faster by 1, 2, 5, 10 or 20 % is left, which is compared with the truth. Statements are grouped by their
probability; the table contains the mean probability and the observed share of each group, with the standard error of their gap:
statements about one landscape depend on each other, so it is resampled by landscape.

`--fit` fits the calibration to development landscapes: families with even numbers, generated kernels, and the measured
landscapes of `--data`. Without it the families with odd numbers, which the calibration has not seen, are searched.
"""

from __future__ import annotations

import argparse
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from benchmarks.families import drawn_families
from benchmarks.figures import Publisher
from benchmarks.synthetic import synthetic_landscapes
from rocm_perf_lab.autotune.landscape import landscapes_in
from rocm_perf_lab.autotune.remaining import CALIBRATION_FILE, MARGINS, Outlook
from rocm_perf_lab.autotune.search import GaussianSearch
from rocm_perf_lab.autotune.strategy import Observations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.autotune.landscape import Landscape

DEVELOPMENT, HELD_OUT = (0, 2, 4, 6), (1, 3, 5)
"""Numbers of the families of each part."""
SNAPSHOTS = (12, 20, 30, 45, 70, 100, 150, 200)
EDGES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
_RESAMPLED = 1000


@dataclass(frozen=True)
class Statement:
    """View after some evaluations, and whether a configuration faster by `margin` was left."""

    landscape: str
    seed: int
    margin: float
    outlook: Outlook
    left: bool


def main(arguments: list[str] | None = None) -> None:
    """Search, compare statements with the truth, print and write the table."""
    publisher = Publisher("remaining", _parser(), arguments)
    options = publisher.options
    landscapes = landscapes_in(options.data) if options.data else drawn_families(DEVELOPMENT if options.fit else HELD_OUT)
    if options.fit:
        landscapes += synthetic_landscapes()
        landscapes += landscapes_in(options.measured) if options.measured else []
    chosen = [one for one in landscapes if one.name.startswith(tuple(options.only or [""]))]
    with ProcessPoolExecutor(options.workers) as pool:
        tasks = [(landscape, seed) for landscape in chosen for seed in range(options.seeds)]
        statements = [one for found in pool.map(_statements_of, tasks) for one in found]
    if options.fit:
        fit(statements, CALIBRATION_FILE)
    document = {"landscapes": [one.name for one in chosen], "seeds": options.seeds, **reliability(statements)}
    title = "probability that something better is left: mean of the statements, and share in which it was"
    rows = {name: (name, *_cells(group)) for name, group in document["groups"].items()}
    publisher.publish(title, ("stated", "statements", "mean", "observed"), rows, document)


def _cells(group: dict[str, Any]) -> tuple[str, str, str]:
    observed = f"{group['observed']:.2f} ± {group['standard_error']:.2f}"
    return str(group["statements"]), f"{group['stated']:.2f}", observed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remaining", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fit", action="store_true", help="fit the calibration to development landscapes, and write it")
    parser.add_argument("--measured", type=Path, help="directory of measured landscapes to fit to as well")
    parser.add_argument("--data", type=Path, help="directory of landscapes (*.json.gz) in place of the families")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="landscapes whose names begin with NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    return parser


def _statements_of(task: tuple[Landscape, int]) -> list[Statement]:
    landscape, seed = task
    return list(statements_of(landscape, seed))


def statements_of(landscape: Landscape, seed: int) -> list[Statement]:
    """Search a landscape, and return the statements of all snapshots."""
    strategy = GaussianSearch(landscape.space, seed=seed)
    rows: list[int] = []
    found = []
    while len(rows) < min(SNAPSHOTS[-1], len(landscape.space) - 1):
        seen = _observed(landscape, rows)
        choice = strategy.choose(seen)
        if choice is None:
            break
        rows.append(choice.row)
        if len(rows) in SNAPSHOTS:
            seen = _observed(landscape, rows)
            outlook = strategy.assess(seen).outlook
            if isinstance(outlook, Outlook):
                best, rest = float(seen.times.min()), float(np.delete(landscape.times_ms, rows).min())
                found += [Statement(landscape.name, seed, m, outlook, rest <= best * (1 - m)) for m in MARGINS]
    return found


def _observed(landscape: Landscape, rows: Sequence[int]) -> Observations:
    chosen = np.array(rows, np.int64)
    return Observations(chosen, landscape.times_ms[chosen])


def fit(statements: Sequence[Statement], path: Path) -> None:
    """Fit the calibration, every landscape with equal weight, and write it."""
    from sklearn.linear_model import LogisticRegression

    features = np.array([one.outlook.features(one.margin) for one in statements])
    counts = {one.landscape: 0 for one in statements}
    for one in statements:
        counts[one.landscape] += 1
    weights = [1 / counts[one.landscape] for one in statements]
    scaled = np.array(weights) * len(weights) / sum(weights)
    model = LogisticRegression(C=1.0, max_iter=1000).fit(features, [one.left for one in statements], scaled)
    stored = {"intercept": round(float(model.intercept_[0]), 4), "weights": [round(float(w), 4) for w in model.coef_[0]]}
    text = "# Fitted by `python -m benchmarks.remaining --fit`; inputs: Outlook.features.\n" + yaml.safe_dump(stored)
    path.write_text(text)


def reliability(statements: Sequence[Statement]) -> dict[str, Any]:
    """Return statements, mean probability and observed share by groups of probability, and the mean gap."""
    stated = [(one.outlook.probability(one.margin), one.left, one.landscape) for one in statements]
    groups = {}
    for low, high in pairwise(EDGES):
        inside = [one for one in stated if low <= one[0] < high or one[0] == high == 1.0]
        if inside:
            mean, observed = statistics.mean(p for p, _, _ in inside), statistics.mean(left for _, left, _ in inside)
            error = _standard_error([(left - p, name) for p, left, name in inside])
            name = f"{low:.0%} to {high:.0%}"
            groups[name] = {"statements": len(inside), "stated": mean, "observed": observed, "standard_error": error}
    total = len(stated)
    gap = sum(group["statements"] * abs(group["stated"] - group["observed"]) for group in groups.values()) / total
    brier = statistics.mean((p - left) ** 2 for p, left, _ in stated)
    return {"groups": groups, "calibration_error": gap, "brier": brier, "statements": total}


def _standard_error(values: Sequence[tuple[float, str]]) -> float:
    """Return the standard error of a mean of values of some landscapes, by resampling landscapes."""
    names = sorted({name for _, name in values})
    sums = np.array([sum(value for value, of in values if of == name) for name in names])
    counts = np.array([sum(of == name for _, of in values) for name in names])
    drawn = np.random.default_rng(0).integers(len(names), size=(_RESAMPLED, len(names)))
    return float(np.std(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)))


if __name__ == "__main__":
    main()
