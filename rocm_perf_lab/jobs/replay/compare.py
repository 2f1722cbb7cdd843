"""Command `rocm-perf replay compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from rocm_perf_lab.core.errors import EXIT_NEGATIVE, EXIT_SUCCESS
from rocm_perf_lab.jobs.replay.tracked import track_comparison
from rocm_perf_lab.replay.check import require_pointers
from rocm_perf_lab.replay.comparison import CONFIDENCE, compare_code_objects

if TYPE_CHECKING:
    from rich.console import Console

    from rocm_perf_lab.jobs.replay.commands import ReplayTarget
    from rocm_perf_lab.jobs.replay.tracked import TrackingChoice
    from rocm_perf_lab.replay.comparison import CodeComparisonRequest, ComparedCode, ReplayComparison

_CACHES = {
    "warm": "warm (dispatches follow one another, memory is restored before each batch)",
    "restored": "memory is restored before each dispatch",
    "cold": "cold (memory is restored, then the caches are overwritten)",
}


def run_compare(
    where: ReplayTarget, request: CodeComparisonRequest, console: Console, *, as_json: bool, tracking: TrackingChoice = "none"
) -> int:
    """Time two code objects on a capture and print the result; return the exit code, 1 if the memory of the candidate is wrong.

    Raises:
        CaptureError: The capture is damaged or incomplete.
        OverrideError: A code object violates a rule of :mod:`~rocm_perf_lab.replay.override`.
        DeviceFault: A kernel faulted or did not end in time.
        ReplayError: The capture cannot be replayed on this machine, or its architecture has no emulated times.
    """
    capture = where.opened()
    where.require_times(capture)
    if request.check is not None:
        require_pointers(capture, request.check.types)
    with where.session(capture) as session, console.status("comparing") as status:

        def progress(done: int, total: int) -> None:
            status.update(f"comparing: {done} of {total} pairs")

        document = compare_code_objects(capture, session, request, where.timing_errors(capture), progress)
    track_comparison(capture, document, tracking)
    if as_json:
        console.file.write(document.model_dump_json(indent=2) + "\n")
    else:
        _show(document, console)
    failed = document.verification is not None and not document.verification.passed
    return EXIT_NEGATIVE if failed else EXIT_SUCCESS


def _show(document: ReplayComparison, console: Console) -> None:
    kind = " (emulated)" if document.time_kind == "emulated" else ""
    console.print(f"Kernel: {escape(document.kernel)} on {escape(document.gpu_agent)}", soft_wrap=True)
    batches = f"{document.pairs} interleaved pairs of batches of {document.batch}" if not kind else "one estimate each"
    console.print(f"Caches: {_CACHES[document.caches]}; {batches}", soft_wrap=True)
    console.print(f"Baseline:  {_time(document.baseline)}{kind}", soft_wrap=True)
    console.print(f"Candidate: {_time(document.candidate)}{kind}", soft_wrap=True)
    speedup = document.speedup
    bounds = f", {speedup.low:.3f} to {speedup.high:.3f}" if speedup.low is not None and speedup.high is not None else ""
    sure = "error band of the timing model" if kind else f"{CONFIDENCE:.0%} confidence"
    console.print(f"[bold]Speed-up {speedup.estimate:.3f}x[/]{bounds} ({sure}): {speedup.verdict}", soft_wrap=True)
    for name, clock in document.clocks_mhz.items():
        console.print(f"Clock ({name}): {clock.low:.0f} to {clock.high:.0f} MHz")
    for note in document.notes:
        console.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True)
    check = document.verification
    if check is not None and check.passed:
        console.print(f"[green]Check passed[/]: the candidate reproduces the {check.compared_with}")
    elif check is not None:
        console.print(f"[bold red]Check failed[/]: the memory differs from the {check.compared_with}")
        for mismatch in check.mismatches:
            console.print(f"  {escape(mismatch)}", soft_wrap=True)


def _time(code: ComparedCode) -> str:
    interval = code.interval_us
    between = f", {interval[0]:.4g} to {interval[1]:.4g}" if interval is not None else ""
    return f"{code.median_us:.4g} us{between}  {escape(code.hsaco)}"
