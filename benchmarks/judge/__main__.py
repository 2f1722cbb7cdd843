"""Command line of the benchmark; see :mod:`benchmarks.judge`."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.figures import RESULTS, Publisher
from benchmarks.judge.corpus import kernel_names, select_candidates
from benchmarks.judge.judging import judge_kernel
from benchmarks.judge.report import KERNEL_COLUMNS, false_accepts, kernel_rows, misjudged_lines, summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.judge.corpus import CorpusCandidate
    from benchmarks.judge.judging import JudgedKernel


def main(arguments: list[str] | None = None) -> None:
    """Judge, print and write the figures; exit with 1 after a false accept."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.judge", description="False accepts and false rejects of the judge."
    )
    parser.add_argument("--kernels", nargs="+", choices=kernel_names(), metavar="NAME", help="only these; nothing is stored")
    parser.add_argument("--candidates", nargs="+", metavar="NAME", help="only candidates with these names; nothing is stored")
    parser.add_argument("--set", default="all", choices=("development", "held_out", "all"), help="part of the corpus")
    parser.add_argument("--seed", type=int, default=1, help="seed of the trials")
    parser.add_argument("--processes", type=int, default=2)
    publisher = Publisher("judge", parser, arguments)
    options = publisher.options
    chosen = _selected(options)
    kernels = judge_all(chosen, seed=options.seed, processes=options.processes)
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


def judge_all(chosen: Mapping[str, Sequence[CorpusCandidate]], *, seed: int, processes: int) -> list[JudgedKernel]:
    """Return the results of all kernels, in the order of `chosen`; the kernels are distributed over processes.

    Raises:
        LabError: An unmodified kernel fails its own trials.
    """
    if processes == 1:
        return [judge_kernel(name, candidates, seed) for name, candidates in chosen.items()]
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(judge_kernel, name, tuple(candidates), seed) for name, candidates in chosen.items()]
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
    return {"seed": seed, "kernels": [asdict(judged) for judged in kernels]}


if __name__ == "__main__":
    main()
