"""Command line of the benchmark; see :mod:`benchmarks.judge`."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import RESULTS, Publisher
from benchmarks.judge.corpus import kernel_names, select_candidates
from benchmarks.judge.progress import current_commit, judge_remaining
from benchmarks.judge.report import KERNEL_COLUMNS, SETS, false_accepts, first_runs, kernel_rows, misjudged_lines, summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.judge.corpus import CorpusCandidate
    from benchmarks.judge.judging import JudgedKernel


def main(arguments: list[str] | None = None) -> None:
    """Judge, print and write the figures; exit with 1 after a false accept."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.judge", description="False accepts and false rejects of the judge."
    )
    parser.add_argument("--kernels", nargs="+", choices=kernel_names(), metavar="NAME", help="only these, not stored")
    parser.add_argument("--candidates", nargs="+", metavar="NAME", help="only candidates with these names, not stored")
    parser.add_argument("--set", default="all", choices=(*SETS, "all"), help="part of the corpus")
    parser.add_argument("--seed", type=int, default=1, help="seed of the trials")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--progress",
        type=Path,
        metavar="DIRECTORY",
        help="results so far, one file per kernel; candidates in it are not judged again",
    )
    publisher = Publisher("judge", parser, arguments)
    options = publisher.options
    chosen = _selected(options)
    kernels = judge_all(chosen, seed=options.seed, processes=options.processes, directory=options.progress)
    candidates = [candidate for judged in kernels for candidate in judged.candidates]
    _print_kernels(kernels)
    print(*misjudged_lines(candidates), sep="\n")
    partial = options.kernels or options.candidates or options.set != "all"
    if partial and options.json == RESULTS / "judge.json":
        for figure in summary(kernels):
            print(f"{figure.name}: {figure.value}")
    else:
        publisher.publish_figures("judge", summary(kernels), _data(kernels, options.seed))
    if false_accepts(candidates).errors:
        sys.exit(1)


def judge_all(
    chosen: Mapping[str, Sequence[CorpusCandidate]], *, seed: int, processes: int, directory: Path | None = None
) -> list[JudgedKernel]:
    """Return the results of all kernels, in the order of `chosen`; the kernels are distributed over processes.

    Args:
        chosen: Candidates by kernel.
        seed: Seed of the trials.
        processes: Number of processes.
        directory: Results so far; see :func:`benchmarks.judge.progress.judge_remaining`.

    Raises:
        LabError: An unmodified kernel fails its own trials.
    """
    commit = current_commit()
    if processes == 1:
        return [judge_remaining(name, candidates, seed, directory, commit) for name, candidates in chosen.items()]
    with ProcessPoolExecutor(processes) as pool:
        futures = [
            pool.submit(judge_remaining, name, tuple(candidates), seed, directory, commit) for name, candidates in chosen.items()
        ]
        return [future.result() for future in futures]


def _selected(options: argparse.Namespace) -> dict[str, tuple[CorpusCandidate, ...]]:
    chosen = select_candidates(options.kernels or kernel_names(), options.set)
    if options.candidates:
        chosen = {name: tuple(c for c in found if c.entry.name in options.candidates) for name, found in chosen.items()}
    chosen = {name: found for name, found in chosen.items() if found}
    if not chosen:
        sys.exit("error: no candidate matches")
    return chosen


def _print_kernels(kernels: Sequence[JudgedKernel]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*KERNEL_COLUMNS)
    for row in kernel_rows(kernels).values():
        table.add_row(*row)
    Console(highlight=False).print(table)


def _data(kernels: Sequence[JudgedKernel], seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "kernels": [asdict(judged) for judged in kernels],
        "first_runs": [run.model_dump(mode="json") for run in first_runs()],
    }


if __name__ == "__main__":
    main()
