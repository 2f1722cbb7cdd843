"""Lines of the application overview: GPUs and idle time, kernels by share, communication, copies, and the critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from rocm_perf_lab.core.text_columns import columns_of, padded
from rocm_perf_lab.jobs.show_ledger import UNKNOWN, duration_text, labelled
from rocm_perf_lab.toolchain.kernel_names import short_name, short_names

if TYPE_CHECKING:
    from rich.console import Console

    from rocm_perf_lab.analysis.application import ApplicationOverview, KernelUse, WorkGroup
    from rocm_perf_lab.analysis.peer_waits import PeerWaits
    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis

NARROWEST, _WIDEST = 80, 120
_ROWS = 8
_PATH_KERNELS = 3
_COLUMNS = (("calls", 9), ("total", 9), ("median", 9), ("share", 7), ("exposed", 8))
_MARK = 2
_LEAST_NAME = 12


def screen_width(console: Console) -> int:
    """Return the number of terminal columns that screens use."""
    return max(NARROWEST, min(console.width, _WIDEST))


def show_overview(console: Console, found: KernelAnalysis) -> None:
    """Print the overview of the application that launched a kernel."""
    if console.quiet:
        return
    lines = overview_lines(
        found.overview,
        chosen=found.profile.kernel.mangled_name,
        gpu=found.gpu_name,
        time_kind=found.time_kind,
        width=screen_width(console),
    )
    for line in lines:
        console.print(line, soft_wrap=True)


def overview_lines(
    overview: ApplicationOverview, *, chosen: str | None, gpu: str, time_kind: str, width: int, verbose: bool = False
) -> list[Text]:
    """Return the overview as lines of at most `width` characters.

    Args:
        overview: Sums over the run.
        chosen: Mangled name of the analysed kernel, which is always listed and marked.
        gpu: Name of the GPU's target.
        time_kind: `measured` or `emulated`.
        width: Columns of the terminal.
        verbose: List all kernels.
    """
    return [
        *_gpus(overview, gpu, time_kind, width),
        *_kernels(overview, chosen, width, verbose),
        *_exchange(overview, width),
        *_path(overview, time_kind, width),
    ]


def _gpus(overview: ApplicationOverview, gpu: str, time_kind: str, width: int) -> list[Text]:
    count = len(overview.gpus)
    parts = [
        f"{count} x {gpu}" if count > 1 else gpu,
        f"{overview.processes:,} processes" if overview.processes > 1 else "",
        f"{overview.calls:,} dispatch{'' if overview.calls == 1 else 'es'} of {_number(len(overview.kernels), 'kernel')}",
    ]
    lines = labelled("GPU", ", ".join(filter(None, parts)), width)
    return lines + labelled("", _use(overview, time_kind), width)


def _use(overview: ApplicationOverview, time_kind: str) -> str:
    if overview.wall_ns is None or overview.idle_share is None:
        return "the recording has no times"
    if time_kind == "emulated":
        busy = sum(gpu.busy_ns for gpu in overview.gpus)
        return f"busy for {duration_text(busy)} emulated; the time between dispatches is not emulated"
    parts = [f"{duration_text(overview.wall_ns)} {time_kind}: idle {overview.idle_share:.0%}"]
    if len(overview.gpus) > 1:
        idle = [1 - gpu.busy_ns / overview.wall_ns for gpu in overview.gpus if gpu.busy_ns]
        parts[0] += f" on average ({min(idle):.0%} to {max(idle):.0%})"
    if overview.longest_gap_ns:
        parts.append(f"longest gap {duration_text(overview.longest_gap_ns)}")
    if overview.launches and overview.launches_late:
        parts.append(f"{overview.launches_late / overview.launches:.0%} of the launches were late: the GPU was already idle")
    return ", ".join(parts)


def _kernels(overview: ApplicationOverview, chosen: str | None, width: int, verbose: bool) -> list[Text]:
    if not overview.kernels:
        return []
    shown = list(overview.kernels) if verbose else list(overview.kernels[:_ROWS])
    marked = next((kernel for kernel in overview.kernels if kernel.mangled_name == chosen), None)
    if marked is not None and marked not in shown:
        shown[-1:] = [marked]
    room = max(_LEAST_NAME, width - _MARK - sum(size for _, size in _COLUMNS))
    header = "".join(f"{name:>{size}}" for name, size in _COLUMNS)
    lines = [Text(f"{'kernels by share':<{room + _MARK}}{header}", style="bold")]
    names = short_names([kernel.name for kernel in shown], room)
    timed = overview.wall_ns is not None
    for kernel, name in zip(shown, names, strict=True):
        mark = ">" if kernel is marked else ""
        lines.append(Text(f"{mark:<{_MARK}}{padded(name, room)}{_cells(kernel, timed)}"))
    if rest := [kernel for kernel in overview.kernels if kernel not in shown]:
        total = duration_text(sum(kernel.total_ns for kernel in rest)) if timed else UNKNOWN
        share = f"{sum(kernel.share for kernel in rest):.1%}" if timed else UNKNOWN
        label = f"{_number(len(rest), 'other kernel')}"
        calls = sum(kernel.calls for kernel in rest)
        lines.append(Text(f"{'':<{_MARK}}{label:<{room}}{_row(f'{calls:,}', total, '', share, '')}".rstrip()))
    return lines


def _cells(kernel: KernelUse, timed: bool) -> str:
    if not timed:
        return _row(f"{kernel.calls:,}", *[UNKNOWN] * 4)
    exposed = kernel.exposed_share
    return _row(
        f"{kernel.calls:,}",
        duration_text(kernel.total_ns),
        duration_text(kernel.median_ns),
        f"{kernel.share:.1%}",
        UNKNOWN if exposed is None else f"{exposed:.0%}",
    )


def _row(*cells: str) -> str:
    return "".join(f"{cell:>{size}}" for cell, (_, size) in zip(cells, _COLUMNS, strict=True))


def _exchange(overview: ApplicationOverview, width: int) -> list[Text]:
    if overview.communication is None and overview.copies is None:
        return labelled("comm", "no communication kernels, no copies", width)
    return [
        *_group("comm", overview.communication, "communication kernels", width),
        *_peers(overview.peer_waits, width),
        *_group("copies", overview.copies, "copies", width),
    ]


def _peers(waits: PeerWaits | None, width: int) -> list[Text]:
    if waits is None:
        return []
    each = f"{duration_text(waits.waited_ns)} per call on average"
    if waits.late is None:
        return labelled("", f"each of {waits.peers} peers waits for the last {each}; no peer is consistently last", width)
    text = f"{waits.late} enters last in {waits.late_calls:.0%} of {waits.calls:,} calls and causes {waits.late_share:.0%}"
    return labelled("", f"{text} of the waiting, {each}: give it less work, or find the cause of its delay", width)


def _group(label: str, group: WorkGroup | None, what: str, width: int) -> list[Text]:
    if group is None:
        return labelled(label, f"no {what}", width)
    if group.exposed_share is None:
        return labelled(label, f"{group.count:,} {what} without times", width)
    size = f" of {_size(group.size_bytes)}" if group.size_bytes else ""
    text = f"{group.count:,} {what}{size}, {duration_text(group.total_ns)}: {group.exposed_share:.0%} exposed"
    return labelled(label, f"{text} ({duration_text(group.exposed_ns)})", width)


def _path(overview: ApplicationOverview, time_kind: str, width: int) -> list[Text]:
    if not overview.kernels:
        return []
    if overview.critical_path_ns is None or overview.wall_ns is None:
        return labelled("path", "critical path unknown: the recording has no times", width)
    whole = "" if time_kind == "emulated" else f" of {duration_text(overview.wall_ns)}"
    text = f"critical path {duration_text(overview.critical_path_ns)}{whole}: "
    kernels = sorted(overview.kernels, key=lambda kernel: -kernel.critical_share)[:_PATH_KERNELS]
    for number, kernel in enumerate(kernels):
        share = f" {kernel.critical_share:.0%}"
        room = width - 9 - columns_of(text) - len(share) - 2 * bool(number)
        if room < _LEAST_NAME or kernel.critical_share <= 0:
            break
        text += f"{', ' if number else ''}{short_name(kernel.name, min(room, 24))}{share}"
    return labelled("path", text.rstrip(": "), width, most_lines=1)


def _size(size_bytes: int) -> str:
    scale, unit = next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if size_bytes >= s), (1.0, "B"))
    return f"{size_bytes / scale:,.3g} {unit}"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
