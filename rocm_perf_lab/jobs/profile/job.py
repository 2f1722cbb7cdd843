"""`job=profile`: profile a described kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import NegativeResult
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.jobs.profile.workbench import ProfiledKernel, Workbench
from rocm_perf_lab.jobs.records import profile_metrics, profile_params, provenance_tags
from rocm_perf_lab.jobs.run_directory import forget_results
from rocm_perf_lab.jobs.show import runtime_text, show_locations, show_printed, show_profile
from rocm_perf_lab.report.page import write_report
from rocm_perf_lab.report.roofline_plot import write_roofline_plots
from rocm_perf_lab.report.run_view import SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.device.protocol import Finding
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.tracking.run import RunTracker

_NS_PER_MS = 1e6
_SHOWN_LINES = 20


class ProfileJob:
    """Compiles, runs, checks and analyses the configured kernel."""

    def run(self, lab: Lab) -> float:
        """Profile the kernel; return its runtime in ms.

        Raises:
            NegativeResult: The output differs from the reference, or a check found a defect.
            LabError: The kernel cannot be compiled or run.
        """
        time_kind = lab.device.identity.time_word
        lab.announce_device()
        forget_results(lab.output_dir, passes=True)
        with lab.tracker as tracker:
            bench = Workbench(lab.config, lab.device)
            with lab.console.status("compiling"):
                compiled = bench.compile(lab.config.kernel.source_path)
            with lab.console.status(f"running on {lab.device.identity.name}"):
                profiled = bench.run(compiled, lab.output_dir)
            keep_source(lab)
            log_profile(tracker, lab, profiled)
            show_profile(lab.console, profiled, time_kind, f"profile of {lab.config.kernel.name} on {lab.config.target.name}")
            show_printed(lab.console, profiled.printed, shown=_SHOWN_LINES)
            require_correct(profiled, lab)
            require_clean(profiled.findings, lab.config.kernel.name)
            if lab.config.passes.plots:
                for path in write_roofline_plots(lab.output_dir, gpu=lab.config.target.product_name):
                    tracker.log_artifact(path)
            tracker.log_artifact(
                write_report(lab.output_dir, documents=lab.output_dir, title=f"Profile of {lab.config.kernel.name}")
            )
        show_locations(lab, lab.tracker)
        lab.answer(lab.output_dir / "profile.json", runtime_text(profiled.runtime_ns, time_kind))
        return profiled.runtime_ns / _NS_PER_MS


def keep_source(lab: Lab) -> None:
    """Copy the kernel's source to the run's directory, for comparisons after the original changes."""
    source = lab.config.kernel.source_path
    write_bytes(lab.output_dir / SNAPSHOT / source.name, source.read_bytes())


def require_correct(profiled: ProfiledKernel, lab: Lab) -> None:
    """Check the result of the verification.

    Raises:
        NegativeResult: The output is wrong; the message names the worst element.
    """
    if profiled.verification is not None and not profiled.verification.passed:
        raise NegativeResult(
            f"the output of kernel {lab.config.kernel.name} differs from its reference: {profiled.verification}",
            where=str(lab.config.kernel.source_path),
            hint="correct the kernel, its reference, or its tolerance",
        )


def require_clean(findings: Sequence[Finding], kernel: str) -> None:
    """Check that the selected checks of the emulator found no defect.

    Raises:
        NegativeResult: The checks found a defect; checks.json lists all findings.
    """
    if findings:
        count = len(findings)
        raise NegativeResult(
            f"the checks found {count} defect{'s' if count > 1 else ''} in kernel {kernel}",
            where="\n".join(finding.message for finding in findings),
            hint="correct the kernel, or choose other checks with device.check",
        )


def log_profile(tracker: RunTracker, lab: Lab, profiled: ProfiledKernel) -> None:
    """Log parameters, metrics, tags and files of a profile."""
    identity = lab.device.identity
    tracker.set_tags({"job": lab.job_name, "kernel": lab.config.kernel.name, **provenance_tags(identity, profiled)})
    tracker.log_params(profile_params(lab.config, profiled))
    tracker.log_metrics(profile_metrics(profiled))
    config = lab.output_dir / "config.json"
    for path in (*profiled.artifacts, config, lab.config.kernel.source_path):
        tracker.log_artifact(path)
