"""Profile of an application on an emulated GPU: one run under the emulated driver, analysed like a run under rocprofv3.

Instruction counters are exact, times are emulated. The application's output goes to a log, as under rocprofv3.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab import __version__
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.choice import KFD
from rocm_perf_lab.device.process_group import check_program, how_it_ended
from rocm_perf_lab.jobs.run_directory import ATT_DIRECTORY, ROCPD_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.profiling.selection import RankedKernel
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.runtime.application_database import ApplicationKernel, WrittenDatabases
    from rocm_perf_lab.runtime.recorder import DispatchRecorder

EMULATOR = "emulator"
_DEVICES = ("auto", "rocm", EMULATOR)
_SHOWN_LINES = 12
_TAIL_BYTES = 16 << 10


def chosen_device(device: str, root: str | None = None) -> str:
    """Return `rocm` or `emulator`.

    Args:
        device: One of those, or `auto`: the emulator if this machine has no GPU but AMD's runtime, or a directory tree with it.
        root: That directory tree.

    Raises:
        LabError: There is no such device.
    """
    if device not in _DEVICES:
        raise LabError(f"there is no device {device!r} for applications", where="device", hint=f"use {', '.join(_DEVICES)}")
    if device != "auto":
        return device
    if KFD.exists():
        return "rocm"
    from rocm_perf_lab.device.machine import Machine
    from rocm_perf_lab.runtime.installation import find_runtime

    return EMULATOR if root is not None or find_runtime(Machine()) is not None else "rocm"


@dataclass(frozen=True)
class EmulatedApplication:
    """Application to profile on an emulated GPU.

    Args:
        command: Program and arguments.
        timeout_s: Limit of the run in seconds.
        runs: Requested number of runs; one is enough, since equal work has equal times.
        gpus: Number of emulated GPUs.
        threads: Threads per dispatch; 0 for one per CPU that this process may use.
        root: Directory tree with ROCm that becomes the application's root directory.
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
        from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelSelector, analyze_traces
        from rocm_perf_lab.rocprof.reader import read_databases

        target, passes = lab.settings.target, lab.settings.passes
        recorder, written, log = self._run(lab)
        trace = read_databases(written.databases)
        kernel = KernelSelector(self.kernel, self.focus_critical, passes.helper_kernels).of(trace, target)
        att, problems = self._thread_trace(lab, recorder, kernel)
        return analyze_traces(
            (trace,),
            lab.output_dir,
            kernel=kernel,
            target=target,
            helper_patterns=passes.helper_kernels,
            note=f"emulated: {shlex.join(self.command)}",
            att=att,
            roofline_csv=passes.roofline_csv,
            dag_nodes=passes.dag_nodes,
            versions={"rocm-perf-lab": __version__},
            problems=(*problems, *written.notes, *self._remarks(), f"the output of the application is in {log}"),
            code_objects=recorder.code_objects,
        )

    def _remarks(self) -> tuple[str, ...]:
        return () if self.runs == 1 else (f"one run instead of {self.runs}: emulated times do not vary",)

    def _run(self, lab: Lab) -> tuple[DispatchRecorder, WrittenDatabases, Path]:
        """Run the application; return its records, its databases and the log."""
        from rocm_perf_lab.profiling.counter_passes import counters_for
        from rocm_perf_lab.profiling.selection import ProfileError
        from rocm_perf_lab.runtime.application import ApplicationRun, DriverOptions, check_root, run_application
        from rocm_perf_lab.runtime.emulated_gpus import emulated_gpus
        from rocm_perf_lab.runtime.recorder import DispatchRecorder

        target, passes = lab.settings.target, lab.settings.passes
        root = check_root(self.root) if self.root is not None else None
        if root is None:
            check_program(self.command)
        directory = lab.output_dir / ROCPD_DIRECTORY / "trace"
        log = lab.output_dir / ROCPD_DIRECTORY / "trace.log"
        directory.mkdir(parents=True)
        recorder = DispatchRecorder(
            target,
            self.gpus,
            directory,
            counters_for(target.architecture, passes.counters),
            shlex.join(self.command),
            directory / "details" if passes.thread_trace else None,
        )
        options = DriverOptions(self.threads or len(os.sched_getaffinity(0)))
        gpus = emulated_gpus(target, self.gpus)
        run = ApplicationRun(self.command, gpus, options, root, recorder=recorder, timeout_s=self.timeout_s)
        with _output_to(log):
            result = run_application(run)
        if result.timed_out:
            raise self._failure(f"took more than {self.timeout_s:g} s and was ended", log, "increase --timeout")
        if result.end.kind == "error":
            raise LabError(f"the application cannot be started: {os.strerror(result.end.number)}", where=self.command[0])
        if result.end.exit_code:
            raise self._failure(how_it_ended(result.end.exit_code), log, "run it with rocm-perf run first")
        if result.written is None or not result.written.dispatches:
            raise ProfileError(
                "the application dispatched no kernel on the emulated GPU",
                where=f"{shlex.join(self.command)}; its output is in {log}",
                hint="check that it finds ROCm and uses the GPU: rocm-perf run -- COMMAND",
            )
        return recorder, result.written, log

    def _failure(self, how: str, log: Path, hint: str) -> LabError:
        lines = [line for line in log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines() if line.strip()]
        shown = "\n".join(f"  {line}" for line in lines[-_SHOWN_LINES:])
        output = f":\n{shown}" if shown else " without any output"
        return LabError(f"the application {how}{output}", where=f"{shlex.join(self.command)}; its output is in {log}", hint=hint)

    def _thread_trace(
        self, lab: Lab, recorder: DispatchRecorder, kernel: RankedKernel
    ) -> tuple[AttTrace | str | None, tuple[str, ...]]:
        """Return the thread trace of the longest estimated dispatch of a kernel, or the reason if there is none."""
        from rocm_perf_lab.profiling.passes import NO_THREAD_TRACE

        if not lab.settings.passes.thread_trace:
            return NO_THREAD_TRACE, ()
        found = recorder.longest(kernel.mangled_name)
        if found is None:
            reason = "no dispatch of the kernel has an emulated time"
        elif not found[0].code:
            reason = "the kernel has no code object"
        else:
            return write_thread_trace(recorder, *found, lab.output_dir / ATT_DIRECTORY), ()
        return reason, (f"the thread trace failed: {reason}",)


def write_thread_trace(recorder: DispatchRecorder, kernel: ApplicationKernel, number: int, directory: Path) -> AttTrace:
    """Write the thread trace of an estimated dispatch, in the format of rocprofv3's decoder."""
    from rocm_perf_lab.device.emulated_thread_trace import emulated_trace, partial
    from rocm_perf_lab.rocprof.att.writer import write_trace
    from rocm_perf_lab.toolchain.elf import code_object_of
    from rocm_perf_lab.toolchain.elf_file import parse_elf

    waves, is_partial = recorder.thread_trace(kernel.timed, number)
    code_object = code_object_of(parse_elf(kernel.code), kernel.architecture)
    trace = emulated_trace(kernel.timed.program, waves, code_object, kernel.timed.metadata, device="emulator")
    trace = partial(trace) if is_partial else trace
    shutil.rmtree(directory, ignore_errors=True)
    write_trace(trace, directory)
    return trace


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Write the standard output and error of child processes to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        for number, descriptor in zip((1, 2), saved, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(file)
