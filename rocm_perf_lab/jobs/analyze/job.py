"""`rocm-perf analyze`: analyse recordings of AMD's profilers, which are not modified."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import require_existing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocm_perf_lab.jobs.analyze.results import RecordingAnalysis

_PATHS = ("att", "counters", "roofline_csv", "output")
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class AnalyzeRequest:
    """Arguments and options of `rocm-perf analyze`."""

    paths: tuple[Path, ...]
    att: Path | None = None
    counters: Path | None = None
    target: str | None = None
    kernel: str | None = None
    focus_critical: bool = False
    roofline: bool = False
    roofline_csv: Path | None = None
    series: bool = False
    verbose: bool = False
    as_json: bool = False
    quiet: bool = False
    output: Path | None = None

    @classmethod
    def of(cls, paths: Sequence[Path], **options: object) -> Self:
        """Create a request from options of the command line, in which paths are strings.

        Raises:
            LabError: Two options exclude each other, or a pattern matches no file.
        """
        _exclude(options, ("as_json", "quiet"), ("as_json", "verbose"), ("quiet", "verbose"))
        if options.get("series"):
            for name in ("att", "counters", "target", "focus_critical", "roofline", "roofline_csv", "verbose"):
                _exclude(options, ("series", name))
        chosen = {name: Path(str(options.pop(name))) for name in _PATHS if options.get(name)}
        plain = {name: value for name, value in options.items() if name not in _PATHS}
        return cls(tuple(_expanded(paths)), **chosen, **plain)  # type: ignore[arg-type]

    @property
    def directory(self) -> Path:
        """Directory of the documents."""
        return self.output or Path("outputs") / f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}-analyze"


def run_analyze(request: AnalyzeRequest) -> None:
    """Analyse the recording, write the documents, and print one screen, all results as JSON, or the runtime.

    Raises:
        LabError: A file does not exist, or nothing can be analysed.
    """
    if request.series:
        _run_series(request)
        return
    for path in (*request.paths, request.att, request.counters, request.roofline_csv):
        if path is not None:
            require_existing(path, "the profile data")
    from rocm_perf_lab.jobs.analyze.results import analyze_recording

    console = Console(highlight=False, quiet=request.as_json or request.quiet)
    directory = request.directory
    with console.status("reading"):
        found = analyze_recording(request, directory)
    _answer(request, found, directory, console)


def _answer(request: AnalyzeRequest, found: RecordingAnalysis, directory: Path, console: Console) -> None:
    from rocm_perf_lab.jobs.analyze.document import REPORT
    from rocm_perf_lab.jobs.analyze.screen import show_recording
    from rocm_perf_lab.jobs.show import runtime_text
    from rocm_perf_lab.report.page import write_report

    write_report(directory, documents=directory, title=f"Analysis of {found.title}")
    if request.roofline:
        _plot(directory, found)
    show_recording(console, found, verbose=request.verbose)
    console.print(f"[bold]files[/]    {directory} (report.html, analysis.json, ...)", soft_wrap=True)
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
        write_roofline_plots(directory, gpu=found.gpu_name)


def _exclude(options: dict[str, object], *pairs: tuple[str, str]) -> None:
    for first, second in pairs:
        if options.get(first) and options.get(second):
            names = [f"--{'json' if name == 'as_json' else name.replace('_', '-')}" for name in (first, second)]
            raise LabError(f"{names[0]} and {names[1]} exclude each other", hint="use one of them")


def _expanded(paths: Sequence[Path]) -> Iterable[Path]:
    """Yield the paths, with patterns that a shell did not expand replaced by the files they match."""
    for path in paths:
        if path.exists() or not _WILDCARDS & set(str(path)):
            yield path
            continue
        matches = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        if not matches:
            raise LabError("no file matches this pattern", where=str(path), hint="check the pattern")
        yield from matches
