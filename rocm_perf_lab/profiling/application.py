"""Profiling passes of an application, that is, of any command line that launches kernels.

First the timing runs, then as many runs as the counters need (or one with kernel replay, if rocprofv3 supports it), then one
for a thread trace. Every run has its own directory, so results never come from an older database. Only the timing runs
must succeed.
"""

from __future__ import annotations

import re
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.device.rocprofv3 import ProfiledRun, Rocprofv3
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.trace import Trace

    _Counted = tuple[Trace, tuple[str, ...]]

TIMES = ("--kernel-trace", "--memory-copy-trace")


class ApplicationPasses(Protocol):
    """Profiling passes of one command."""

    def times(self, runs: int) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        """Return traces, and remarks.

        Raises:
            LabError: A run failed, or dispatched no kernel.
        """
        ...

    def counters(self, architecture: str, counters: Sequence[str], kernel: str) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        """Return traces with counters of one kernel (mangled name) that :meth:`times` did not collect, and problems."""
        ...


class ApplicationProfiler(Protocol):
    """Profiles applications on the GPU of this machine, or on an emulated one."""

    @property
    def device(self) -> str:
        """The device and the reason for it, for the first line of a run."""
        ...

    @property
    def name(self) -> str:
        """Name and version of the profiler, for the provenance."""
        ...

    @property
    def how(self) -> str:
        """Origin of its times, for the end of a sentence: `under rocprofv3 1.1.0`."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the tools, for the provenance."""
        ...

    def passes(self, command: Sequence[str], directory: Path, timeout_s: float, tell: Callable[[str], None]) -> ApplicationPasses:
        """Return the passes of a command, which write to `directory` and call `tell` with progress messages."""
        ...

    def plain(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command on the device without profiling it."""
        ...

    def building(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a build command for the device."""
        ...


@dataclass(frozen=True)
class GpuProfiler:
    """Profiles applications under rocprofv3; implements :class:`ApplicationProfiler`."""

    profiler: Rocprofv3

    @property
    def device(self) -> str:
        """See :class:`ApplicationProfiler`."""
        return f"rocm: {self.name} ({self.profiler.path})"

    @property
    def name(self) -> str:
        """See :class:`ApplicationProfiler`."""
        return f"rocprofv3 {self.profiler.version}"

    @property
    def how(self) -> str:
        """See :class:`ApplicationProfiler`."""
        return f"under {self.name}"

    @property
    def versions(self) -> Mapping[str, str]:
        """See :class:`ApplicationProfiler`."""
        return {"rocprofv3": self.profiler.version}

    def passes(self, command: Sequence[str], directory: Path, timeout_s: float, tell: Callable[[str], None]) -> ApplicationRuns:
        """See :class:`ApplicationProfiler`."""
        return ApplicationRuns(self.profiler, tuple(command), directory, timeout_s, tell)

    def plain(self, command: Sequence[str]) -> list[str]:
        """Return the command."""
        return list(command)

    def building(self, command: Sequence[str]) -> list[str]:
        """Return the command."""
        return list(command)


@dataclass(frozen=True)
class ApplicationRuns:
    """Runs one command repeatedly under rocprofv3.

    `directory` receives one directory per run; `tell` is called with progress messages.
    """

    profiler: Rocprofv3
    command: tuple[str, ...]
    directory: Path
    timeout_s: float
    tell: Callable[[str], None]
    prepare: Callable[[], None] | None = None
    """Called before each run."""

    def times(self, runs: int) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        """Return `runs` traces, and the warnings of the profiler.

        Raises:
            LabError: A run failed, or dispatched no kernel.
        """
        from rocm_perf_lab.profiling.selection import ProfileError
        from rocm_perf_lab.rocprof.reader import read_databases

        traces: list[Trace] = []
        warnings: list[str] = []
        for number in range(1, runs + 1):
            self.tell(f"run {number} of {runs}: times")
            run = self._run(TIMES, f"trace_{number}" if runs > 1 else "trace")
            if not run.databases:
                raise ProfileError(
                    "the application dispatched no kernel: rocprofv3 wrote no database",
                    where=str(self.directory),
                    hint="check that it uses the GPU; if it forks, profile the child process",
                )
            traces.append(read_databases(run.databases))
            warnings.extend(run.warnings)
        return tuple(traces), tuple(warnings)

    def counters(self, architecture: str, counters: Sequence[str], kernel: str) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        """Return traces with counters of one kernel (mangled name), and descriptions of failures."""
        from rocm_perf_lab.profiling.counter_passes import UnknownSlotsError, plan_passes

        try:
            groups = plan_passes(architecture, counters)
        except UnknownSlotsError as error:
            return (), (f"no counters were collected: {error.what}",)
        if groups and self.profiler.has_kernel_replay:
            traces, problems = self._replayed(groups, kernel)
            if traces:
                return traces, problems
        else:
            problems = ()
        traces_, more = self._rerun(groups, kernel)
        return traces_, (*problems, *more)

    def thread_trace(self, kernel: str, options: Sequence[str], att: Path) -> tuple[AttTrace | None, str | None]:
        """Return the decoded thread trace of one kernel, moved to `att`, or the reason if there is none."""
        from rocm_perf_lab.rocprof.att.directories import read_kernel_trace

        self.tell("thread trace")
        try:
            self._run(("--att", *options, *_only(kernel)), "att")
            shutil.rmtree(att, ignore_errors=True)
            att.mkdir(parents=True)
            for path in sorted((self.directory / "att").rglob("*ui_output_agent_*")):
                if path.exists():
                    shutil.move(path, att / path.name)
            return read_kernel_trace(att, kernel), None
        except LabError as error:
            return None, error.what

    def _replayed(self, groups: Sequence[Sequence[str]], kernel: str) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        from rocm_perf_lab.rocprof.json_reader import read_results

        self.tell(f"{len(groups)} counter passes by kernel replay")
        options = ["--replay-mode", "kernel", "--kernel-replay-beta-enabled", *_only(kernel)]
        for group in groups:
            options += ["--pmc", *group]
        try:
            # A database (ROCm 10.0) does not state the pass of a value: counters of several passes would be summed.
            run = self._run(options, "counters_replay", formats=("json",))
            traces = tuple(trace for document in run.documents for trace in read_results(document))
            if not traces:
                return (), ("kernel replay produced no counters; the application runs once per pass instead",)
            return traces, (*_missing(groups, traces), *run.warnings)
        except LabError as error:
            return (), (f"kernel replay failed; the application runs once per pass instead: {error.what}",)

    def _rerun(self, groups: Sequence[Sequence[str]], kernel: str) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
        """Run once per group; the output of one run is read while the next one executes."""
        runs: list[Future[_Counted]] = []
        with ThreadPoolExecutor(1) as beside:
            for number, group in enumerate(groups, start=1):
                self.tell(f"counter pass {number} of {len(groups)}")
                try:
                    run = self._run(("--pmc", *group, *_only(kernel)), f"counters_{number}")
                    runs.append(beside.submit(_read_counted, run))
                except LabError as error:
                    runs.append(Future())
                    runs[-1].set_exception(error)
        traces: list[Trace] = []
        answered: list[Sequence[str]] = []
        problems: list[str] = []
        for number, (group, counted) in enumerate(zip(groups, runs, strict=True), start=1):
            try:
                trace, warnings = counted.result()
                traces.append(trace)
                answered.append(group)
                problems.extend(warnings)
            except LabError as error:
                problems.append(f"counter pass {number} ({', '.join(group)}) failed: {error.what}")
        return tuple(traces), tuple(dict.fromkeys((*problems, *_missing(answered, traces))))

    def _run(self, options: Sequence[str], name: str, formats: Sequence[str] = ("rocpd",)) -> ProfiledRun:
        directory = self.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        log = self.directory / f"{name}.log"
        if self.prepare is not None:
            self.prepare()
        return self.profiler.run(options, self.command, directory, timeout_s=self.timeout_s, log=log, formats=formats)


def _read_counted(run: ProfiledRun) -> _Counted:
    """Return the trace of one run with counters, and the profiler's warnings."""
    from rocm_perf_lab.rocprof.reader import read_databases

    return read_databases(run.databases), run.warnings


def _only(kernel: str) -> tuple[str, ...]:
    """Return options that restrict counters and thread traces to one kernel. rocprofv3 searches, so the name is anchored."""
    return ("-M", "--kernel-include-regex", f"^{re.escape(kernel.removesuffix('.kd'))}$")


def _missing(groups: Sequence[Sequence[str]], traces: Sequence[Trace]) -> tuple[str, ...]:
    collected = {name for trace in traces for counters in trace.passes for name in counters}
    wanted = dict.fromkeys(name for group in groups for name in group)
    missing = [name for name in wanted if name not in collected]
    if len(missing) == len(wanted) > 1:
        return (f"rocprofv3 collected none of the {len(wanted)} requested counters",)
    return (f"rocprofv3 did not collect {', '.join(missing)}",) if missing else ()
