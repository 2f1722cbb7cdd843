"""Analysis of an application on an emulated GPU: the recorder of its dispatches, and the profile of the recording.

`rocm-perf profile` and `rocm-perf run --profile` share it. Instruction counters are exact, times are emulated.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab import __version__
from rocm_perf_lab.jobs.run_directory import ATT_DIRECTORY, ROCPD_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.profiling.selection import RankedKernel
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.runtime.application_database import ApplicationKernel, WrittenDatabases
    from rocm_perf_lab.runtime.recorder import DispatchRecorder
    from rocm_perf_lab.runtime.selection import DispatchSelection

_MOST_TRACES = 64


@dataclass(frozen=True)
class EmulatedAnalysis:
    """Profile of one run of an application.

    Args:
        lab: Context of the run.
        command: Program and arguments.
        gpus: Number of emulated GPUs.
        kernel: Regular expression of the kernel to analyse; None selects the one with the largest exposed time.
        focus_critical: Analyse the kernel that contributes most to the critical path.
        selection: Dispatches to profile; None: all.
        traces_all: Write thread traces of all estimated dispatches, not only of the longest one of the analysed kernel.
    """

    lab: Lab
    command: tuple[str, ...]
    gpus: int = 1
    kernel: str | None = None
    focus_critical: bool = False
    selection: DispatchSelection | None = None
    traces_all: bool = False

    def recorder(self) -> DispatchRecorder:
        """Return the recorder for the run; it writes to the run's directory."""
        from rocm_perf_lab.profiling.counter_passes import counters_for
        from rocm_perf_lab.runtime.recorder import DispatchRecorder

        target, passes = self.lab.settings.target, self.lab.settings.passes
        directory = self.lab.output_dir / ROCPD_DIRECTORY / "trace"
        directory.mkdir(parents=True)
        return DispatchRecorder(
            target,
            self.gpus,
            directory,
            counters_for(target.architecture, passes.counters),
            shlex.join(self.command),
            directory / "details" if passes.thread_trace else None,
            self.selection,
        )

    def of(self, recorder: DispatchRecorder, written: WrittenDatabases, notes: Sequence[str] = ()) -> KernelAnalysis:
        """Analyse one kernel of a run that has ended.

        Args:
            recorder: Recorder of the run.
            written: Databases written by the recorder.
            notes: Remarks on the validity of the numbers.

        Raises:
            LabError: No kernel was dispatched, or none matches.
        """
        from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelSelector, analyze_traces
        from rocm_perf_lab.rocprof.reader import read_databases

        target, passes = self.lab.settings.target, self.lab.settings.passes
        trace = read_databases(written.databases)
        pattern = self.kernel or self._selected_kernels(written)
        kernel = KernelSelector(pattern, self.focus_critical, passes.helper_kernels).of(trace, target)
        att, problems = self._thread_trace(recorder, written, kernel)
        return analyze_traces(
            (trace,),
            self.lab.output_dir,
            kernel=kernel,
            target=target,
            helper_patterns=passes.helper_kernels,
            note=f"emulated: {shlex.join(self.command)}",
            att=att,
            roofline_csv=passes.roofline_csv,
            dag_nodes=passes.dag_nodes,
            versions={"rocm-perf-lab": __version__},
            problems=(*problems, *written.notes, *notes),
            code_objects=recorder.code_objects,
        )

    def _selected_kernels(self, written: WrittenDatabases) -> str | None:
        """Return a regular expression of the kernels with selected dispatches; None if all dispatches are selected."""
        if not written.unselected or not written.selected_kernels:
            return None
        return f"^(?:{'|'.join(map(re.escape, written.selected_kernels))})$"

    def _thread_trace(
        self, recorder: DispatchRecorder, written: WrittenDatabases, kernel: RankedKernel
    ) -> tuple[AttTrace | str | None, tuple[str, ...]]:
        """Return the thread trace of the longest estimated dispatch of a kernel, or the reason if there is none, and notes."""
        from rocm_perf_lab.profiling.passes import NO_THREAD_TRACE

        if not self.lab.settings.passes.thread_trace:
            return NO_THREAD_TRACE, ()
        traces = _ThreadTraces(recorder, written, self.lab.output_dir / ATT_DIRECTORY)
        shutil.rmtree(traces.directory, ignore_errors=True)
        notes = traces.write_others(kernel.mangled_name) if self.traces_all else ()
        found = recorder.longest(kernel.mangled_name)
        if found is None:
            reason = "no dispatch of the kernel has an emulated time"
        elif not found[0].code:
            reason = "the kernel has no code object"
        else:
            return traces.write(*found), notes
        return reason, (f"the thread trace failed: {reason}", *notes)


@dataclass(frozen=True)
class _ThreadTraces:
    """Thread traces of estimated dispatches, in the format of rocprofv3's decoder."""

    recorder: DispatchRecorder
    written: WrittenDatabases
    directory: Path

    def write_others(self, symbol: str) -> tuple[str, ...]:
        """Write the traces of all estimates but the longest of a kernel; return notes."""
        longest = self.recorder.longest(symbol)
        others = [one for one in self.recorder.estimated() if one[0].code and one != longest]
        for kernel, number in others[:_MOST_TRACES]:
            self.write(kernel, number)
        count = min(len(others), _MOST_TRACES) + (longest is not None)
        limit = f"; the first {count} of {len(others) + 1} estimated dispatches" if len(others) > _MOST_TRACES else ""
        noun = "dispatch" if count == 1 else "dispatches"
        return (
            f"thread traces of {count} {noun}, the first of each kernel, geometry and amount of work: {self.directory}{limit}",
        )

    def write(self, kernel: ApplicationKernel, number: int) -> AttTrace:
        """Write the trace of one estimate."""
        from rocm_perf_lab.device.emulated_thread_trace import emulated_trace, partial
        from rocm_perf_lab.rocprof.att.writer import write_trace
        from rocm_perf_lab.toolchain.elf import code_object_of
        from rocm_perf_lab.toolchain.elf_file import parse_elf

        waves, is_partial = self.recorder.thread_trace(kernel.timed, number)
        code_object = code_object_of(parse_elf(kernel.code), kernel.architecture)
        trace = emulated_trace(kernel.timed.program, waves, code_object, kernel.timed.metadata, device="emulator")
        trace = partial(trace) if is_partial else trace
        place = self.written.estimated.get(number)
        if place is not None:
            source = replace(trace.provenance, agent=place.process + 1, dispatch=place.dispatch)
            trace = replace(trace, provenance=source)
        write_trace(trace, self.directory)
        return trace
