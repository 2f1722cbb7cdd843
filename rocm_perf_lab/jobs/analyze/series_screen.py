"""Screen of `rocm-perf analyze --series`: kernels with their histories, then each change with its reasons, at 80 columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from rocm_perf_lab.toolchain.kernel_names import short_name, short_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from rocm_perf_lab.analysis.series_document import KernelHistoryPart, SeriesChangePart, SeriesDocument

_MOST_KERNELS = 15
_MOST_CHANGES = 12
_MOST_RUNS_LISTED = 6
_NAME_WIDTH = 30
_HISTORY_WIDTH = 16
_LEVELS = "▁▂▃▄▅▆▇█"


def show_series(console: Console, document: SeriesDocument) -> None:
    """Print the histories of the kernels with the largest share and of all that changed, and the changes."""
    runs, kernels = document.runs, document.kernels
    order = "recorded start" if document.order == "time" else "name"
    console.print(Text(f"{len(runs)} runs in order of {order}: {_listed([run.label for run in runs])}"))
    shown = _most_telling(kernels)
    names = short_names([kernel.name for kernel in shown], _NAME_WIDTH)
    table = Table(title=f"median times in us, {runs[-1].time_kind}", title_justify="left", expand=False)
    table.add_column("kernel", overflow="fold", max_width=_NAME_WIDTH)
    for heading in ("share", "first", "last"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("history", no_wrap=True)
    table.add_column("changes", justify="right", no_wrap=True)
    for name, kernel in zip(names, shown, strict=True):
        first, last = kernel.median_ms[0], kernel.median_ms[-1]
        changes = Text(str(len(kernel.changes)) if kernel.changes else "-", style="yellow" if kernel.changes else "")
        label = Text(f"{name}\n{_short_launch(kernel.launch)}")
        table.add_row(label, f"{kernel.share:.1%}", _us(first), _us(last), history_line(kernel.median_ms), changes)
    console.print(table)
    if len(shown) < len(kernels):
        console.print(f"and {len(kernels) - len(shown)} more kernels without a change: see series.json")
    _changes(console, document)
    for note in document.notes:
        console.print(Text(f"note: {note}"))


def history_line(times: Sequence[float], width: int = _HISTORY_WIDTH) -> str:
    """Return a history as bars scaled to its range; at most `width` characters, each the median of consecutive runs.

    A history within 2 % is a flat line.
    """
    groups = np.array_split(np.asarray(times, np.float64), min(width, len(times)))
    values = np.array([np.median(group) for group in groups])
    low, high = float(values.min()), float(values.max())
    if high <= 1.02 * low:
        return _LEVELS[3] * len(values)
    place = np.rint((values - low) / (high - low) * (len(_LEVELS) - 1)).astype(int)
    return "".join(_LEVELS[one] for one in place.tolist())


def _most_telling(kernels: Sequence[KernelHistoryPart]) -> list[KernelHistoryPart]:
    """Return kernels with changes, then those with the largest share, in order of the share."""
    by_importance = sorted(range(len(kernels)), key=lambda place: (not kernels[place].changes, place))
    return [kernels[place] for place in sorted(by_importance[:_MOST_KERNELS])]


def _changes(console: Console, document: SeriesDocument) -> None:
    found = [(kernel, change) for kernel in document.kernels for change in kernel.changes]
    if not found:
        console.print(Text("no kernel changed beyond the variation from run to run"))
    several = {kernel.name for kernel in document.kernels if sum(one.name == kernel.name for one in document.kernels) > 1}
    for kernel, change in found[:_MOST_CHANGES]:
        launch = f" ({_short_launch(kernel.launch)})" if kernel.name in several else ""
        console.print(Text(f"{short_name(kernel.name, 50)}{launch}: {_described(change, document)}"))
        for reason in change.reasons:
            console.print(Text(f"  {reason}", style="green" if change.explained else "yellow"))
    if len(found) > _MOST_CHANGES:
        console.print(f"and {len(found) - _MOST_CHANGES} more changes: see series.json")
    odd = sum(len(kernel.odd_runs) for kernel in document.kernels)
    if odd:
        what = "1 single run of a kernel differs" if odd == 1 else f"{odd} single runs of kernels differ"
        console.print(f"{what} from the runs before and after: see odd_runs")


def _described(change: SeriesChangePart, document: SeriesDocument) -> str:
    lasting = " (one run so far)" if change.runs_after == 1 and change.run == len(document.runs) - 1 else ""
    return (
        f"{change.change:+.1%} from run {change.run + 1}, {document.runs[change.run].label}{lasting}: "
        f"{_us(change.before_ms)} -> {_us(change.after_ms)} us (p = {max(change.p_value, 1e-12):.1g})"
    )


def _listed(labels: Sequence[str]) -> str:
    if len(labels) <= _MOST_RUNS_LISTED:
        return ", ".join(labels)
    half = _MOST_RUNS_LISTED // 2
    return ", ".join((*labels[:half], "...", *labels[-half:]))


def _short_launch(launch: str) -> str:
    """Return the launch shape without trailing sizes of 1."""
    return re.sub(r"(x1)+\b", "", launch)


def _us(time_ms: float) -> str:
    return f"{time_ms * 1000:.4g}" if time_ms < 10 else f"{time_ms * 1000:,.0f}"
