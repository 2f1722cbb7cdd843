"""Profiler of applications on an emulated GPU: `EmulatedProfiler(target).passes(command, directory, ...)`.

One run under the emulated driver yields times and counters. Instruction counters are exact, times are emulated. The
application's output goes to a log, as under rocprofv3.
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
from rocm_perf_lab.core.own_command import PROGRAM, own_command
from rocm_perf_lab.device.process_group import how_it_ended
from rocm_perf_lab.jobs.run.launch import prepare_launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.jobs.run.launch import RuntimeName
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.runtime.application_database import WrittenDatabases
    from rocm_perf_lab.runtime.recorder import DispatchRecorder
    from rocm_perf_lab.target.model import Target

_SHOWN_LINES = 12
_TAIL_BYTES = 16 << 10


@dataclass(frozen=True)
class EmulatedProfiler:
    """Profiles applications on an emulated GPU; implements :class:`~rocm_perf_lab.profiling.application.ApplicationProfiler`.

    Args:
        target: GPU to emulate.
        counters: Counters to record, in the format of the group `passes`.
        gpus: Number of GPUs.
        threads: Threads per dispatch; 0 for one per CPU that this process may use.
        root: ROCm directory tree that becomes the application's root directory.
        runtime: HIP runtime of the application.
        reason: Reason for the choice of this device.
    """

    target: Target
    counters: tuple[str, ...] = ()
    gpus: int = 1
    threads: int = 0
    root: Path | None = None
    runtime: RuntimeName = "auto"
    reason: str = "chosen by device=emulator"

    @property
    def device(self) -> str:
        """See :class:`~rocm_perf_lab.profiling.application.ApplicationProfiler`."""
        return f"emulator: {self.target.product_name}, {self.reason}"

    @property
    def name(self) -> str:
        """See :class:`~rocm_perf_lab.profiling.application.ApplicationProfiler`."""
        return "emulated"

    @property
    def how(self) -> str:
        """See :class:`~rocm_perf_lab.profiling.application.ApplicationProfiler`."""
        return f"emulated on {self.target.product_name}"

    @property
    def versions(self) -> Mapping[str, str]:
        """See :class:`~rocm_perf_lab.profiling.application.ApplicationProfiler`."""
        return {"rocm-perf-lab": __version__}

    def passes(
        self, command: Sequence[str], directory: Path, timeout_s: float, tell: Callable[[str], None]
    ) -> EmulatedApplicationPasses:
        """See :class:`~rocm_perf_lab.profiling.application.ApplicationProfiler`."""
        return EmulatedApplicationPasses(self, tuple(command), directory, timeout_s, tell)

    def plain(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command on the emulated GPU."""
        root = [] if self.root is None else ["--root", str(self.root)]
        machine = ["--target", self.target.name, "--gpus", str(self.gpus), "--runtime", self.runtime]
        return own_command("run", *machine, *root, "--", *command)

    def building(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a build command, in the root directory, if set."""
        if command[0] == PROGRAM:
            return own_command(*command[1:])
        return list(command) if self.root is None else self.plain(command)

    def run(
        self, command: tuple[str, ...], recorder: DispatchRecorder, log: Path, timeout_s: float
    ) -> tuple[WrittenDatabases, tuple[str, ...]]:
        """Run an application once, and record its dispatches.

        Args:
            command: Program and arguments.
            recorder: Recorder that writes the databases.
            log: File for the application's output.
            timeout_s: Limit of the run in seconds.

        Returns:
            The databases, and remarks.

        Raises:
            LabError: The application failed, dispatched no kernel, or cannot run on the emulated GPU.
        """
        from rocm_perf_lab.profiling.selection import ProfileError
        from rocm_perf_lab.runtime.application import ApplicationRun, DriverOptions, run_application
        from rocm_perf_lab.runtime.emulated_gpus import emulated_gpus

        launch = prepare_launch(command, self.target, self.runtime, self.root)
        run = ApplicationRun(
            launch.command,
            emulated_gpus(self.target, self.gpus),
            DriverOptions(self.threads or len(os.sched_getaffinity(0))),
            launch.root,
            recorder=recorder,
            timeout_s=timeout_s,
            variables=launch.variables,
        )
        with _output_to(log):
            result = run_application(run)
        if result.timed_out:
            raise _failure(f"took more than {timeout_s:g} s and was stopped", command, log, "increase --timeout")
        if result.end.kind == "error":
            raise LabError(f"the application cannot be started: {os.strerror(result.end.number)}", where=command[0])
        if result.end.exit_code:
            raise _failure(how_it_ended(result.end.exit_code), command, log, "run it with rocm-perf run first")
        if result.written is None or not result.written.dispatches:
            raise ProfileError(
                "the application dispatched no kernel on the emulated GPU",
                where=f"{shlex.join(command)}; its output is in {log}",
                hint="check that it uses the GPU: rocm-perf run -- COMMAND",
            )
        return result.written, launch.notes


@dataclass(frozen=True)
class EmulatedApplicationPasses:
    """Passes of one command; implements :class:`~rocm_perf_lab.profiling.application.ApplicationPasses`."""

    profiler: EmulatedProfiler
    command: tuple[str, ...]
    directory: Path
    timeout_s: float
    tell: Callable[[str], None]

    def times(self, runs: int) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        """Return the trace of one run with its counters, for any number of runs: emulated times do not vary.

        Raises:
            LabError: The application failed, dispatched no kernel, or cannot run on the emulated GPU.
        """
        from rocm_perf_lab.profiling.counter_passes import counters_for
        from rocm_perf_lab.rocprof.reader import read_databases
        from rocm_perf_lab.runtime.recorder import DispatchRecorder

        self.tell("emulating the application")
        target = self.profiler.target
        directory = self.directory / "trace"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        counters = counters_for(target.architecture, self.profiler.counters)
        recorder = DispatchRecorder(target, self.profiler.gpus, directory, counters, shlex.join(self.command))
        log = self.directory / "trace.log"
        written, notes = self.profiler.run(self.command, recorder, log, self.timeout_s)
        return (read_databases(written.databases),), (*notes, *written.notes)

    def counters(self, architecture: str, counters: Sequence[str], kernel: str) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        """Return no traces: the trace of :meth:`times` contains the counters."""
        return (), ()


def _failure(how: str, command: tuple[str, ...], log: Path, hint: str) -> LabError:
    lines = [line for line in log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines() if line.strip()]
    shown = "\n".join(f"  {line}" for line in lines[-_SHOWN_LINES:])
    output = f":\n{shown}" if shown else " without any output"
    return LabError(f"the application {how}{output}", where=f"{shlex.join(command)}; its output is in {log}", hint=hint)


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
