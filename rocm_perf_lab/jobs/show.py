"""Tables that jobs print, readable at 80 columns. Every time is labelled as measured or emulated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rocm_perf_lab.analysis.diagnosis import NOT_TAKEN
from rocm_perf_lab.analysis.roofline import Roofline, Unavailable
from rocm_perf_lab.core.printed import PRINTED_NAME, text_of
from rocm_perf_lab.jobs.show_ledger import ledger_lines
from rocm_perf_lab.optimize.guards import warnings_of
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME, bounds_word
from rocm_perf_lab.tracking.store import ui_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.jobs.analyze.kernel_analysis import AnalyzedKernel
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.guards import GuardResult
    from rocm_perf_lab.optimize.proposal import Verdict
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker

_MIX = {"VALU": "SQ_INSTS_VALU", "MFMA": "SQ_INSTS_MFMA", "SALU": "SQ_INSTS_SALU", "SMEM": "SQ_INSTS_SMEM",
        "VMEM": "SQ_INSTS_VMEM", "LDS": "SQ_INSTS_LDS", "branch": "SQ_INSTS_BRANCH"}  # fmt: skip
_NS_PER_US = 1000.0
_NS_PER_MS = 1e6
_NS_SHOWN_AS_SUCH = 10
_THREE_DIGITS = 100
_WIDEST = 120
_LONG_LIST = re.compile(r"(\b\w+(?:, \w+){3})((?:, \w+){3,})$")


def time_text(runtime_ns: float, time_kind: str, errors: TimingErrors | None = None) -> str:
    """Format a duration for people, for example `13.98 us emulated, 11.2 to 17.5 us expected`.

    Args:
        runtime_ns: Duration in ns.
        time_kind: `emulated` or `measured`.
        errors: Error bands of an emulated duration; None for a measured one.
    """
    if runtime_ns == 0 and time_kind == "emulated":
        return NO_EMULATED_TIME
    if runtime_ns >= _NS_PER_MS:
        unit, scale, digits = "ms", _NS_PER_MS, ".3f"
    elif runtime_ns < _NS_SHOWN_AS_SUCH:
        unit, scale, digits = "ns", 1.0, ".3g"
    else:
        unit, scale, digits = "us", _NS_PER_US, ".2f"
    return f"{runtime_ns / scale:{digits}} {unit} {time_kind}{expected_text(runtime_ns / scale, unit, errors)}"


def expected_text(time: float, unit: str, errors: TimingErrors | None) -> str:
    """Return the bounds of an emulated time, for example `, 11.2 to 17.5 us expected`; empty without error bands.

    Bounds that do not follow from measurements are called assumed.
    """
    if errors is None:
        return ""
    low, high = errors.around(time)
    return f", {low:{_digits(low)}} to {high:{_digits(high)}} {unit} {bounds_word(errors.status)}"


def _digits(time: float) -> str:
    """Return the format of a bound: three digits, and no exponent for large numbers."""
    return ".0f" if time >= _THREE_DIGITS else ".3g"


def runtime_text(runtime_ns: float, time_kind: str) -> str:
    """Format a duration for programs, always in ms, for example `0.013980 ms emulated`, or state that it is unknown."""
    if runtime_ns == 0:
        return NO_EMULATED_TIME if time_kind == "emulated" else "unknown"
    return f"{runtime_ns / _NS_PER_MS:{'.6f' if runtime_ns >= 1 else '.6g'}} ms {time_kind}"


def count_text(count: int, word: str) -> str:
    """Return a number and its noun, in the plural unless the number is 1."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def show_profile(console: Console, profiled: AnalyzedKernel, time_kind: str, title: str) -> None:
    """Print one kernel: time, instructions, resources, occupancy, roofline, findings, result, and the ledger of lost time."""
    if console.quiet:
        return  # Building the table is slow even if it is not shown.
    profile, diagnosis = profiled.profile, profiled.diagnosis
    resources, occupancy = profile.resources, profile.occupancy
    table = Table(title=title, title_justify="left", show_header=False, expand=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    x, y, z = profile.grid
    block = " x ".join(str(n) for n in profile.block)
    table.add_row("kernel", Text(f"{profile.kernel.name}  grid {x} x {y} x {z}, block {block}"))
    errors = profile.timing_errors
    has_time = profiled.runtime_ns or not profile.provenance.trace.has_times
    table.add_row("time", time_text(profiled.runtime_ns, time_kind, errors) if has_time else "not in the trace")
    table.add_row("instructions per wave", _mix(profiled))
    counts = f"{resources.vgpr_per_thread} VGPR, {resources.agpr_per_thread} AGPR, {resources.sgpr_per_wave} SGPR"
    # Every kernel uses registers: zero means that the count is not in the trace.
    table.add_row("registers", counts if resources.vgpr_per_thread else "not in the trace")
    table.add_row("memory", f"{resources.lds_bytes:,} B LDS, {resources.scratch_bytes:,} B scratch per work-item")
    what_if = f"; {occupancy.what_if[0]}" if occupancy.what_if else ""
    table.add_row(
        "occupancy",
        f"{occupancy.waves_per_simd:g} of {occupancy.max_waves_per_simd} waves per SIMD, limited by {occupancy.limiter}{what_if}",
    )
    table.add_row("roofline", _roofline(profiled))
    for warning in diagnosis.stability.warnings:
        table.add_row("[yellow]warning[/]", Text(warning))
    for note in profile.notes:
        table.add_row("note", Text(_shortened(note)))
    for finding in profiled.findings:
        table.add_row(f"[red]{finding.check.replace('_', ' ')}[/]", Text(finding.message))
    if profiled.verification is None:
        table.add_row("result", "not checked")
    else:
        outcome = "correct" if profiled.verification.passed else "WRONG"
        table.add_row("result", Text(f"{outcome}: {profiled.verification}"))
    console.print(table)
    for line in ledger_lines(diagnosis.ledger, width=min(console.width, _WIDEST)):
        console.print(line, soft_wrap=True)
    if isinstance(diagnosis.thread_trace, Unavailable):
        if not diagnosis.thread_trace.reason.startswith(NOT_TAKEN):
            console.print(Text(f"no thread trace: {diagnosis.thread_trace.reason}"), soft_wrap=True)
    else:
        from rocm_perf_lab.jobs.show_thread_trace import show_thread_trace

        show_thread_trace(console, diagnosis.thread_trace)


def show_printed(console: Console, printed: Sequence[PrintedPiece], *, shown: int | None = None) -> None:
    """Print the output of a kernel, if any, under a heading: the first `shown` lines, or all."""
    lines = text_of(printed).splitlines()
    if not lines:
        return
    console.print("[bold]printed by the kernel[/]")
    for line in lines[:shown]:
        console.print(Text(line), soft_wrap=True)
    if shown is not None and len(lines) > shown:
        console.print(f"... {len(lines) - shown:,} more lines are in {PRINTED_NAME}")


def show_rank(console: Console, name: str, possible_gain: float, runtime_ns: float) -> None:
    """Print the fraction of the total time that a kernel can save, if its time is known."""
    if runtime_ns:
        console.print(f"[bold]rank[/]    {escape(name)}: {possible_gain:.0%} of the total time can be saved", soft_wrap=True)


def show_verdict(console: Console, number: int, verdict: Verdict, time_kind: str, errors: TimingErrors | None = None) -> None:
    """Print one proposal: resources, guards, check, time and verdict."""
    console.print(f"[bold]proposal {number}[/] {verdict.proposal.description}  [dim]{verdict.proposal.id}[/]")
    if verdict.kernel is not None:
        guards = ", ".join(f"{g.name} {_guard_state(g)}" for g in verdict.guards)
        cached = " (from the cache)" if verdict.compile_cached else ""
        kernel = verdict.kernel
        console.print(
            f"  compiled  {kernel.vgpr_count} VGPR, {kernel.sgpr_count} SGPR, {kernel.lds_bytes:,} B LDS, "
            f"{verdict.occupancy_waves:g} waves per SIMD{cached}"
        )
        console.print(f"  guards    {guards}")
    for warning in warnings_of(verdict.guards):
        console.print(f"  [yellow]warning[/]   {escape(warning)}", soft_wrap=True)
    if verdict.verification is not None:
        state = "correct" if verdict.verification.passed else "[red]wrong[/]"
        console.print(f"  check     {state}: {escape(str(verdict.verification))}", soft_wrap=True)
    if verdict.runtime_ns is not None:
        console.print(f"  time      {time_text(verdict.runtime_ns, time_kind, errors)}")
    if verdict.accepted:
        console.print(f"  verdict   [green]fast enough[/]: {verdict.reason}")
    elif verdict.is_indistinguishable:
        console.print(f"  verdict   [yellow]not accepted[/]: {escape(verdict.reason)}", soft_wrap=True)
    else:
        console.print(f"  verdict   [yellow]rejected[/] at {verdict.stage}: {escape(verdict.reason)}", soft_wrap=True)


def _guard_state(result: GuardResult) -> str:
    if result.passed:
        return "ok"
    return "[red]FAILED[/]" if result.rejects else "[yellow]warning[/]"


def verdict_table(verdicts: tuple[Verdict, ...], time_kind: str) -> Table:
    """Return a table of all proposals of a run."""
    table = Table(title="proposals", title_justify="left")
    table.add_column("#", justify="right")
    table.add_column("rewrite", overflow="fold")
    table.add_column(f"us {time_kind}", justify="right")
    table.add_column("gain", justify="right")
    table.add_column("verdict", overflow="fold")
    for number, v in enumerate(verdicts, start=1):
        runtime = f"{v.runtime_ns / _NS_PER_US:.2f}" if v.runtime_ns else "-"
        gain = f"{v.improvement:+.1%}" if v.improvement is not None and v.runtime_ns else "-"
        if v.accepted:
            outcome = "[green]accepted[/]"
        elif v.is_indistinguishable and v.runtime_ns:
            outcome = "rolled back: indistinguishable"
        elif v.stage in ("verification", "measurement"):
            outcome = "rolled back"
        else:
            outcome = f"rejected: {v.stage}"
        table.add_row(str(number), v.proposal.description, runtime, gain, outcome)
    return table


def show_locations(lab: Lab, logged: RunTracker | None = None) -> None:
    """Print the run's directory, its report, and the command that opens the tracking store."""
    lab.console.print(f"[bold]files[/]   {lab.output_dir}", soft_wrap=True)
    if (lab.output_dir / "report.html").exists():
        lab.console.print(f"[bold]report[/]  {lab.output_dir / 'report.html'}", soft_wrap=True)
    uri = (logged or lab.tracker).uri
    if uri is not None:
        lab.console.print(f"[bold]compare[/] {ui_command(uri)}", soft_wrap=True)


def _shortened(text: str) -> str:
    """Return `text` with the first names of a long list at its end, and the number of the others, which are in profile.json."""
    found = _LONG_LIST.search(text)
    if found is None:
        return text
    return f"{text[: found.end(1)]} and {found[2].count(',')} more (see profile.json)"


def _mix(profiled: AnalyzedKernel) -> str:
    counters = {name: value for group in profiled.profile.counter_passes for name, value in group.items()}
    waves = counters.get("SQ_WAVES")
    shown = [f"{label} {counters[name] / waves:,.4g}" for label, name in _MIX.items() if counters.get(name)] if waves else []
    if not waves or not shown:
        return "not collected"
    total = f"{counters['SQ_INSTS'] / waves:,.5g}: " if "SQ_INSTS" in counters else ""
    return total + ", ".join(shown)


def _roofline(profiled: AnalyzedKernel) -> str:
    roof = profiled.diagnosis.roofline
    if not isinstance(roof, Roofline):
        return f"not available: {_shortened(roof.reason)}"
    if roof.implausible:
        return f"implausible: {', '.join(roof.implausible)}; counters, time or peak are wrong"
    bound = (roof.position or "unknown").replace("_", " ")
    intensity = f"{roof.intensity:.3g} FLOP/B" if roof.intensity is not None else "intensity unknown"
    flops = f", {roof.gflop_per_s:,.0f} of {roof.peak_gflop_per_s:,.0f} GFLOP/s" if roof.gflop_per_s is not None else ""
    return f"{bound}: {intensity}, {roof.gb_per_s:,.0f} of {roof.peak_gb_per_s:,.0f} GB/s{flops} ({roof.peaks} peaks)"
