"""Lines of `rocm-perf run` on standard error: the emulated machine before the application, and a summary after it."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from rocm_perf_lab.device.choice import KFD
from rocm_perf_lab.device.process_group import how_it_ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.runtime.application import ApplicationResult
    from rocm_perf_lab.runtime.findings import ApplicationFinding
    from rocm_perf_lab.runtime.totals import DispatchTotals
    from rocm_perf_lab.target.model import Target

_RUNTIMES = {"rocm": "AMD's HIP runtime", "lab": "rocm-perf-lab's HIP runtime"}
_COMPILERS = {"hipcc", "clang", "clang++", "amdclang", "amdclang++"}
"""Programs that do not use a GPU themselves."""
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def say(text: str) -> None:
    """Print a line on standard error."""
    print(f"rocm-perf: {text}", file=sys.stderr, flush=True)


def machine_line(target: Target, gpus: int, threads: int, runtime: str) -> str:
    """Describe the emulated machine."""
    number = f"{gpus} x " if gpus > 1 else ""
    text = f"emulating {number}{target.product_name} ({target.architecture}) with {threads} threads, {_RUNTIMES[runtime]}"
    return f"{text}; the GPU of this machine is not used" if KFD.exists() else text


def end_lines(result: ApplicationResult, program: str) -> list[str]:
    """Return notes about the end of an application: processes that outlived it, and an unused GPU."""
    lines = []
    if result.end.terminated:
        count = result.end.terminated
        subject = "1 process" if count == 1 else f"{count} processes"
        lines.append(f"terminated {subject} that outlived the application")
    if result.end.kind == "signal" and not result.used_gpu:
        return [*lines, f"the application {how_it_ended(-result.end.number)} before it used the GPU"]
    if not result.loaded_driver:
        lines.append(
            f"the emulated GPU was not used: {program} did not load the driver "
            "(it is statically linked or set-user-ID, or it clears LD_PRELOAD)"
        )
    elif not result.used_gpu and PurePath(program).name not in _COMPILERS:
        lines.append("the emulated GPU was not used: the application did not open /dev/kfd. Run `rocm-perf doctor` to check ROCm")
    return lines


def findings_lines(findings: Sequence[ApplicationFinding]) -> list[str]:
    """Return the lines of all findings, and of their number."""
    if not findings:
        return []
    number = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    return [*("\n".join(finding.lines()) for finding in findings), f"{number} of --check"]


def totals_line(totals: DispatchTotals, wall_s: float) -> str:
    """Return the summary of a run."""
    noun = "dispatch" if totals.dispatches == 1 else "dispatches"
    return (
        f"{totals.dispatches:,} {noun}, {totals.instructions:,} wavefront instructions, "
        f"{duration_text(totals.kernel_ns)} of emulated kernel time, {wall_s:.1f} s wall-clock time"
    )


def duration_text(nanoseconds: int) -> str:
    """Return a duration with three significant digits."""
    for size, unit in _UNITS:
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds} ns"
