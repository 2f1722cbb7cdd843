"""Command line of the benchmark; see :mod:`benchmarks.ledger`."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import RESULTS, Publisher
from benchmarks.ledger.development import DEVELOPMENT
from benchmarks.ledger.diagnosing import DiagnosedCase, EvidenceKind, diagnose_case
from benchmarks.ledger.fresh import FRESH
from benchmarks.ledger.report import CASE_COLUMNS, case_data, case_rows, figures, misses
from benchmarks.ledger.unseen import UNSEEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.ledger.cases import Case
    from benchmarks.ledger.diagnosing import Answer

SETS: Mapping[str, tuple[Case, ...]] = {"development": DEVELOPMENT, "unseen": UNSEEN, "fresh": FRESH}


def main(arguments: list[str] | None = None) -> None:
    """Diagnose the cases, print and write the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ledger", description="First lines of ledgers of kernels with a known dominant cause."
    )
    parser.add_argument(
        "--set", nargs="+", default=["all"], choices=(*SETS, "all"), metavar="SET", help=f"{', '.join(SETS)} or all"
    )
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="only these, not stored")
    parser.add_argument("--recordings", type=Path, help="directory that keeps the recordings; existing ones replace runs")
    parser.add_argument("--verbose", action="store_true", help="print every ledger")
    parser.add_argument("--processes", type=int, default=2)
    publisher = Publisher("ledger", parser, arguments)
    options = publisher.options
    chosen = _selected(options)
    found = {name: diagnose_all(cases, options.recordings, options.processes) for name, cases in chosen.items()}
    _print_cases([one for cases in found.values() for one in cases], verbose=options.verbose)
    if (options.kernels or "all" not in options.set) and options.json == RESULTS / "ledger.json":
        for figure in figures(found):
            print(f"{figure.name}: {figure.value}")
    else:
        data = {name: [case_data(one) for one in cases] for name, cases in found.items()}
        publisher.publish_figures("ledger", figures(found), data)


def diagnose_all(cases: Sequence[Case], recordings: Path | None = None, processes: int = 1) -> list[DiagnosedCase]:
    """Return the results of all cases in their order; the cases are distributed over processes.

    Args:
        cases: Cases to run.
        recordings: Directory of recordings, see :func:`~benchmarks.ledger.diagnosing.diagnose_case`.
        processes: Number of processes.
    """
    if processes == 1:
        return [diagnose_case(case, recordings) for case in cases]
    # The inputs of a case are made by a lambda, which cannot be sent: a process looks the case up and returns the other fields.
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(_diagnose_named, *_place(case), recordings) for case in cases]
        return [DiagnosedCase(case, *future.result()) for case, future in zip(cases, futures, strict=True)]


def _place(case: Case) -> tuple[str, int]:
    return next((name, cases.index(case)) for name, cases in SETS.items() if case in cases)


def _diagnose_named(name: str, number: int, recordings: Path | None) -> tuple[float, float, tuple[Answer, ...]]:
    found = diagnose_case(SETS[name][number], recordings)
    return found.duration_us, found.processor_seconds, found.answers


def _selected(options: argparse.Namespace) -> dict[str, tuple[Case, ...]]:
    chosen = {name: cases for name, cases in SETS.items() if {name, "all"} & set(options.set)}
    if options.kernels:
        chosen = {name: tuple(case for case in cases if case.kernel in options.kernels) for name, cases in chosen.items()}
    chosen = {name: cases for name, cases in chosen.items() if cases}
    if not chosen:
        sys.exit("error: no case matches")
    return chosen


def _print_cases(cases: Sequence[DiagnosedCase], *, verbose: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(*CASE_COLUMNS)
    for row in case_rows(cases).values():
        table.add_row(*row)
    console.print(table)
    if verbose:
        from rocm_perf_lab.jobs.show_ledger import ledger_lines

        for one in cases:
            for kind in EvidenceKind:
                console.print(f"\n{one.case.name} ({kind}), expected {one.case.label}: {one.case.why}")
                for line in ledger_lines(one.answer(kind).ledger, width=console.width, verbose=True):
                    console.print(line)
    print(*misses(cases), sep="\n")


if __name__ == "__main__":
    main()
