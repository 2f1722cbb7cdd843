"""Tables of a thread trace: time by class, waits, hottest lines and instructions."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rocm_perf_lab.analysis.traced_lines import UNKNOWN_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.analysis.trace_budget import TraceBudget
    from rocm_perf_lab.analysis.traced_lines import HotSpot, LineTime
    from rocm_perf_lab.analysis.traced_loops import LoopTime

_LINES, _INSTRUCTIONS, _PARTS, _LOOPS = 5, 5, 6, 3
_WORTH_SAYING = 0.01


def show_thread_trace(console: Console, traced: ThreadTrace) -> None:
    """Print two tables, readable at 80 columns, with paths shortened to the file and its directory."""
    console.print(_summary(traced))
    hottest = Table(title="hottest lines and instructions", title_justify="left", expand=False)
    hottest.add_column("time", justify="right", no_wrap=True)
    hottest.add_column("exposed", justify="right", no_wrap=True)
    hottest.add_column("location and cause of the wait", overflow="fold")
    located = [line for line in traced.lines if line.source != UNKNOWN_SOURCE]
    for line in located[:_LINES]:
        hottest.add_row(*_times(traced, line.spent.cycles, line.hidden_cycles), _line(traced, line))
    if located:
        hottest.add_section()
    for spot in traced.hot_spots[:_INSTRUCTIONS]:
        hottest.add_row(*_times(traced, spot.row.cycles, spot.hidden_cycles), _instruction(traced, spot))
    console.print(hottest)


def _summary(traced: ThreadTrace) -> Table:
    time_kind = "emulated" if traced.emulated else "measured"
    table = Table(title=f"thread trace, {time_kind} cycles", title_justify="left", show_header=False, expand=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    each = f"{traced.total.cycles / traced.waves:,.0f} cycles each: " if traced.waves else ""
    table.add_row(
        f"{traced.waves:,} wavefront{'' if traced.waves == 1 else 's'}",
        f"{each}{traced.issue_fraction:.0%} issuing, {traced.stall_fraction:.0%} stalled, {traced.idle_fraction:.0%} idle;"
        f" {traced.hidden_fraction:.0%} hidden by other wavefronts of the SIMD",
    )
    if traced.budget is not None:
        table.add_row("SIMDs", _simds(traced.budget))
        table.add_row("lost to", _parts((one.cause.replace("_", " "), one.share) for one in traced.budget.lost))
    if traced.phases is not None and traced.loops:
        phases = traced.phases
        table.add_row(
            "phases", f"{phases.prologue:.0%} before the first loop, {phases.loops:.0%} in loops, {phases.epilogue:.0%} after"
        )
    table.add_row("by class", _parts((kind, spent.share) for kind, spent in traced.classes.items()))
    table.add_row("waits", _waits(traced))
    busy = [
        f"{traced.waves_per_simd:.2g} wavefronts per SIMD at a time" if traced.waves_per_simd else "",
        f"{traced.instructions_per_cycle:.2g} instructions per cycle" if traced.instructions_per_cycle else "",
        f"shader clock {traced.shader_clock_hz / 1e9:.2f} GHz" if traced.shader_clock_hz else "",
    ]
    if any(busy):
        table.add_row("on average", ", ".join(filter(None, busy)))
    latencies = [
        f"{kind} {found.median:,.0f} cycles (90 % below {found.p90:,.0f})" for kind, found in traced.memory_latency.items()
    ]
    if latencies:
        table.add_row("latency", ", ".join(latencies))
    for number, loop in enumerate([loop for loop in traced.loops if loop.share >= _WORTH_SAYING][:_LOOPS]):
        table.add_row("" if number else "loops", Text(_loop(loop)))
    for number, limit in enumerate(traced.limits):
        table.add_row("" if number else "limits", Text(limit))
    return table


def _simds(budget: TraceBudget) -> str:
    """Return the utilisation of the units and the exposed time of the SIMDs: `VALU 32 %, LDS 12 %; all wavefronts wait 40 %`."""
    units = _parts((str(unit), share) for unit, share in sorted(budget.use.items(), key=lambda item: (-item[1], item[0])))
    return f"{units or 'idle'}; all wavefronts wait {budget.exposed:.0%}"


def _waits(traced: ThreadTrace) -> str:
    causes = [(f"for {kind}", cycles / traced.total.cycles) for kind, cycles in traced.charged.items()]
    unknown = traced.unattributed_cycles / traced.total.cycles
    return _parts([*causes, ("for an unknown cause", unknown)]) or "none"


def _parts(shares: Iterable[tuple[str, float]]) -> str:
    shown = [f"{name} {share:.0%}" for name, share in shares if share >= _WORTH_SAYING]
    return ", ".join(shown[:_PARTS])


def _loop(loop: LoopTime) -> str:
    where = f"{_short(loop.source)} " if loop.source else ""
    turns = f"{loop.turns_per_entry:,.4g} turns of {loop.cycles_per_turn:,.0f} cycles"
    return f"{where}0x{loop.first.address:x} to 0x{loop.last.address:x}: {loop.share:.0%} of the time, {turns}"


def _times(traced: ThreadTrace, cycles: int, hidden: int) -> tuple[str, str]:
    return f"{cycles / traced.total.cycles:.1%}", f"{(cycles - hidden) / traced.total.cycles:.1%}"


def _line(traced: ThreadTrace, line: LineTime) -> Text:
    share = line.waited_cycles / traced.total.cycles
    if line.waits_for is None or share < _WORTH_SAYING:
        return Text(_short(line.source))
    where = "" if line.waits_for == line.source else f" of {_short(line.waits_for)}"
    return Text(f"{_short(line.source)}\n  {share:.0%} waiting for {line.waits_for_class}{where}")


def _instruction(traced: ThreadTrace, spot: HotSpot) -> Text:
    where = f"  {_short(spot.row.source_line)}" if spot.row.source_line else ""
    text = f"0x{spot.row.address:x} {spot.row.text}{where}"
    share = spot.waited_cycles / traced.total.cycles
    if spot.waits_for is not None and share >= _WORTH_SAYING:
        cause = f"  {_short(spot.waits_for.source_line)}" if spot.waits_for.source_line else ""
        text += f"\n  {share:.0%} because of 0x{spot.waits_for.address:x} {spot.waits_for.text}{cause}"
    return Text(text)


def _short(source: str) -> str:
    """Return the file and its directory, for example `kernels/flash.py:12`."""
    return "/".join(PurePosixPath(source).parts[-2:]) or source
