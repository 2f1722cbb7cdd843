"""One screen about a recording: the application, then the analysed kernel with its ledger of lost time, then notes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from rocm_perf_lab.analysis.sample_account import sampled_kernel
from rocm_perf_lab.jobs.analyze.overview_screen import NARROWEST, overview_lines, screen_width
from rocm_perf_lab.jobs.show_ledger import duration_text, labelled, ledger_lines
from rocm_perf_lab.toolchain.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.analysis.diagnosis import Diagnosis
    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.jobs.analyze.results import RecordingAnalysis
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.target.timing_errors import TimingErrors

_NOTES = 3
_NAME_LINES = 2
_BROKEN_EARLY = 16
_ABOUT_LOST_DATA = re.compile(r"\bignored\b|is not used\b|wrongly|unreliable|is assumed|are unknown")
"""Pattern of notes on missing or replaced data, which are shown first."""


def show_recording(console: Console, found: RecordingAnalysis, *, verbose: bool = False) -> None:
    """Print the screen for at least 80 columns; `verbose` also prints abbreviated parts and the thread trace."""
    if console.quiet:
        return
    for line in recording_lines(found, width=screen_width(console), verbose=verbose):
        console.print(line, soft_wrap=True)
    if verbose and found.thread_trace is not None:
        from rocm_perf_lab.jobs.show_thread_trace import show_thread_trace

        show_thread_trace(console, found.thread_trace)


def files_line(directory: Path) -> str:
    """Return the line with the directory of the documents, in markup; it lists some of them if 80 columns suffice."""
    contents = " (report.html, analysis.json, ...)"
    return f"[bold]files[/]    {escape(str(directory))}{contents if len(f'files    {directory}{contents}') <= NARROWEST else ''}"


def recording_lines(found: RecordingAnalysis, *, width: int, verbose: bool = False) -> list[Text]:
    """Return the screen as lines of at most `width` characters."""
    lines: list[Text] = []
    if found.overview is not None:
        chosen = found.kernel.profile.kernel.mangled_name if found.kernel else None
        lines += overview_lines(
            found.overview,
            chosen=chosen,
            gpu=found.gpu_name or "unknown GPU",
            time_kind=found.time_kind,
            width=width,
            verbose=verbose,
        )
    if found.kernel is not None:
        lines += [Text(""), *_kernel(found.kernel.profile, found.kernel.diagnosis, found.time_kind, width)]
    elif found.detail is not None:
        lines += _name(found.detail.name, width)
        lines += labelled("time", "not in the recording: the ledger has shares only", width)
    lines += _details(found, width)
    if found.ledger is not None:
        lines += ledger_lines(found.ledger, width=width, verbose=verbose)
    warnings = found.kernel.diagnosis.stability.warnings if found.kernel else ()
    return [*lines, *_notes((*warnings, *found.notes), width, verbose)]


def _kernel(profile: Profile, diagnosis: Diagnosis, time_kind: str, width: int) -> list[Text]:
    resources, occupancy = profile.resources, profile.occupancy
    registers = f"{resources.vgpr_per_thread} VGPR, {resources.agpr_per_thread} AGPR, {resources.sgpr_per_wave} SGPR"
    facts = [
        f"grid {_sizes(profile.grid)}, block {_sizes(profile.block)}",
        registers if resources.vgpr_per_thread else "registers unknown",
        f"{resources.lds_bytes:,} B LDS" if resources.lds_bytes else "",
        f"{resources.scratch_bytes:,} B scratch" if resources.scratch_bytes else "",
        f"{occupancy.waves_per_simd:g} of {occupancy.max_waves_per_simd} waves per SIMD ({occupancy.limiter})",
    ]
    return [
        *_name(profile.kernel.name, width),
        *labelled("", ", ".join(filter(None, facts)), width),
        *labelled("time", _time(diagnosis, time_kind, profile.timing_errors), width),
    ]


def _name(name: str, width: int) -> list[Text]:
    """Return a kernel's name without parameters, shortened to two lines; lines may break early, at spaces in the name."""
    return labelled("kernel", short_name(name, _NAME_LINES * (width - 9) - _BROKEN_EARLY), width)


def _details(found: RecordingAnalysis, width: int) -> list[Text]:
    """Return one line about the thread trace and one about the PC samples of the kernel."""
    lines = []
    traced, samples = found.thread_trace, found.samples
    if traced is not None and traced.waves:
        each = traced.total.cycles / traced.waves
        several = len(found.files.thread_traces)
        which = f"{traced.directory}, one of {several} traces: " if several > 1 else ""
        waves = f"{traced.waves:,} wavefront{'' if traced.waves == 1 else 's'}"
        text = f"{which}{waves}, {each:,.0f} {found.time_kind} cycles each: {traced.issue_fraction:.0%} issuing, "
        text += f"{traced.stall_fraction:.0%} stalled, {traced.idle_fraction:.0%} idle; {_of_simds(traced)}"
        lines += labelled("traced", text, width)
    if samples is not None:
        own = sampled_kernel(samples, _symbol(found))
        count = own.samples if own is not None else 0
        text = f"{count:,} PC samples ({samples.method}), {count / max(samples.samples, 1):.0%} of those of all kernels"
        lines += labelled("sampled", text, width)
    return lines


def _of_simds(traced: ThreadTrace) -> str:
    """Return the cost of stalls for the SIMDs: a stalled wavefront may wait for a busy unit, which loses no time."""
    if traced.budget is None or traced.budget.binding is None:
        return f"{traced.hidden_fraction:.0%} hidden by other wavefronts"
    unit = traced.budget.binding
    return f"their SIMDs: {unit} {traced.budget.use.get(unit, 0.0):.0%} busy, no wavefront can run {traced.budget.exposed:.0%}"


def _symbol(found: RecordingAnalysis) -> str | None:
    if found.kernel is not None:
        return found.kernel.profile.kernel.mangled_name
    return found.detail.mangled_name if found.detail is not None else None


def _time(diagnosis: Diagnosis, time_kind: str, errors: TimingErrors | None) -> str:
    spread = diagnosis.stability
    if spread.median_ns == 0:
        return "not in the recording"
    text = f"{duration_text(spread.median_ns)} {time_kind}"
    if errors is not None:
        low, high = errors.around(spread.median_ns)
        text += f", {duration_text(low)} to {duration_text(high)} expected on a GPU"
    if spread.runs > 1:
        text += f", median of {spread.runs:,}"
    if spread.median_interval_ns is not None and spread.median_interval_ns[0] < spread.median_interval_ns[1]:
        low, high = spread.median_interval_ns
        text += f" (95 %: {duration_text(low)} to {duration_text(high)})"
    return text


def _sizes(sizes: Iterable[int]) -> str:
    """Format the sizes of a grid without trailing 1s: `256`, `64 x 4`."""
    kept = list(sizes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " x ".join(f"{size:,}" for size in kept)


def _notes(notes: tuple[str, ...], width: int, verbose: bool) -> list[Text]:
    notes = tuple(sorted(notes, key=lambda note: _ABOUT_LOST_DATA.search(note) is None))
    shown = notes if verbose else notes[:_NOTES]
    most = None if verbose else 2
    lines = [line for n, note in enumerate(shown) for line in labelled("" if n else "notes", note, width, most_lines=most)]
    if len(notes) > len(shown):
        lines += labelled("", f"and {len(notes) - len(shown)} more (--verbose)", width)
    return lines
