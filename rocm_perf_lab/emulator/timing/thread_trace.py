"""Events of single wavefronts that the timing engine records for a thread trace.

Pass a `ThreadTraceRecorder` to one run of the engine; `waves()` returns its records in whole clocks. Begin and end of every
instruction are rounded alike, so that the parts of a wavefront add up to its lifetime.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.emulator.timing.structures import ThreadTraceRecord, TracedWaveRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime

_EVENT = np.dtype([("attempt", "f8"), ("issued", "f8"), ("done", "f8"), ("instruction", "u8")])


@dataclass(frozen=True, eq=False)
class TracedWave:
    """Events of one wavefront; `slot` is its place on the SIMD. All arrays are (n_executed), in order."""

    workgroup: int
    wave: int
    simd: int
    slot: int
    begin: int
    end: int
    instructions: NDArray[np.int64]
    """Indices in the program."""
    attempts: NDArray[np.int64]
    """First attempt to issue; `issued` is the issue, `done` the time at which the wavefront could continue."""
    issued: NDArray[np.int64]
    done: NDArray[np.int64]


class ThreadTraceRecorder:
    """Memory for the records of the first `workgroups` of a run; a context manager that frees it."""

    def __init__(self, runtime: Runtime, workgroups: int, waves_per_workgroup: int) -> None:
        self._runtime = runtime
        self._waves_per_workgroup = waves_per_workgroup
        self._waves = (TracedWaveRecord * (workgroups * waves_per_workgroup))()
        self._record = ThreadTraceRecord(waves=ctypes.addressof(self._waves), workgroups=workgroups)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runtime.library.rpl_thread_trace_free(ctypes.byref(self._record), ctypes.c_uint64(len(self._waves)))

    @property
    def address(self) -> int:
        """Address of the structure that the engine fills."""
        return ctypes.addressof(self._record)

    @property
    def is_complete(self) -> bool:
        """True unless memory was too short for all records."""
        return not self._record.is_short_of_memory

    def waves(self) -> tuple[TracedWave, ...]:
        """Return the wavefronts in order of workgroup and number; partial workgroups have fewer."""
        return tuple(
            _wave(record, *divmod(number, self._waves_per_workgroup)) for number, record in enumerate(self._waves) if record.count
        )


def _wave(record: TracedWaveRecord, workgroup: int, wave: int) -> TracedWave:
    events = np.zeros(record.count, _EVENT)
    if record.count:
        ctypes.memmove(events.ctypes.data, record.events, events.nbytes)
    attempts, issued, done = (np.rint(events[name]).astype(np.int64) for name in ("attempt", "issued", "done"))
    return TracedWave(
        workgroup=workgroup,
        wave=wave,
        simd=record.simd,
        slot=record.slot,
        begin=round(record.begin),
        end=round(record.end),
        instructions=events["instruction"].astype(np.int64),
        attempts=attempts,
        issued=issued,
        done=done,
    )
