"""Profile of an application on an emulated GPU: one run under the emulated driver, analysed like a run under rocprofv3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.jobs.profile.emulated_analysis import EmulatedAnalysis
from rocm_perf_lab.jobs.profile.emulated_profiler import EmulatedProfiler
from rocm_perf_lab.jobs.run_directory import ROCPD_DIRECTORY

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.lab import Lab


@dataclass(frozen=True)
class EmulatedApplication:
    """Application to profile on an emulated GPU.

    Args:
        command: Program and arguments.
        timeout_s: Limit of the run in seconds.
        runs: Requested number of runs; only one is executed, because emulated times do not vary.
        gpus: Number of emulated GPUs.
        threads: Threads per dispatch; 0 for one per CPU that this process may use.
        root: ROCm directory tree that becomes the application's root directory.
        kernel: Regular expression of the kernel to analyse; None selects the one with the largest exposed time.
        focus_critical: Analyse the kernel that contributes most to the critical path.
    """

    command: tuple[str, ...]
    timeout_s: float
    runs: int = 1
    gpus: int = 1
    threads: int = 0
    root: Path | None = None
    kernel: str | None = None
    focus_critical: bool = False

    def profile(self, lab: Lab) -> KernelAnalysis:
        """Run the application once and analyse one of its kernels.

        Raises:
            LabError: The application failed, dispatched no kernel, or cannot run on the emulated GPU.
        """
        analysis = EmulatedAnalysis(lab, self.command, self.gpus, self.kernel, self.focus_critical)
        profiler = EmulatedProfiler(lab.settings.target, gpus=self.gpus, threads=self.threads, root=self.root)
        recorder = analysis.recorder()
        log = lab.output_dir / ROCPD_DIRECTORY / "trace.log"
        written, notes = profiler.run(self.command, recorder, log, self.timeout_s)
        return analysis.of(recorder, written, (*self._remarks(), *notes, f"the output of the application is in {log}"))

    def _remarks(self) -> tuple[str, ...]:
        return () if self.runs == 1 else (f"one run instead of {self.runs}: emulated times do not vary",)
