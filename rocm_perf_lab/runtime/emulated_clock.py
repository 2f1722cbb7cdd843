"""Durations of an application's dispatches by the timing model: `EmulatedClock.duration(message, kernel)`.

The driver sends the first dispatch of a kernel and geometry with traces of some workgroups. They are chosen before the launch,
since the memory of an application cannot be rewound for a second run; exact counts of all workgroups then tell which of them each
traced one stands for.
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
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.timing.engine import TimingEstimate
    from rocm_perf_lab.emulator.timing.strata import WorkgroupSample
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

    record: int
    kernel: int
    duration_ns: int
    fixed_ns: int
    instructions: int
    counters: Mapping[str, float]


class EmulatedClock:
    """Estimates durations on one GPU, and keeps the estimates for the database. Threads may share it.

    Args:
        target: The emulated GPU. Without a timing model all durations are 0.
        counters: Names of estimated counters to keep.
        details: Directory for the messages, from which :func:`read_detail` reads a dispatch again; None keeps none.
    """

    def __init__(self, target: Target, counters: Collection[str] = (), details: Path | None = None) -> None:
        self._target = target
        self._counters = frozenset(counters)
        self._details = details
        self._lock = threading.Lock()
        self._estimates: dict[int, EstimatedDispatch] = {}

    @property
    def estimates(self) -> Mapping[int, EstimatedDispatch]:
        """Estimates by number, from 1."""
        return self._estimates

    def answer(self, message: bytes | bytearray | memoryview, kernel: TimedKernel) -> bytes:
        """Return the answer to the message about a dispatch (`struct rpl_duration`).

        Raises:
            RecordError: The message is damaged.
            EmulationError: The host has too little memory for the model.
        """
        if self._target.timing is None:
            return bytes(DurationAnswer())
        found = self.duration(message, kernel)
        return bytes(DurationAnswer(nanoseconds=found.duration_ns, fixed_ns=found.fixed_ns, record=found.record))

    def duration(self, message: bytes | bytearray | memoryview, kernel: TimedKernel) -> EstimatedDispatch:
        """Estimate the duration of a dispatch.

        Args:
            message: See :class:`DetailedDispatch`.
            kernel: Code of the kernel that it names.

        Raises:
            RecordError: The message is damaged.
            TimingUnavailable: The target has no timing model.
            EmulationError: The host has too little memory for the model.
        """
        timing = self._target.timing
        detail = DetailedDispatch.parse(message)
        estimate = estimate_dispatch(detail, kernel, self._target)
        fixed_ns = 0 if timing is None else round(timing.launch_overhead_ns + timing.dispatch_record_ns)
        longer = untraced_part(detail, kernel.program)
        with self._lock:
            found = EstimatedDispatch(
                record=len(self._estimates) + 1,
                kernel=detail.kernel,
                duration_ns=fixed_ns + max(1, round((estimate.duration_ns - fixed_ns) * longer)),
                fixed_ns=fixed_ns,
                instructions=detail.instructions,
                counters={name: value * longer for name, value in estimate.counters.items() if name in self._counters},
            )
            self._estimates[found.record] = found
        if self._details is not None:
            (self._details / f"dispatch-{found.record}").write_bytes(message)
        return found


def read_detail(directory: Path, record: int) -> DetailedDispatch:
    """Read the dispatch of an estimate again.

    Args:
        directory: `details` of the clock.
        record: Number of the estimate.
    """
    return DetailedDispatch.parse((directory / f"dispatch-{record}").read_bytes())


def estimate_dispatch(
    detail: DetailedDispatch, kernel: TimedKernel, target: Target, *, thread_trace: bool = False
) -> TimingEstimate:
    """Estimate a dispatch as launches of the emulated device are, with warm caches and at the maximum clock.

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
    """Return the instructions of the traced workgroups relative to those in their traces: 1 unless traces were truncated."""
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
