"""The driver's part of emulated durations (`runtime/driver/timing.c`), around launches of the emulated device."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.build import load_runtime, runtime_files
from rocm_perf_lab.emulator.c_library import CLibrary, build_library
from rocm_perf_lab.emulator.execution import _launch_record, _machine_state, _sum_counters
from rocm_perf_lab.emulator.probes import PROBE_WORDS
from rocm_perf_lab.emulator.structures import AllocationEntry, LaunchRecord, MachineState, MemoryCounters
from rocm_perf_lab.runtime.dispatch_records import DurationAnswer
from rocm_perf_lab.runtime.driver_build import DRIVER_SOURCES
from rocm_perf_lab.runtime.emulated_clock import EmulatedClock, TimedKernel, estimated

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.execution import Dispatch
    from rocm_perf_lab.emulator.launching import PreparedLaunch
    from rocm_perf_lab.target.model import Target

GPU_ID, QUEUE = 0x4242, 3
_PARTS = ("timing.c", "detail.c", "estimates.c", "records.c")
_FLAGS = ("-std=gnu11", "-O2", "-march=native", "-fno-strict-aliasing", "-fPIC", "-pthread")
_ANSWER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(DurationAnswer))


class _Work(ctypes.Structure):
    """struct drv_work."""

    _fields_ = (
        ("executions", ctypes.c_void_p),
        ("active_lanes", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("instructions", ctypes.c_uint64),
    )


@cache
def _library_path() -> Path:
    sources, headers = runtime_files()
    stub = Path(__file__).with_suffix(".c")
    library = CLibrary(
        what="the timing of the driver",
        sources=(*sources, *(DRIVER_SOURCES / name for name in _PARTS), stub),
        headers=(*headers, *sorted(DRIVER_SOURCES.glob("*.h"))),
        flags=(*_FLAGS, "-I", str(DRIVER_SOURCES)),
        link_flags=("-lm", "-lpthread"),
    )
    return build_library(library, cache_dir() / "test-libraries")


class TimedDriver:
    """Runs prepared launches as the driver does, on `threads` threads. One per process and session directory.

    Args:
        target: The GPU.
        session: Directory of the records.
        records: Write records.
        threads: Threads of each dispatch.
        details: See :class:`EmulatedClock`.
    """

    def __init__(
        self, target: Target, session: Path, *, records: bool = True, threads: int = 2, details: Path | None = None
    ) -> None:
        self.clock = EmulatedClock(target, counters=("TCC_HIT_sum", "SQ_BUSY_CYCLES"), details=details)
        self.asked = 0
        self.refuses = False
        self._threads = threads
        self._target = target
        self._library = ctypes.CDLL(str(_library_path()))
        for name in ("test_kernel", "drv_timing_begin"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.drv_timing_end.restype = ctypes.c_uint64
        self._kernels: dict[int, tuple[int, TimedKernel]] = {}
        self._kernel = TimedKernel.__new__(TimedKernel)
        self._callback = _ANSWER(self._answer)
        self._library.drv_timing_forget()
        self._library.test_set_up(
            ctypes.c_char_p(str(session).encode()),
            target.compute_units,
            target.xcds,
            target.caches.vector_l1_line_bytes,
            target.max_clock_mhz,
            *_times(target),
            int(records),
            self._callback,
        )
        self._time_ns = 1_000_000
        self._number = 0

    def close(self) -> None:
        """Forget the estimates and close the file of records."""
        self._library.drv_timing_forget()

    def run(self, prepared: PreparedLaunch, kernel: TimedKernel, kernel_id: int = 1) -> int:
        """Run a launch once; return its emulated duration in ns."""
        dispatch: Dispatch = prepared._dispatch
        registry = prepared._registry
        if kernel_id not in self._kernels:
            address = self._library.test_kernel(kernel_id, dispatch.block_count)
            self._kernels[kernel_id] = (address, kernel)
        address, self._kernel = self._kernels[kernel_id]
        ranges = _ranges(registry)
        launch = _launch_record(dispatch)
        threads = max(1, min(self._threads, dispatch.threads, dispatch.workgroups))
        timing = ctypes.c_void_p(
            self._library.drv_timing_begin(
                ctypes.c_void_p(address), GPU_ID, QUEUE, ctypes.byref(launch), ctypes.byref(ranges), threads
            )
        )
        words = np.zeros((threads, dispatch.block_count + PROBE_WORDS * dispatch.probe_count), np.uint64)
        lanes = np.zeros((threads, dispatch.block_count), np.uint64)
        budget = ctypes.c_int64(dispatch.max_instructions)
        states = [_machine_state(registry, dispatch, concurrent=threads > 1) for _ in range(threads)]

        def run_range(thread: int) -> None:
            own = LaunchRecord.from_buffer_copy(launch)
            own.block_executions, own.block_active_lanes = words[thread].ctypes.data, lanes[thread].ctypes.data
            own.budget = ctypes.addressof(budget)
            self._library.drv_timing_thread(timing, thread, ctypes.byref(states[thread]))
            first, last = (dispatch.workgroups * t // threads for t in (thread, thread + 1))
            with dispatch.code.running(own, words[thread, : dispatch.block_count]):
                load_runtime().library.rpl_run(
                    ctypes.byref(own), ctypes.byref(states[thread]), ctypes.c_uint64(first), ctypes.c_uint64(last)
                )

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run_range, range(threads)))
        assert not any(state.fault.kind for state in states)
        return self._end(timing, states, words[:, : dispatch.block_count], lanes, dispatch.max_instructions - budget.value)

    def _end(
        self,
        timing: ctypes.c_void_p,
        states: list[MachineState],
        executions: np.ndarray[tuple[int, int], np.dtype[np.uint64]],
        lanes: np.ndarray[tuple[int, int], np.dtype[np.uint64]],
        instructions: int,
    ) -> int:
        counters = _sum_counters([state.counters for state in states])
        totals = MemoryCounters(**{name: counters[name] for name, *_ in MemoryCounters._fields_})
        executed, active = executions.sum(axis=0, dtype=np.uint64), lanes.sum(axis=0, dtype=np.uint64)
        work = _Work(executed.ctypes.data, active.ctypes.data, ctypes.addressof(totals), instructions)
        self._number += 1
        duration = int(self._library.drv_timing_end(timing, ctypes.c_uint64(self._number), ctypes.byref(work)))
        start, self._time_ns = self._time_ns, self._time_ns + duration
        times = (start - 500, start, self._time_ns)
        self._library.drv_timing_record(timing, *map(ctypes.c_uint64, times))
        self._time_ns += 1000
        return duration

    def copy(self, source: int, destination: int, size_bytes: int, duration_ns: int) -> None:
        """Record a copy after the last dispatch."""
        start, self._time_ns = self._time_ns, self._time_ns + duration_ns
        values = (source, destination, size_bytes, start, self._time_ns)
        self._library.drv_timing_record_copy(GPU_ID, QUEUE + 1, *map(ctypes.c_uint64, values))

    def _answer(self, message: int, count: int, answer: ctypes._Pointer[DurationAnswer]) -> None:
        self.asked += 1
        if self.refuses:
            return
        kernel, counters = self._kernel, self.clock.counters
        content = self.clock.answer(ctypes.string_at(message, count), lambda one: estimated(one, kernel, self._target, counters))
        answer[0] = DurationAnswer.from_buffer_copy(content)


def _times(target: Target) -> tuple[int, int]:
    """Return the duration of an empty dispatch in ns, and the bandwidth of memory in GB/s; 0 and 0 without a timing model."""
    timing = target.timing
    if timing is None:
        return 0, 0
    return round(timing.launch_overhead_ns + timing.dispatch_record_ns), round(timing.achievable_dram_gb_per_s)


def _ranges(registry: ctypes.Array[AllocationEntry]) -> ctypes.Structure:
    """Return struct drv_ranges."""

    class Ranges(ctypes.Structure):
        _fields_ = (
            ("users", ctypes.c_long),
            ("version", ctypes.c_uint64),
            ("count", ctypes.c_uint64),
            ("gpu", ctypes.c_uint64),
            ("ranges", AllocationEntry * len(registry)),
        )

    return Ranges(0, 1, len(registry), 0, registry)
