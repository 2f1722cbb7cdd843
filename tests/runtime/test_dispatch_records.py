"""Records and emulated durations of dispatches, from launches that go through the driver's C code."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.device.emulated_thread_trace import emulated_trace
from rocm_perf_lab.device.emulated_time import estimate_launch
from rocm_perf_lab.emulator.kernarg import pack_kernarg
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import Allocation
from rocm_perf_lab.emulator.sampling import SamplePolicy
from rocm_perf_lab.rocprof.reader import read_databases
from rocm_perf_lab.runtime.application_database import ApplicationKernel, ApplicationRecords, WrittenDatabases, write_databases
from rocm_perf_lab.runtime.dispatch_records import (
    DetailedDispatch,
    RecordedCopy,
    RecordedCounts,
    RecordedDispatch,
    RecordedProcess,
    RecordError,
    read_records,
)
from rocm_perf_lab.runtime.emulated_clock import TimedKernel, estimate_dispatch, read_detail, untraced_part
from tests.builders.driver_timing import QUEUE, TimedDriver
from tests.builders.emulation import int32
from tests.builders.kernels import build_hip
from tests.builders.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocm_perf_lab.emulator.launching import LaunchResult, PreparedLaunch
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void rounds(const int* counts, float* out) {
  float x = threadIdx.x;
  for (int k = 0; k < counts[blockIdx.x]; k++) x = x * 1.5f + 2.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
"""
GROUPS, ITEMS = 608, 256


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("code")).code_object


@dataclass
class Place:
    """An emulated GPU with a code object, and the driver's side of timing."""

    machine: EmulatedGpu
    code: CodeObject
    driver: TimedDriver
    target: Target
    session: Path

    def kernel(self, symbol: str, program_of: PreparedLaunch) -> TimedKernel:
        metadata = next(one for one in self.code.kernels if one.name == symbol)
        return TimedKernel(program_of._translated.program, metadata)

    @contextmanager
    def prepared(self, symbol: str, groups: int, *arguments: Allocation | bytes) -> Iterator[PreparedLaunch]:
        loaded = self.machine.load(self.code)
        metadata = next(one for one in self.code.kernels if one.name == symbol)
        geometry = Geometry((groups, 1, 1), (ITEMS, 1, 1))
        values = [value.address if isinstance(value, Allocation) else value for value in arguments]
        with self.machine.prepare(loaded, metadata.symbol, geometry, pack_kernarg(metadata, values, geometry)) as prepared:
            yield prepared

    def buffer(self, content: np.ndarray[tuple[int, ...], np.dtype[np.generic]], name: str) -> Allocation:
        allocation = self.machine.allocate(name, content.nbytes)
        self.machine.write(allocation, content)
        return allocation

    def add_arguments(self, count: int) -> list[Allocation | bytes]:
        ones = np.ones(count, np.float32)
        return [*(self.buffer(ones, name) for name in "abc"), int32(count)]

    def databases(self, counters: tuple[str, ...], kernel: TimedKernel) -> WrittenDatabases:
        known = {1: ApplicationKernel(kernel, "gfx942", self.code.sha256, self.code.data)}
        records = ApplicationRecords(self.session, [self.target], known, self.driver.clock.estimates, "./app --size 8")
        return write_databases(records, self.session / "databases", counters)

    def trace(self, counters: tuple[str, ...], kernel: TimedKernel) -> Trace:
        written = self.databases(counters, kernel)
        assert len(written.databases) == 1
        return read_databases(written.databases)


@contextmanager
def place(code: CodeObject, session: Path, *, target: Target | None = None, records: bool = True) -> Iterator[Place]:
    gpu = target or target_of("gfx942")
    details = session / "details"
    details.mkdir()
    with EmulatedGpu(gpu, max_instructions=10**9, threads=2, sample=SamplePolicy(None)) as machine:
        driver = TimedDriver(gpu, session, records=records, details=details)
        try:
            yield Place(machine, code, driver, gpu, session)
        finally:
            driver.close()


def lab_estimate(target: Target, kernel: TimedKernel, result: LaunchResult, buffers: list[Allocation]) -> int:
    block = (ITEMS, 1, 1)
    return estimate_launch(target, kernel.metadata, result, block=block, dynamic_lds_bytes=0, buffers=buffers).duration_ns


def test_the_first_dispatch_has_the_time_of_the_emulated_device(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here:
        arguments = here.add_arguments(GROUPS * ITEMS)
        with here.prepared("add", GROUPS, *arguments) as prepared:
            kernel = here.kernel("add", prepared)
            duration = here.driver.run(prepared, kernel)
            buffers = [value for value in arguments if isinstance(value, Allocation)]
            expected = lab_estimate(here.target, kernel, prepared.run(), buffers)
    assert duration == pytest.approx(expected, rel=0.03)


def test_equal_work_is_estimated_once_and_has_equal_times(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 64, *here.add_arguments(64 * ITEMS)) as prepared:
        durations = {here.driver.run(prepared, here.kernel("add", prepared)) for _ in range(5)}
        assert here.driver.asked == 1
    assert len(durations) == 1


def test_more_work_of_the_same_geometry_takes_longer_and_is_estimated_at_its_next_occurrence(
    code: CodeObject, tmp_path: Path
) -> None:
    groups = 304
    with place(code, tmp_path) as here:
        counts = here.buffer(np.full(groups, 200, np.int32), "counts")
        out = here.buffer(np.zeros(groups * ITEMS, np.float32), "out")
        with here.prepared("rounds", groups, counts, out) as prepared:
            run = partial(here.driver.run, prepared, here.kernel("rounds", prepared))
            short = run()
            here.machine.write(counts, np.full(groups, 800, np.int32))
            scaled, estimated = run(), run()
            assert here.driver.asked == 2
            assert run() == estimated
    assert scaled > 2 * short
    assert scaled == pytest.approx(estimated, rel=0.2)


@pytest.mark.parametrize("groups", [8, 304, 4864])
def test_without_records_durations_are_rough(code: CodeObject, tmp_path: Path, groups: int) -> None:
    with (
        place(code, tmp_path, records=False) as here,
        here.prepared("add", groups, *here.add_arguments(groups * ITEMS)) as prepared,
    ):
        kernel = here.kernel("add", prepared)
        rough = here.driver.run(prepared, kernel)
        buffers = [Allocation(entry.begin, entry.end - entry.begin, "") for entry in prepared._registry]
        modelled = lab_estimate(here.target, kernel, prepared.run(), buffers)
    assert here.driver.asked == 0
    assert modelled / 2 < rough < 2 * modelled
    assert not (tmp_path / f"records.{os.getpid()}.0").exists()


def test_uneven_workgroups_are_scheduled_as_on_the_emulated_device(code: CodeObject, tmp_path: Path) -> None:
    rounds = np.random.default_rng(3).integers(1, 400, GROUPS).astype(np.int32)
    with place(code, tmp_path) as here:
        counts, out = here.buffer(rounds, "counts"), here.buffer(np.zeros(GROUPS * ITEMS, np.float32), "out")
        with here.prepared("rounds", GROUPS, counts, out) as prepared:
            kernel = here.kernel("rounds", prepared)
            duration = here.driver.run(prepared, kernel)
            expected = lab_estimate(here.target, kernel, prepared.run(), [counts, out])
    assert duration == pytest.approx(expected, rel=0.1)


def test_the_database_has_every_dispatch_with_exact_counters(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 64, *here.add_arguments(64 * ITEMS)) as prepared:
        kernel = here.kernel("add", prepared)
        durations = [here.driver.run(prepared, kernel) for _ in range(3)]
        here.driver.copy(1 << 40, 1 << 20, 4096, 2500)
        trace = here.trace(("SQ_WAVES", "SQ_INSTS_VALU", "TCC_HIT_sum"), kernel)
        expected = prepared.run().counters
    assert len(trace.dispatches) == 3
    assert trace.dispatches.duration_ns.tolist() == durations
    assert trace.dispatches.queue.tolist() == [QUEUE] * 3
    assert trace.dispatches.grid.tolist() == [[64 * ITEMS, 1, 1]] * 3
    assert (trace.provenance.device, trace.provenance.emulated) == ("emulator", True)
    assert trace.processes[0].command == "./app --size 8"
    assert trace.counters["SQ_WAVES"].value.tolist() == [64 * ITEMS / 64] * 3
    assert trace.counters["SQ_INSTS_VALU"].value.tolist() == [expected["SQ_INSTS_VALU"]] * 3
    assert len(set(trace.counters["TCC_HIT_sum"].value.tolist())) == 1
    (copy,) = trace.memory_copies
    assert (copy.direction, copy.size_bytes, copy.end_ns - copy.start_ns) == ("MEMORY_COPY_DEVICE_TO_HOST", 4096, 2500)


def test_equal_counts_are_written_once(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 8, *here.add_arguments(8 * ITEMS)) as prepared:
        for _ in range(4):
            here.driver.run(prepared, here.kernel("add", prepared))
        entries = list(read_records(tmp_path / f"records.{os.getpid()}.0"))
    assert isinstance(entries[0], RecordedProcess)
    assert entries[0].pid == os.getpid()
    assert sum(isinstance(entry, RecordedCounts) for entry in entries) == 1
    dispatches = [entry for entry in entries if isinstance(entry, RecordedDispatch)]
    assert [entry.dispatch for entry in dispatches] == [1, 2, 3, 4]
    assert {entry.counts for entry in dispatches} == {1}
    assert all(entry.submitted_ns < entry.start_ns < entry.end_ns for entry in dispatches)


def test_a_target_without_timing_model_has_no_times(code: CodeObject, tmp_path: Path) -> None:
    timeless = target_of("gfx942").model_copy(update={"timing": None})
    with (
        place(code, tmp_path, target=timeless) as here,
        here.prepared("add", 8, *here.add_arguments(8 * ITEMS)) as prepared,
    ):
        kernel = here.kernel("add", prepared)
        assert [here.driver.run(prepared, kernel) for _ in range(3)] == [0, 0, 0]
        assert here.driver.asked == 0
        trace = here.trace(("SQ_WAVES",), kernel)
    assert not trace.provenance.has_times
    assert trace.dispatches.end_ns.tolist() == [0, 0, 0]
    assert trace.counters["SQ_WAVES"].value.tolist() == [32, 32, 32]


def test_a_kernel_that_cannot_be_estimated_has_rough_times_and_is_asked_for_once(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 64, *here.add_arguments(64 * ITEMS)) as prepared:
        here.driver.refuses = True
        kernel = here.kernel("add", prepared)
        durations = [here.driver.run(prepared, kernel) for _ in range(3)]
        assert here.driver.asked == 1
        written = here.databases((), kernel)
    assert durations[0] == durations[1] == durations[2] > 0
    assert written.notes[0].startswith("the times of 3 dispatches follow from their instructions and bytes only")


def test_a_dispatch_can_be_traced_afterwards(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 8, *here.add_arguments(8 * ITEMS)) as prepared:
        kernel = here.kernel("add", prepared)
        duration = here.driver.run(prepared, kernel)
        estimate = estimate_dispatch(read_detail(tmp_path / "details", 1), kernel, here.target, thread_trace=True)
        trace = emulated_trace(kernel.program, estimate.thread_trace, code, kernel.metadata, device="emulator")
    assert estimate.duration_ns == duration
    assert len(trace.waves) == ITEMS // 64


def test_truncated_traces_count_as_the_instructions_of_their_workgroups(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 8, *here.add_arguments(8 * ITEMS)) as prepared:
        kernel = here.kernel("add", prepared)
        here.driver.run(prepared, kernel)
        detail = read_detail(tmp_path / "details", 1)
    assert untraced_part(detail, kernel.program) == 1.0
    half = [group if number % 2 else [words[:0] for words in group] for number, group in enumerate(detail.traces)]
    assert untraced_part(replace(detail, traces=half, has_whole_traces=False), kernel.program) == pytest.approx(2.0)


def test_damaged_records_are_reported(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 8, *here.add_arguments(8 * ITEMS)) as prepared:
        here.driver.run(prepared, here.kernel("add", prepared))
    message = (tmp_path / "details" / "dispatch-1").read_bytes()
    with pytest.raises(RecordError, match="8 bytes too early"):
        DetailedDispatch.parse(message[:-8])
    with pytest.raises(RecordError, match="4 bytes too many"):
        DetailedDispatch.parse(message + bytes(4))


def test_the_file_of_a_killed_process_ends_at_its_last_whole_entry(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here, here.prepared("add", 8, *here.add_arguments(8 * ITEMS)) as prepared:
        for _ in range(3):
            here.driver.run(prepared, here.kernel("add", prepared))
        path = tmp_path / f"records.{os.getpid()}.0"
        content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content[:-40])
    assert sum(isinstance(entry, RecordedDispatch) for entry in read_records(path)) == 2


def test_copies_are_between_the_sides_of_their_addresses(code: CodeObject, tmp_path: Path) -> None:
    with place(code, tmp_path) as here:
        here.driver.copy(1 << 20, 1 << 40, 64, 10)
        (copy,) = [entry for entry in read_records(tmp_path / f"records.{os.getpid()}.0") if isinstance(entry, RecordedCopy)]
    assert (copy.from_gpu, copy.to_gpu, copy.size_bytes) == (False, True, 64)


def test_header_has_no_padding() -> None:
    from rocm_perf_lab.runtime.dispatch_records import CopyEntry, DispatchEntry, DispatchHeader

    assert [ctypes.sizeof(kind) for kind in (DispatchHeader, DispatchEntry, CopyEntry)] == [128, 96, 40]
