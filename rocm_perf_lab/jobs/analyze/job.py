"""`rocm-perf analyze`: analyse existing rocprofv3 output, which is not modified."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import require_existing
from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis, KernelSelector, analyze_traces, target_of_trace
from rocm_perf_lab.jobs.run_directory import forget_results
from rocm_perf_lab.jobs.show import runtime_text, show_profile
from rocm_perf_lab.profiling.passes import NO_THREAD_TRACE
from rocm_perf_lab.report.page import write_report
from rocm_perf_lab.report.roofline_plot import write_roofline_plots
from rocm_perf_lab.rocprof.runs import read_counter_passes, read_passes
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.observed import ObservedTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.trace import Trace

DEFAULT_TARGET = "mi300x"
_PATHS = ("att", "counters", "roofline_csv", "output")
_HELPERS = ("^__amd_rocclr_", "^hip", "^hsa_")


@dataclass(frozen=True)
class AnalyzeRequest:
    """Arguments and options of `rocm-perf analyze`."""

    databases: tuple[Path, ...]
    att: Path | None = None
    counters: Path | None = None
    target: str | None = None
    kernel: str | None = None
    focus_critical: bool = False
    roofline: bool = False
    roofline_csv: Path | None = None
    as_json: bool = False
    quiet: bool = False
    output: Path | None = None

    @classmethod
    def of(cls, databases: Sequence[Path], **options: object) -> Self:
        """Create a request from options of the command line, in which paths are strings.

        Raises:
            LabError: Two options exclude each other.
        """
        if options.get("as_json") and options.get("quiet"):
            raise LabError("--json and --quiet exclude each other", hint="use one of them")
        paths = {name: Path(str(options.pop(name))) for name in _PATHS if options.get(name)}
        plain = {name: value for name, value in options.items() if name not in _PATHS}
        return cls(tuple(databases), **paths, **plain)  # type: ignore[arg-type]


def run_analyze(request: AnalyzeRequest) -> None:
    """Analyse the files, write the documents, and print a table, the profile, or the runtime.

    Raises:
        LabError: A file does not exist, cannot be read, or contains no dispatch.
    """
    for path in (*request.databases, request.att, request.counters, request.roofline_csv):
        if path is not None:
            require_existing(path, "the profile data")
    console = Console(highlight=False, quiet=request.as_json or request.quiet)
    directory = request.output or Path("outputs") / f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}-analyze"
    forget_results(directory, passes=False)
    with console.status("reading"):
        found = _examine(request, directory)
    show_profile(console, found, found.time_kind, f"analysis of {', '.join(path.name for path in request.databases)}")
    if request.roofline:
        write_roofline_plots(directory, gpu=found.profile.target.product_name)
    page = write_report(directory, documents=directory, title=f"Analysis of {found.profile.kernel.name}")
    console.print(f"[bold]files[/]   {directory}", soft_wrap=True)
    console.print(f"[bold]report[/]  {page}", soft_wrap=True)
    if request.as_json:
        sys.stdout.write((directory / "profile.json").read_text(encoding="utf-8"))
    elif request.quiet:
        sys.stdout.write(f"{runtime_text(found.runtime_ns, found.time_kind)}\n")


def _examine(request: AnalyzeRequest, directory: Path) -> KernelAnalysis:
    trace, passes = read_passes(request.databases)
    counted: tuple[Trace, ...] = (*passes, *(read_counter_passes(request.counters) if request.counters else ()))
    if request.target:
        gpu = ObservedTarget(load_target(request.target))
    else:
        gpu = target_of_trace(trace, load_target(DEFAULT_TARGET), counted)
    target = gpu.target
    kernel = KernelSelector(request.kernel, request.focus_critical, _HELPERS).of(trace, target)
    return analyze_traces(
        [trace],
        directory,
        kernel=kernel,
        target=target,
        helper_patterns=_HELPERS,
        note=f"analysed from {', '.join(path.name for path in request.databases)}",
        counter_traces=counted,
        problems=gpu.notes,
        roofline_csv=request.roofline_csv,
        att=_thread_trace(request.att, kernel.mangled_name) if request.att else NO_THREAD_TRACE,
    )


def _thread_trace(directory: Path, symbol: str) -> AttTrace:
    from rocm_perf_lab.rocprof.att.directories import read_kernel_trace

    return read_kernel_trace(directory, symbol)
