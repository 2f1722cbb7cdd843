"""Durations of an application's dispatches by the timing model: `estimated(message, kernel, target, counters)`.

The driver sends the first dispatch of a kernel and geometry with traces of some workgroups. These are selected before the launch,
since the memory of an application cannot be restored for a second run. Exact counts of all workgroups then determine which of
them each traced one represents.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.device.emulated_time import estimate_launch
from rocm_perf_lab.emulator.counters import launch_counters
from rocm_perf_lab.emulator.launching import LaunchResult
from rocm_perf_lab.emulator.memory import Allocation
from rocm_perf_lab.emulator.sampling import DEFAULT_SEED
from rocm_perf_lab.emulator.timing.strata import assign, strata_of
from rocm_perf_lab.runtime.dispatch_records import DetailedDispatch, DurationAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.timing.engine import TimingEstimate
    from rocm_perf_lab.emulator.timing.strata import WorkgroupSample
    from rocm_perf_lab.runtime.code_image import CodeImage
    from rocm_perf_lab.runtime.job_processes import JobProcesses
    from rocm_perf_lab.runtime.kernel_store import ServedKernel
    from rocm_perf_lab.runtime.selection import DispatchSelection
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

_BLOCK_TAG, _TAG_SHIFT, _NUMBER = np.uint64(1), np.uint64(56), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class TimedKernel:
    """Code of a kernel that an application launched."""

    program: Program
    metadata: KernelMetadata


@dataclass(frozen=True)
class EstimatedDispatch:
    """Estimate of one dispatch; `counters` are estimated counters of the hardware, by name."""

    kernel: int
    """Number of its kernel."""
    duration_ns: int
    fixed_ns: int
    """Part of the duration in ns that does not depend on the work."""
    instructions: int
    counters: Mapping[str, float]


@dataclass(frozen=True)
class DurationJob:
    """Estimate of the duration of a dispatch, for a process of the translation service.

    Args:
        image: Code of the kernel.
        target: The emulated GPU.
        counters: Names of estimated counters to return.
        message: See :class:`DetailedDispatch`.
        unsupported: Addresses of instructions without a translation, with the reasons.
    """

    image: CodeImage
    target: Target
    counters: tuple[str, ...]
    message: bytes
    unsupported: tuple[tuple[int, str], ...] = ()

    def run(self) -> EstimatedDispatch:
        """Return the estimate.

        Raises:
            LabError: The message or the code is damaged, or the host has too little memory.
        """
        from rocm_perf_lab.runtime.translation_jobs import decoded

        described, program = decoded(self.image, self.target.architecture, self.unsupported)
        return estimated(self.message, TimedKernel(program, described.kernel), self.target, self.counters)


class EmulatedClock:
    """Estimates of the dispatches of an application, by number; thread-safe.

    Args:
        target: The emulated GPU. Without a timing model all durations are 0.
        counters: Names of estimated counters to keep.
        details: Directory for the messages, from which :func:`read_detail` reads a dispatch again; None keeps none.
        selection: Kernels whose dispatches are estimated.
    """

    def __init__(
        self,
        target: Target,
        counters: Sequence[str] = (),
        details: Path | None = None,
        selection: DispatchSelection | None = None,
    ) -> None:
        self._target = target
        self._counters = tuple(counters)
        self._details = details
        self._selection = selection
        self._lock = threading.Lock()
        self._estimates: dict[int, EstimatedDispatch] = {}

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of estimated counters to keep."""
        return self._counters

    @property
    def estimates(self) -> Mapping[int, EstimatedDispatch]:
        """Estimates by number, from 1."""
        return self._estimates

    def __call__(self, kernel: ServedKernel, content: bytes, processes: JobProcesses) -> bytes:
        """Return the answer to the message about a dispatch (`struct rpl_duration`).

        Args:
            kernel: Kernel that the message names.
            content: See :class:`DetailedDispatch`.
            processes: Processes that estimate.

        Raises:
            LabError: The message or the code is damaged, or the host has too little memory.
        """

        if self._selection is not None and not self._selection.has_kernel(kernel.facts.name):
            return bytes(DurationAnswer())  # The driver then computes a rough duration.

        def estimate(message: bytes) -> EstimatedDispatch:
            unsupported = kernel.facts.unsupported
            return processes.run(DurationJob(kernel.image, self._target, self._counters, message, unsupported))

        return self.answer(content, estimate)

    def answer(self, message: bytes, estimate: Callable[[bytes], EstimatedDispatch]) -> bytes:
        """Return the answer to the message about a dispatch (`struct rpl_duration`).

        Args:
            message: See :class:`DetailedDispatch`.
            estimate: Estimates the dispatch; not called for a target without timing model.
        """
        if self._target.timing is None:
            return bytes(DurationAnswer())
        found = estimate(message)
        with self._lock:
            number = len(self._estimates) + 1
            self._estimates[number] = found
        if self._details is not None:
            (self._details / f"dispatch-{number}").write_bytes(message)
        return bytes(DurationAnswer(nanoseconds=found.duration_ns, fixed_ns=found.fixed_ns, record=number))


def estimated(message: bytes, kernel: TimedKernel, target: Target, counters: Sequence[str]) -> EstimatedDispatch:
    """Estimate the duration of a dispatch.

    Args:
        message: See :class:`DetailedDispatch`.
        kernel: Code of the kernel that it names.
        target: The emulated GPU.
        counters: Names of estimated counters to return.

    Raises:
        RecordError: The message is damaged.
        TimingUnavailable: The target has no timing model.
        EmulationError: The host has too little memory for the model.
    """
    timing = target.timing
    detail = DetailedDispatch.parse(message)
    estimate = estimate_dispatch(detail, kernel, target)
    fixed_ns = 0 if timing is None else round(timing.launch_overhead_ns + timing.dispatch_record_ns)
    longer = untraced_part(detail, kernel.program)
    return EstimatedDispatch(
        kernel=detail.kernel,
        duration_ns=fixed_ns + max(1, round((estimate.duration_ns - fixed_ns) * longer)),
        fixed_ns=fixed_ns,
        instructions=detail.instructions,
        counters={name: estimate.counters[name] * longer for name in counters if name in estimate.counters},
    )


def read_detail(directory: Path, record: int) -> DetailedDispatch:
    """Return the dispatch of an estimate from its stored message.

    Args:
        directory: `details` of the clock.
        record: Number of the estimate.
    """
    return DetailedDispatch.parse((directory / f"dispatch-{record}").read_bytes())


def estimate_dispatch(
    detail: DetailedDispatch, kernel: TimedKernel, target: Target, *, thread_trace: bool = False
) -> TimingEstimate:
    """Estimate a dispatch like launches of the emulated device, with warm caches and at the maximum clock.

    Raises:
        TimingUnavailable: The target has no timing model.
        EmulationError: The host has too little memory for the model.
    """
    return estimate_launch(
        target,
        kernel.metadata,
        launch_result(detail, kernel.program, target),
        block=detail.geometry.block,
        dynamic_lds_bytes=max(0, detail.lds_bytes - kernel.metadata.lds_bytes),
        buffers=[Allocation(address, nbytes, "") for address, nbytes in detail.ranges],
        thread_trace=thread_trace,
    )


def launch_result(detail: DetailedDispatch, program: Program, target: Target) -> LaunchResult:
    """Return a dispatch as the result of a launch of the emulated device."""
    sample, traces = _sampled(detail, target)
    return LaunchResult(
        program=program,
        counters=dispatch_counters(program, detail.block_executions, detail.block_active_lanes, detail.memory),
        memory=detail.memory,
        block_executions=detail.block_executions,
        block_active_lanes=detail.block_active_lanes,
        workgroup_counts=detail.workgroup_counts,
        sample=sample,
        sample_seed=DEFAULT_SEED,
        traces=traces,
        workgroups=detail.workgroups,
        waves=detail.memory["waves"],
        waves_per_workgroup=detail.waves_per_workgroup,
        lds_bytes=detail.lds_bytes,
        footprint=detail.footprint,
    )


def dispatch_counters(
    program: Program, executions: NDArray[np.uint64], active_lanes: NDArray[np.uint64], memory: Mapping[str, int]
) -> dict[str, int]:
    """Return the exact counters of a dispatch by name; see :func:`~rocm_perf_lab.emulator.counters.launch_counters`."""
    return launch_counters([block.counters for block in program.blocks], executions, active_lanes, memory, program.isa)


def untraced_part(detail: DetailedDispatch, program: Program) -> float:
    """Return the ratio of the traced workgroups' instructions to those in their traces: 1 unless traces are truncated."""
    if detail.has_whole_traces or not len(detail.workgroup_counts):
        return 1.0
    lengths = np.array([len(block.instructions) for block in program.blocks], np.float64)
    traced = sum(float(lengths[_blocks(words)].sum()) for group in detail.traces for words in group)
    executed = float(detail.workgroup_counts["instructions"][list(detail.traced)].sum())
    return max(1.0, executed / max(1.0, traced))


def _blocks(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    blocks: NDArray[np.uint64] = words[words >> _TAG_SHIFT == _BLOCK_TAG] & _NUMBER
    return blocks.astype(np.int64)


def _sampled(detail: DetailedDispatch, target: Target) -> tuple[WorkgroupSample | None, list[list[NDArray[np.uint64]]]]:
    """Return the assignment of all workgroups to the traced ones, and the traces in its order; None without counts."""
    if not len(detail.workgroup_counts):
        return None, detail.traces
    counts = detail.workgroup_counts
    strata = strata_of(counts, len(detail.traced))
    random = np.random.default_rng(DEFAULT_SEED)
    sample = assign(counts, strata, sorted(detail.traced), xcds=target.xcds, random=random)
    traces = dict(zip(detail.traced, detail.traces, strict=True))
    return sample, [traces[workgroup] for workgroup in sample.chosen]
