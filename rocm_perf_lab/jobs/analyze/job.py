"""`rocm-perf analyze`: analyse recordings of AMD's profilers, which are not modified."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

from rocm_perf_lab.core.files import require_existing

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest
    from rocm_perf_lab.jobs.analyze.results import RecordingAnalysis


def run_analyze(request: AnalyzeRequest) -> None:
    """Analyse the recording, write the documents, and print one screen, all results as JSON, or the runtime.

    Raises:
        LabError: A file does not exist, or no recording can be read.
    """
    if request.series:
        _run_series(request)
        return
    console = Console(highlight=False, quiet=request.as_json or request.quiet)
    directory = request.directory
    with console.status("reading"):
        found = analyze_files(request, directory)
    _answer(request, found, directory, console)


def analyze_files(request: AnalyzeRequest, directory: Path) -> RecordingAnalysis:
    """Analyse the recording, and write the documents and the HTML report to `directory`, without output.

    Raises:
        LabError: A file does not exist, or no recording can be read.
    """
    for path in (*request.paths, request.att, request.counters, request.roofline_csv):
        if path is not None:
            require_existing(path, "the profile data")
    from rocm_perf_lab.jobs.analyze.results import analyze_recording
    from rocm_perf_lab.report.page import write_report

    found = analyze_recording(request, directory)
    write_report(directory, documents=directory, title=f"Analysis of {found.title}", att=request.att)
    return found


def _answer(request: AnalyzeRequest, found: RecordingAnalysis, directory: Path, console: Console) -> None:
    from rocm_perf_lab.jobs.analyze.document import REPORT
    from rocm_perf_lab.jobs.analyze.screen import files_line, show_recording
    from rocm_perf_lab.jobs.show import runtime_text

    if request.roofline:
        _plot(directory, found)
    show_recording(console, found, verbose=request.verbose)
    console.print(files_line(directory), soft_wrap=True)
    if request.as_json:
        sys.stdout.write((directory / REPORT).read_text(encoding="utf-8"))
    elif request.quiet:
        sys.stdout.write(f"{runtime_text(found.runtime_ns, found.time_kind)}\n")


def _run_series(request: AnalyzeRequest) -> None:
    from rocm_perf_lab.jobs.analyze.series import SeriesRequest, run_series

    run_series(
        SeriesRequest(
            paths=request.paths, kernel=request.kernel, output=request.output, as_json=request.as_json, quiet=request.quiet
        )
    )


def _plot(directory: Path, found: RecordingAnalysis) -> None:
    from rocm_perf_lab.report.roofline_plot import write_roofline_plots

    if (directory / "roofline.json").exists():
        write_roofline_plots(directory, gpu=found.gpu_name or "")
