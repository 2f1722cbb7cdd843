"""Thread traces and PC samples of a recording: the kernels that they contain, and the evidence about one kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.att.code import read_code
from rocm_perf_lab.rocprof.att.directories import read_kernel_trace
from rocm_perf_lab.rocprof.pc_samples import SamplingMethod
from rocm_perf_lab.rocprof.pc_samples_code import saved_code_objects, with_code
from rocm_perf_lab.rocprof.pc_samples_loading import sampled_files
from rocm_perf_lab.rocprof.pc_samples_reader import read_pc_samples
from rocm_perf_lab.toolchain.demangle import base_name, demangle

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.code import Code
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.loading import LoadedRecording
    from rocm_perf_lab.rocprof.pc_samples import PcSampling


@dataclass(frozen=True)
class TracedCode:
    """Kernel in a decoded thread trace, with its cycles summed over the traced wavefronts."""

    directory: Path
    name: str
    mangled_name: str
    cycles: int


@dataclass(frozen=True)
class DetailedEvidence:
    """Thread traces and PC samples of a recording, read on demand."""

    recording: LoadedRecording
    refused: dict[Path, LabError] = field(default_factory=dict)
    """Files and directories that could not be read; files that were not requested yet are not included."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Reasons why files were not read."""
        return tuple(f"{path.name} is not used: {error.what}" for path, error in self.refused.items())

    @cached_property
    def traced(self) -> tuple[TracedCode, ...]:
        """Kernels with traced cycles, by descending cycles. Unreadable directories are omitted."""
        found: list[TracedCode] = []
        for directory in self.recording.thread_traces:
            try:
                found += _traced(directory, read_code(directory / "code.json"))
            except LabError as error:
                self.refused[directory] = error
        return tuple(sorted(found, key=lambda one: (-one.cycles, one.mangled_name)))

    @cached_property
    def sampling(self) -> PcSampling | None:
        """PC samples. Of several sets, stochastic ones are preferred, then the largest. Unreadable files are omitted."""
        sets: list[PcSampling] = []
        for path in sampled_files(self.recording.files):
            try:
                sets += read_pc_samples(path)
            except LabError as error:
                self.refused[path] = error
        if not sets:
            return None
        best = max(sets, key=lambda sampling: (sampling.method is SamplingMethod.STOCHASTIC, sampling.samples))
        return with_code(best, saved_code_objects(self.recording.code_objects)[0])

    @property
    def symbols(self) -> list[str]:
        """Mangled names of the kernels: traced ones by descending cycles, then sampled ones by descending samples."""
        sampled = [kernel.name for kernel in self.sampling.kernels] if self.sampling is not None else []
        return list(dict.fromkeys([*(one.mangled_name for one in self.traced), *sampled]))

    def matching(self, pattern: str) -> list[str]:
        """Return the symbols whose mangled or demangled name matches a regular expression.

        Raises:
            LabError: The pattern is invalid.
        """
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise LabError(f"invalid regular expression {pattern!r}: {error}", where="--kernel") from error
        return [name for name in self.symbols if wanted.search(name) or wanted.search(demangle(name))]

    def thread_trace(self, symbol: str) -> AttTrace | str | None:
        """Return the trace of a kernel, the reason why it is missing, or None if the recording has no thread traces."""
        directories = [one.directory for one in self.traced if is_called(one, symbol)] or list(self.recording.thread_traces)
        if not directories:
            return None
        try:
            return read_kernel_trace(list(dict.fromkeys(directories)), symbol, code_objects=self.recording.code_objects)
        except LabError as error:
            return error.what


def is_called(traced: TracedCode, symbol: str) -> bool:
    """Return whether a traced kernel has a name, which is mangled, or from a CSV file, where parameters may be missing."""
    if traced.mangled_name.removesuffix(".kd") == symbol.removesuffix(".kd"):
        return True
    return base_name(demangle(symbol.removesuffix(".kd"))) == base_name(traced.name) and not symbol.startswith("_Z")


def _traced(directory: Path, code: Code) -> list[TracedCode]:
    cycles = {label.line: 0 for label in code.kernels}
    starts = sorted(cycles)
    for row in code.rows:
        own = [line for line in starts if line <= row.line]
        if own:
            cycles[own[-1]] += row.cycles
    return [
        TracedCode(directory, label.name or demangle(label.mangled_name), label.mangled_name, cycles[label.line])
        for label in code.kernels
        if cycles[label.line]
    ]
