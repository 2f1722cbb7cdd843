"""`job=application`: profile an application with rocprofv3 or on an emulated GPU, or measure its wall-clock time."""

from __future__ import annotations

import importlib
import json
import shlex
import statistics
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.device.choice import missing_for_gpu
from rocm_perf_lab.device.process_group import check_program, how_it_ended, run_in_group
from rocm_perf_lab.device.rocprofv3 import Rocprofv3
from rocm_perf_lab.device.standard_input import RepeatableInput
from rocm_perf_lab.jobs.profile.application_profiler import EMULATOR, ApplicationDevice
from rocm_perf_lab.jobs.profile.emulated_application import EmulatedApplication
from rocm_perf_lab.jobs.profile.report import answer_profile, record_profile, report_profile
from rocm_perf_lab.jobs.run_directory import ATT_DIRECTORY, ROCPD_DIRECTORY, forget_results
from rocm_perf_lab.profiling.application import ApplicationRuns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.trace import Trace

_ATT_OPTIONS = ("--att-target-cu", "1", "--att-shader-engine-mask", "0x1")
_SOURCES = (".hip", ".cu")
_NEEDED_LATER = (
    "rocm_perf_lab.rocprof.reader",
    "rocm_perf_lab.profiling.counter_passes",
    "yaml",
    "rocm_perf_lab.jobs.analyze.kernel_analysis",
    "rocm_perf_lab.jobs.show",
    "rocm_perf_lab.jobs.records",
    "rocm_perf_lab.report.page",
    "jinja2",
    "numpy.ma",
    "numpy.random",
)
"""Modules in order of use; the last ones are those that NumPy loads at first use."""


class ApplicationJob:
    """Profiles a command line that launches kernels.

    Args:
        command: Program and arguments, which are passed on unchanged, like the environment.
        runs: Timed runs.
        kernel: Regular expression of the kernel to analyse; None selects the one with the largest exposed time.
        focus_critical: Analyse the kernel that contributes most to the critical path.
        rocprof: False measures only the wall-clock time of the command.
        timeout_s: Time limit of one run in seconds.
        device: `rocm` profiles with rocprofv3, `emulator` on an emulated GPU; `auto` chooses the emulator if there is no GPU.
        gpus: Number of emulated GPUs.
        threads: Threads of the emulator; 0 for one per CPU that this process may use.
        root: ROCm directory tree for the emulator, which becomes the application's root directory.
    """

    def __init__(
        self,
        *,
        command: Sequence[str],
        runs: int = 1,
        kernel: str | None = None,
        focus_critical: bool = False,
        rocprof: bool = True,
        timeout_s: float = 3600.0,
        device: str = "auto",
        gpus: int = 1,
        threads: int = 0,
        root: str | None = None,
    ) -> None:
        if not command or runs < 1:
            raise LabError("no command to run", where="job.command, job.runs", hint="rocm-perf profile ./app [arguments]")
        self._command = tuple(map(str, command))
        self._runs = runs
        self._kernel = kernel
        self._focus_critical = focus_critical
        self._rocprof = rocprof
        self._timeout_s = timeout_s
        if device == EMULATOR and not rocprof:
            raise LabError(
                "on an emulated GPU, the wall-clock time of an application is not that on a GPU",
                where="--no-rocprof, device=emulator",
                hint="omit one of them",
            )
        if Path(self._command[0]).suffix in _SOURCES:
            hint = f"rocm-perf run --profile {self._command[0]} compiles and profiles it"
            raise LabError("a source file is not a program", where=self._command[0], hint=hint)
        tree = None if root is None else Path(root)
        self._is_emulated = ApplicationDevice(device, tree).is_emulated
        self._emulated = EmulatedApplication(self._command, timeout_s, runs, gpus, threads, tree, kernel, focus_critical)

    def run(self, lab: Lab) -> None:
        """Profile the command.

        Raises:
            LabError: The application or the profiler failed.
        """
        if not self._rocprof:
            self._time(lab)
            return
        if self._is_emulated:
            self._emulate(lab)
            return
        # Imports modules while the profiler runs in other processes, for a second or more.
        threading.Thread(target=_import_all, args=(_NEEDED_LATER,)).start()
        profiler = Rocprofv3.find()
        check_program(self._command)
        forget_results(lab.output_dir, passes=True)
        lab.console.print(f"[bold]device[/]  rocm: rocprofv3 {profiler.version} ({profiler.path})", soft_wrap=True)
        with lab.deferred_tracker(f"profile {shlex.join(self._command)[:60]}") as tracker:
            with lab.console.status("starting") as status, RepeatableInput() as read:
                directory = lab.output_dir / ROCPD_DIRECTORY
                runs = ApplicationRuns(profiler, self._command, directory, self._timeout_s, status.update, read.rewind)
                traces, problems = runs.times(self._runs)
                found = self._examine(lab, runs, traces, problems)
            record_profile(lab, self._command, found, tracker)
        answer_profile(lab, found, tracker)

    def _emulate(self, lab: Lab) -> None:
        """Profile the command on an emulated GPU."""
        forget_results(lab.output_dir, passes=True)
        gpu = lab.settings.target.product_name
        lab.console.print(f"[bold]device[/]  {EMULATOR}: {gpu}, {missing_for_gpu() or 'chosen by device=emulator'}")
        report_profile(lab, self._command, self._emulated.profile(lab))

    def _examine(self, lab: Lab, runs: ApplicationRuns, traces: Sequence[Trace], problems: Sequence[str]) -> KernelAnalysis:
        """Run the passes that depend on the first run, and analyse all of them."""
        from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelSelector, analyze_traces, target_of_trace
        from rocm_perf_lab.profiling.passes import NO_THREAD_TRACE

        passes = lab.settings.passes
        gpu = target_of_trace(traces[0], lab.settings.target)
        target = gpu.target
        kernel = KernelSelector(self._kernel, self._focus_critical, passes.helper_kernels).of(traces[0], target)
        counted, more = runs.counters(target.architecture, passes.counters, kernel.mangled_name)
        att: AttTrace | str | None = NO_THREAD_TRACE
        if passes.thread_trace:
            trace, reason = runs.thread_trace(kernel.mangled_name, _ATT_OPTIONS, lab.output_dir / ATT_DIRECTORY)
            att = trace or reason
            more = (*more, *([f"the thread trace failed: {reason}"] if reason else []))
        return analyze_traces(
            traces,
            lab.output_dir,
            kernel=kernel,
            target=target,
            helper_patterns=passes.helper_kernels,
            note=f"rocprofv3 {runs.profiler.version}: {shlex.join(self._command)}",
            counter_traces=counted,
            att=att,
            roofline_csv=passes.roofline_csv,
            dag_nodes=passes.dag_nodes,
            versions={"rocprofv3": runs.profiler.version},
            problems=(*dict.fromkeys(problems), *more, *gpu.notes),
        )

    def _time(self, lab: Lab) -> None:
        """Measure the wall-clock time of the command."""
        from rocm_perf_lab.analysis.describe import stability_part
        from rocm_perf_lab.jobs.show import runtime_text
        from rocm_perf_lab.statistics.stability import stability

        check_program(self._command)
        forget_results(lab.output_dir, passes=True)
        with RepeatableInput() as read:
            seconds = [self._seconds(read) for _ in range(self._runs)]
        times_ns = [round(one * 1e9) for one in seconds]
        spread = stability(times_ns, deterministic=False)
        document = {
            "schema_version": "1.0",
            "command": list(self._command),
            "time_kind": "measured",
            "runtime_ms": statistics.median(seconds) * 1e3,
            "stability": stability_part(spread, times_ns).model_dump(mode="json"),
            "wall_ms": {"runs": len(seconds), "median": statistics.median(seconds) * 1e3, "min": min(seconds) * 1e3},
            "note": "wall-clock time of the whole process; no kernel was profiled",
        }
        path = lab.output_dir / "wall_time.json"
        write_text(path, json.dumps(document, indent=2) + "\n")
        median_ns = statistics.median(seconds) * 1e9
        lab.console.print(
            f"[bold]wall[/]    {runtime_text(median_ns, 'measured')}, median of {len(seconds)}; no kernel was profiled"
        )
        for warning in spread.warnings:
            lab.console.print(f"[bold]note[/]    {warning}")
        lab.console.print(f"[bold]files[/]   {lab.output_dir}", soft_wrap=True)
        lab.answer(path, runtime_text(median_ns, "measured"))

    def _seconds(self, read: RepeatableInput) -> float:
        read.rewind()
        start = time.perf_counter()
        try:
            code = run_in_group(self._command, self._timeout_s)
        except OSError as error:
            raise LabError(f"the command cannot be run: {error.strerror}", where=shlex.join(self._command)) from error
        if code is None:
            raise LabError(
                f"the command took more than {self._timeout_s:g} s and was stopped",
                where=shlex.join(self._command),
                hint="raise --timeout",
            )
        if code != 0:
            raise LabError(f"the command {how_it_ended(code)}", where=shlex.join(self._command), hint="run it directly first")
        return time.perf_counter() - start


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)
