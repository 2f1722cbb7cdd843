"""`rocm-perf run --profile`: profile an application without changing its output and exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.jobs.profile.emulated_analysis import EmulatedAnalysis
from rocm_perf_lab.jobs.profile.report import report_profile
from rocm_perf_lab.jobs.run.job import run_recorded
from rocm_perf_lab.jobs.run.summary import say
from rocm_perf_lab.jobs.run_directory import forget_results

if TYPE_CHECKING:
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.run.job import ApplicationRequest
    from rocm_perf_lab.runtime.selection import DispatchSelection


def profile_command(request: ApplicationRequest, lab: Lab, selection: DispatchSelection) -> int:
    """Run the application, write and print its profile, and return its exit code.

    Args:
        request: The application.
        lab: Run of `job=application`.
        selection: Dispatches to profile.

    Raises:
        LabError: The application cannot be started, this machine cannot emulate the GPU, or no selected kernel was dispatched.
    """
    forget_results(lab.output_dir, passes=True)
    pattern = None if selection.kernel is None else selection.kernel.pattern
    command = (*map(str, request.sources), *request.command)
    is_traced = lab.settings.passes.thread_trace
    analysis = EmulatedAnalysis(lab, command, request.gpus, pattern, selection=selection, traces_all=is_traced)
    recorder = analysis.recorder()
    ended = run_recorded(request, recorder)
    if ended.written is None or not ended.written.dispatches:
        say("no kernel was dispatched: there is no profile")
    else:
        report_profile(lab, command, analysis.of(recorder, ended.written))
    return ended.exit_code
