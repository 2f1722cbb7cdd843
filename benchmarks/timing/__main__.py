"""Timing model against hardware: `python -m benchmarks.timing [--family NAME]... [--case TEXT] [--quick] [--held-out]`.

Part (a) compares the model with the facts of public MI300X thread traces, constant by constant. Part (b) runs kernels for which
MI300X measurements are published and prints, per family, Spearman's rank correlation and the ratio of emulated to measured
time. Runs of single families update the stored result of those families only, so that they can run in parts; `--report`
prints the stored results without running anything.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from benchmarks.figures import REPOSITORY, Publisher
from benchmarks.timing.agreement import Agreement, Outcome, agreement, rank_correlation
from benchmarks.timing.emulation import Emulation
from benchmarks.timing.measures import MEASURES
from benchmarks.timing.published import Case, published_cases, published_families
from benchmarks.timing.sheet import SHEET_COLUMNS, comparisons

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SHEET = "sheet"
CASE_COLUMNS = ("case", "measured", "emulated", "emulated / measured time", "held out", "source", "trust")
FAMILY_COLUMNS = (
    "family",
    "cases (held out)",
    "Spearman",
    "Spearman, held out",
    "geometric mean",
    "p10 to p90",
    "within 1.3x",
    "within 1.3x, held out",
)


def main(arguments: list[str] | None = None) -> None:
    """Run, print and write the comparisons."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timing", description=(__doc__ or "").partition("\n")[0])
    names = [SHEET, *(family.name for family in published_families())]
    parser.add_argument("--family", action="append", choices=names, help="only this family; `sheet` are the constants")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases with TEXT in their name, not stored")
    parser.add_argument("--held-out", action="store_true", help="only held-out cases, not stored")
    parser.add_argument("--quick", action="store_true", help="smaller problems, not stored")
    parser.add_argument("--report", action="store_true", help="print the stored results without running a kernel")
    publisher = Publisher("timing", parser, arguments)
    options = publisher.options
    partial = bool(options.case or options.held_out or options.quick)
    if not options.report and not options.held_out and (not options.family or SHEET in options.family):
        _compare_sheet(publisher, options.case, store=not partial)
    fresh: list[Outcome] = []
    print(*CASE_COLUMNS, "wall-clock time", sep="\t")
    for outcome in stored(options.json) if options.report else ():
        print(*_cells(outcome), sep="\t")
    try:
        for case in () if options.report else _chosen(options):
            outcome = evaluated(case, quick=options.quick)
            fresh.append(outcome)
            print(*_cells(outcome), f"{outcome.seconds:.1f} s", sep="\t", flush=True)
    finally:  # an interrupted run keeps its results
        if partial:
            _print_families(fresh)
        elif fresh or options.report:
            _store(publisher, fresh)


def _compare_sheet(publisher: Publisher, containing: str, *, store: bool) -> None:
    """Compare the constants of the thread traces; see :mod:`benchmarks.timing.sheet`."""
    found = list(comparisons(containing))
    for comparison in found if not store else ():
        print(*comparison.cells, sep="\t")
    if store:
        within = sum(comparison.within for comparison in found)
        data = {"within": within, "constants": [asdict(c) | {"within": c.within} for c in found], "commit": _commit()}
        title = f"timing model against constants of public thread traces: {within} of {len(found)} within"
        publisher.publish(title, SHEET_COLUMNS, {c.name: c.cells for c in found}, data, width=130, suffix="_sheet")


def evaluated(case: Case, *, quick: bool = False) -> Outcome:
    """Run one case on the emulator."""
    started = time.monotonic()
    cache = str(case.parameters.get("cache", "warm"))
    emulation = Emulation(
        clock_mhz=case.series.clock_mhz, gpu=case.family.gpu, quick=quick, cache=cache, record=case.family.record
    )
    emulated = MEASURES[case.family.measure](emulation, case.parameters)
    measured = case.point.measured
    return Outcome(
        case=case.identifier,
        family=case.family.name,
        measured=measured,
        emulated=emulated,
        unit=case.family.unit,
        slower=measured / emulated if case.family.faster == "higher" else emulated / measured,
        held_out=case.held_out,
        source=f"{case.family.source}, row {case.series.row}",
        trust=case.series.trust,
        commit=_commit(),
        seconds=time.monotonic() - started,
    )


def _chosen(options: argparse.Namespace) -> Iterator[Case]:
    for case in published_cases():
        wanted = not options.family or case.family.name in options.family
        if wanted and options.case in case.identifier and (case.held_out or not options.held_out):
            yield case


def _store(publisher: Publisher, fresh: Sequence[Outcome]) -> None:
    """Merge fresh outcomes with those stored, which another process may be changing, and publish both."""
    path: Path = publisher.options.json
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcomes = merged(stored(path), fresh)
        publisher.publish(
            "timing model against published measurements", FAMILY_COLUMNS, _family_rows(outcomes), _data(outcomes), width=130
        )
    finally:
        os.close(lock)


def stored(path: Path) -> list[Outcome]:
    """Return the outcomes in a result file; empty if there is none."""
    if not path.is_file():
        return []
    return [Outcome(**row) for row in json.loads(path.read_text())["data"]["cases"]]


def merged(old: Sequence[Outcome], fresh: Sequence[Outcome]) -> list[Outcome]:
    """Return one outcome per published case in the order of the files; fresh ones replace old ones."""
    by_case = {outcome.case: outcome for outcome in [*old, *fresh]}
    found = [(case, by_case[case.identifier]) for case in published_cases() if case.identifier in by_case]
    return [replace(outcome, held_out=case.held_out) for case, outcome in found]


def _data(outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {"cases": [asdict(outcome) for outcome in outcomes]}


def _print_families(outcomes: Sequence[Outcome]) -> None:
    for row in _family_rows(outcomes).values():
        print(*row, sep="\t")


def _family_rows(outcomes: Sequence[Outcome]) -> dict[str, tuple[str, ...]]:
    """Return the cells of each family, and of all."""
    names = list(dict.fromkeys(outcome.family for outcome in outcomes))
    by_family = {name: [outcome for outcome in outcomes if outcome.family == name] for name in names}
    rows = {name: _row(name, found, rank_correlation(found)) for name, found in by_family.items()}
    if outcomes:
        rows["all"] = _row("all families", outcomes, mean_correlation(list(by_family.values())))
        held = [[outcome for outcome in found if outcome.held_out] for found in by_family.values()]
        rows["all"] = (*rows["all"][:3], _rank(mean_correlation(held)), *rows["all"][4:])
    return rows


def mean_correlation(families: Sequence[Sequence[Outcome]]) -> float | None:
    """Return the mean rank correlation within families, weighted by their cases; None if no family has one."""
    found = [(rank, len(outcomes)) for outcomes in families if (rank := rank_correlation(outcomes)) is not None]
    return sum(rank * count for rank, count in found) / sum(count for _, count in found) if found else None


def _row(name: str, outcomes: Sequence[Outcome], rank: float | None) -> tuple[str, ...]:
    held = [outcome for outcome in outcomes if outcome.held_out]
    whole: Agreement = agreement(outcomes)
    return (
        name,
        f"{len(outcomes)} ({len(held)})",
        _rank(rank),
        _rank(rank_correlation(held)),
        f"{whole.mean:.2f}",
        f"{whole.p10:.2f} to {whole.p90:.2f}",
        f"{whole.within:.0%}",
        f"{agreement(held).within:.0%}" if held else "",
    )


def _rank(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _cells(outcome: Outcome) -> tuple[str, ...]:
    measured, emulated = (f"{value:,.4g} {outcome.unit}" for value in (outcome.measured, outcome.emulated))
    held = "yes" if outcome.held_out else ""
    return outcome.case, measured, emulated, f"{outcome.slower:.2f}", held, outcome.source, outcome.trust


def _commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "log", "-1", "--format=%h", "--", "rocm_perf_lab/emulator", "rocm_perf_lab/arch"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
