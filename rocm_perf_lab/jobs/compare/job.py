"""`rocm-perf compare`: compare two profiles kernel by kernel, considering measurement noise."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rocm_perf_lab.analysis.comparison import compare, differences, remarks
from rocm_perf_lab.analysis.comparison_document import compare_document, counted
from rocm_perf_lab.jobs.compare.inputs import CompareError, read_run
from rocm_perf_lab.toolchain.demangle import without_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.analysis.comparison_document import CompareDocument
    from rocm_perf_lab.analysis.comparison_model import KernelComparison, Normalisation, RunTimes

_COLOURS = {
    "new": "cyan",
    "gone": "cyan",
    "not comparable": "cyan",
    "faster": "green",
    "slower": "red",
    "unclear": "yellow",
    "indistinguishable": "yellow",
}
_EXPLAINED = ("unclear", "indistinguishable", "not comparable")
_WITHOUT_RESULT = ("same", "indistinguishable", "unclear", "not comparable")
_MOST_ROWS = 40
"""Maximum number of table rows; kernels that changed have precedence."""
_MOST_REASONS = 12
_NAME_WIDTH = 26


@dataclass(frozen=True)
class CompareRequest:
    """Arguments and options of `rocm-perf compare`."""

    base: Path
    new: Path
    fail_over: str = "5%"
    force: bool = False
    normalise: Normalisation | None = None


@dataclass(frozen=True)
class ComparedRuns:
    """Two runs and the comparison of their kernels."""

    request: CompareRequest
    base: RunTimes
    new: RunTimes
    rows: tuple[KernelComparison, ...]
    threshold: float
    differences: tuple[str, ...]
    """Differences between the runs that prevent a comparison unless forced."""
    remarks: tuple[str, ...]

    def document(self) -> CompareDocument:
        """Return the content of `compare --json`."""
        sides = {"base": (self.request.base, self.base), "new": (self.request.new, self.new)}
        return compare_document(sides, self.rows, differences=self.differences, remarks=self.remarks, fail_over=self.threshold)


def compare_runs(request: CompareRequest) -> ComparedRuns:
    """Compare two profiles, without output.

    Raises:
        CompareError: A profile or the threshold is invalid, or the runs are not comparable.
    """
    threshold = parse_share(request.fail_over)
    base, new = read_run(request.base), read_run(request.new)
    unlike, said = differences(base, new), remarks(base, new)
    if unlike and not request.force:
        raise CompareError(
            f"these runs are not comparable: {'; '.join(unlike)}",
            where=f"{request.base} and {request.new}",
            hint="compare runs of one device and target, or add --force to compare them anyway",
        )
    rows = compare(base, new, request.normalise)
    return ComparedRuns(request, base, new, tuple(rows), threshold, tuple(unlike), tuple(said))


def run_compare(request: CompareRequest, console: Console, *, as_json: bool) -> bool:
    """Print the comparison; return whether a kernel is significantly slower by more than the threshold.

    Raises:
        CompareError: A profile or the threshold is invalid, or the runs are not comparable.
    """
    found = compare_runs(request)
    if as_json:
        print(found.document().model_dump_json(indent=2))
    else:
        forced = (f"compared because of --force, although they differ in {difference}" for difference in found.differences)
        for text in (*forced, *found.remarks):
            console.print(Text(text, style="yellow"))
        _show(console, found.rows, found.threshold, _time_word(found.base, found.new))
    return any(row.is_regression(found.threshold) for row in found.rows)


def parse_share(text: str) -> float:
    """Parse `5%` or `0.05`.

    Raises:
        CompareError: The text is neither a percentage nor a number of at least 0 and below 1.
    """
    number, is_percent = text.strip().removesuffix("%").strip(), text.strip().endswith("%")
    try:
        share = float(number) / (100 if is_percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf") or (share >= 1 and not is_percent):
        raise CompareError(f"invalid share {text!r}", where="--fail-over", hint="write 5% or 0.05")
    return share


def _time_word(base: RunTimes, new: RunTimes) -> str:
    words = [dict(run.traits)["time_kind"] for run in (base, new)]
    return ", ".join(dict.fromkeys(words))


def _show(console: Console, rows: Sequence[KernelComparison], threshold: float, time_kind: str) -> None:
    shown = _most_telling(rows, threshold)
    several = {name for name, count in Counter(row.mangled_name for row in rows).items() if count > 1}
    table = Table(title=f"times in us {time_kind}; change with its interval", title_justify="left", expand=False)
    table.add_column("kernel", overflow="fold", max_width=_NAME_WIDTH)
    for heading in ("base", "new", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in shown:
        verdict = Text(row.verdict, style=_COLOURS.get(row.verdict, ""))
        launch = f"\n{_short_launch(row)}" if row.mangled_name in several and (row.launch or row.base_launch) else ""
        table.add_row(
            Text(_short(row.name) + launch), _us(row.base_ms), _us(row.new_ms), _percent(row.change), _range(row), verdict
        )
    console.print(table)
    if len(shown) < len(rows):
        console.print(f"and {len(rows) - len(shown)} more kernels: use --json to list all")
    _reasons(console, shown)
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counted(rows).items() if count) or "no kernels")
    _conclude(console, rows, threshold)


def _most_telling(rows: Sequence[KernelComparison], threshold: float) -> list[KernelComparison]:
    """Select rows by importance: regressions, other changes, the rest; keep their order."""

    def importance(row: KernelComparison) -> int:
        return 0 if row.is_regression(threshold) else 1 if row.verdict not in _WITHOUT_RESULT else 2

    chosen = sorted(range(len(rows)), key=lambda place: (importance(rows[place]), place))[:_MOST_ROWS]
    return [rows[place] for place in sorted(chosen)]


def _reasons(console: Console, rows: Sequence[KernelComparison]) -> None:
    """Print the reasons for verdicts other than a difference, and notes; a text about several kernels is printed once."""
    reasons = [(row, text) for row in rows for text in ((row.reason if row.verdict in _EXPLAINED else None), row.note) if text]
    many = Counter(text for _, text in reasons)
    said = dict.fromkeys(
        f"{many[text]} kernels: {text}" if many[text] > 1 else f"{_short(row.name, 40)}: {text}" for row, text in reasons
    )
    for line in list(said)[:_MOST_REASONS]:
        console.print(Text(line))
    if len(said) > _MOST_REASONS:
        console.print(f"and {len(said) - _MOST_REASONS} more reasons: use --json to list all")


def _conclude(console: Console, rows: Sequence[KernelComparison], threshold: float) -> None:
    regressions = [row.name for row in rows if row.is_regression(threshold)]
    share = f"{100 * threshold:g}%"
    if regressions:
        named = ", ".join(_short(name, 60) for name in regressions[:10]) + (", ..." if len(regressions) > 10 else "")
        console.print(Text(f"significantly slower by more than {share}: {named}", style="red"))
        return
    console.print(Text(f"no kernel is significantly slower by more than {share}"))
    if not any(row.verdict in ("same", "slower", "faster") for row in rows):
        console.print(Text("but no result is conclusive: a regression cannot be excluded", style="yellow"))


def _short(name: str, width: int = 2 * _NAME_WIDTH) -> str:
    """Shorten a name to its function and template arguments."""
    bare = without_parameters(name)
    return bare if len(bare) <= width else f"{bare[: width - 3]}..."


def _short_launch(row: KernelComparison) -> str:
    """Return the launch shape without trailing sizes of 1."""
    shapes = [re.sub(r"(x1)+\b", "", shape) for shape in (row.base_launch, row.launch) if shape]
    return ", now ".join(dict.fromkeys(shapes))


def _us(time_ms: float | None) -> str:
    return "-" if time_ms is None else f"{time_ms * 1000:.5g}" if time_ms < 100 else f"{time_ms * 1000:,.0f}"


def _percent(change: float | None) -> str:
    return "-" if change is None else f"{change:+.1%}"


def _range(row: KernelComparison) -> str:
    return "-" if row.interval is None else f"{row.interval[0]:+.1%} to {row.interval[1]:+.1%}"
