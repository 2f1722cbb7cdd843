"""Invalid operations raise an error that names instruction, lanes, buffer and source line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.faults import (
    BarrierDeadlock,
    InstructionBudgetExceeded,
    KernelTrap,
    LdsFault,
    MemoryFault,
)
from tests.builders.emulation import EmulatorBench, emulation_code_object, int32, int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.toolchain.code_object import CodeObject


@pytest.fixture(scope="module")
def code_object() -> CodeObject:
    return emulation_code_object()


@pytest.fixture
def bench(code_object: CodeObject) -> Iterator[EmulatorBench]:
    with EmulatorBench(code_object, max_instructions=10**6) as made:
        yield made


@pytest.fixture
def y(bench: EmulatorBench) -> Allocation:
    return bench.buffer(np.zeros(64, np.int32), "y")


def test_a_store_past_the_end_names_the_buffer_the_lanes_and_the_instruction(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(MemoryFault) as caught:
        bench.launch("store_at", 1, 64, y, int64(2))

    message = str(caught.value)
    assert "kernel store_at: store of 4 bytes" in message
    assert "right at the end of buffer 'y' (256 bytes)" in message
    assert "global_store_dword" in message
    assert "lanes 62, 63" in message
    assert "workgroup (0, 0, 0), wavefront 0" in message


@pytest.mark.parametrize(
    ("index", "miss"),
    [(65, "4 bytes past the end of buffer 'y'"), (-65, "260 bytes before buffer 'y'"), (1 << 60, "past the end of")],
)
def test_the_distance_to_the_nearest_buffer_is_reported(bench: EmulatorBench, y: Allocation, index: int, miss: str) -> None:
    with pytest.raises(MemoryFault, match=miss):
        bench.launch("store_at", 1, 64, y, int64(index))


def test_a_null_pointer_is_a_fault(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(MemoryFault, match="store of 4 bytes at 0x0"):
        bench.launch("store_at", 1, 64, 0, int64(0))


def test_use_after_free_is_recognised(bench: EmulatorBench, y: Allocation) -> None:
    bench.machine.free(y)

    with pytest.raises(MemoryFault, match=r"inside buffer 'y' .* which was freed"):
        bench.launch("store_at", 1, 64, y.address, int64(0))


def test_nothing_is_written_by_a_faulting_instruction(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(MemoryFault):
        bench.launch("store_at", 1, 64, y, int64(2))

    assert not bench.read(y).any()


def test_lds_beyond_the_workgroups_is_a_fault(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(LdsFault, match="LDS offset 256, the workgroup has 256 bytes"):
        bench.launch("lds_at", 1, 64, y, int32(1), lds=256)


def test_an_endless_loop_is_reported_with_its_address(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(InstructionBudgetExceeded, match="instruction budget exceeded") as caught:
        bench.launch("spin", 1, 64, y)

    assert "the code from 0x" in str(caught.value)


def test_a_barrier_that_a_spinning_wavefront_never_reaches_is_a_deadlock(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(BarrierDeadlock, match="wait at a barrier"):
        bench.launch("half_barrier", 1, 128, y)


def test_a_trap_stops_the_kernel(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(KernelTrap, match="trap 2"):
        bench.launch("trap", 1, 64, y)


def test_the_callers_source_line_is_part_of_the_message(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(MemoryFault, match=r"store\.hip:12"):
        bench.machine.launch(
            bench.loaded, "store_at", (1, 1, 1), (64, 1, 1), [y, int64(2)], source_line=lambda address: "store.hip:12"
        )


def test_the_earliest_workgroups_fault_is_reported_whatever_the_threads(code_object: CodeObject) -> None:
    messages = []
    for threads in (1, 2):
        with EmulatorBench(code_object, threads=threads) as bench:
            y = bench.buffer(np.zeros(64, np.int32), "y")
            with pytest.raises(MemoryFault) as caught:
                bench.launch("store_at", 8, 64, y, int64(2))
            messages.append(str(caught.value))

    assert messages[0] == messages[1]


def test_the_machine_works_on_after_a_fault(bench: EmulatorBench, y: Allocation) -> None:
    with pytest.raises(MemoryFault):
        bench.launch("store_at", 1, 64, y, int64(2))

    bench.launch("store_at", 1, 64, y, int64(0))

    assert bench.read(y).all()
