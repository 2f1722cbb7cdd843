"""Output of an application's profile: printed, plotted and logged."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.tracking.run import RunTracker


def report_profile(lab: Lab, command: tuple[str, ...], found: KernelAnalysis) -> None:
    """Print and log a finished profile.

    Args:
        lab: Context of the run.
        command: Program and arguments.
        found: Analysis of their run.
    """
    with lab.deferred_tracker(f"profile {shlex.join(command)[:60]}") as tracker:
        record_profile(lab, command, found, tracker)
    answer_profile(lab, found, tracker)


def record_profile(lab: Lab, command: tuple[str, ...], found: KernelAnalysis, tracker: RunTracker) -> None:
    """Print, plot and log the analysis."""
    from rocm_perf_lab.jobs.analyze.overview_screen import show_overview
    from rocm_perf_lab.jobs.records import analysis_params, profile_metrics
    from rocm_perf_lab.jobs.show import show_profile
    from rocm_perf_lab.report.page import write_report

    show_overview(lab.console, found)
    show_profile(lab.console, found, found.time_kind, f"profile of {shlex.join(command)[:60]}")
    page = write_report(lab.output_dir, documents=lab.output_dir, title=f"Profile of {found.profile.kernel.name}")
    tracker.set_tags({"job": lab.job_name, "command": shlex.join(command), "time_kind": found.time_kind})
    tracker.log_params(analysis_params(found))
    tracker.log_metrics(profile_metrics(found))
    plots = _plots(lab, found) if lab.settings.passes.plots else ()
    for path in (*found.artifacts, page, *plots):
        tracker.log_artifact(path)


def answer_profile(lab: Lab, found: KernelAnalysis, tracker: RunTracker) -> None:
    """Print the location of the results, and the document, if requested."""
    from rocm_perf_lab.jobs.show import runtime_text, show_locations

    show_locations(lab, tracker)
    lab.answer(lab.output_dir / "profile.json", runtime_text(found.runtime_ns, found.time_kind))


def _plots(lab: Lab, found: KernelAnalysis) -> tuple[Path, ...]:
    from rocm_perf_lab.report.roofline_plot import write_roofline_plots

    return write_roofline_plots(lab.output_dir, gpu=found.profile.target.product_name)
