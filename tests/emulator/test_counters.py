"""Counters of a launch: sums by hand, and a vector copy against a real MI300X."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.counters import exact_counters, launch_counters
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.sampling import SamplePolicy
from rocm_perf_lab.emulator.structures import MemoryCounters
from tests.builders.kernels import VEC_COPY, build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.memory import Allocation

MEASURED = json.loads((Path(__file__).parents[1] / "data" / "vcopy_mi300x_counters.json").read_text())
ISA = instruction_set("gfx942")
RUNTIME = dict.fromkeys((*MemoryCounters().as_dict(), "full_waves"), 0)


def test_blocks_count_as_often_as_they_ran() -> None:
    blocks = [{"SQ_INSTS": 3, "SQ_INSTS_VALU": 2}, {"SQ_INSTS": 1}]

    counters = launch_counters(blocks, np.array([5, 7], np.uint64), np.array([640, 9], np.uint64), RUNTIME, ISA)

    assert counters["SQ_INSTS"] == 3 * 5 + 7
    assert counters["SQ_INSTS_VALU"] == 2 * 5
    assert counters["SQ_THREAD_CYCLES_VALU"] == 640 + 9


def test_counters_without_events_are_zero() -> None:
    counters = launch_counters([], np.array([], np.uint64), np.array([], np.uint64), RUNTIME, ISA)

    assert set(exact_counters(ISA)) <= set(counters)
    assert set(counters.values()) == {0}
    assert counters["SQ_INSTS_VALU_MFMA_MOPS_BF16"] == 0


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("SQ_INSTS_VALU_MFMA_F8", ("cdna3", "cdna4")),
        ("SQ_INSTS_VALU_MFMA_MOPS_F6F4", ("cdna4",)),
        ("SQ_INSTS_LDS_LOAD", ("cdna4",)),
        ("SPI_CSN_WAVE", ("cdna2", "cdna3")),
        ("SPI_CS0_WAVE", ("cdna4",)),
        ("TCC_EA_ATOMIC_LEVEL_sum", ("cdna2",)),
        ("SQ_WAVES", ("cdna2", "cdna3", "cdna4")),
    ],
)
def test_an_architecture_has_its_own_counters(name: str, sets: tuple[str, ...]) -> None:
    architectures = {"cdna2": "gfx90a", "cdna3": "gfx942", "cdna4": "gfx950"}

    def counted(counter_set: str) -> dict[str, int]:
        isa = instruction_set(architectures[counter_set])
        return launch_counters([], np.array([], np.uint64), np.array([], np.uint64), RUNTIME, isa)

    assert tuple(one for one in ("cdna2", "cdna3", "cdna4") if name in counted(one)) == sets


def run_vector_copy(directory: Path, *, threads: int) -> LaunchResult:
    code_object = build_hip(VEC_COPY, directory).code_object
    n = MEASURED["n"]
    with EmulatedGpu(mi300x(), max_instructions=10**8, threads=threads, sample=SamplePolicy(2)) as machine:
        a, b, c = (machine.allocate(name, 8 * n) for name in "abc")
        machine.write(a, np.arange(n, dtype=np.float64))
        loaded = machine.load(code_object)
        arguments: list[int | bytes | Allocation] = [a, b, c, struct.pack("<i", n), struct.pack("<i", 1)]
        block = MEASURED["workgroup"]
        result = machine.launch(loaded, code_object.kernels[0].symbol, (n // block, 1, 1), (block, 1, 1), arguments)
        assert machine.read(c) == machine.read(a)
        return result


@pytest.fixture(scope="module")
def vector_copy(tmp_path_factory: pytest.TempPathFactory) -> LaunchResult:
    return run_vector_copy(tmp_path_factory.mktemp("copy"), threads=2)


@pytest.mark.parametrize("name", sorted(MEASURED["counters"]))
def test_a_vector_copy_counts_as_on_a_real_mi300x(vector_copy: LaunchResult, name: str) -> None:
    assert vector_copy.counters[name] == MEASURED["counters"][name]


def test_the_number_of_threads_changes_no_counter(vector_copy: LaunchResult, tmp_path: Path) -> None:
    assert run_vector_copy(tmp_path, threads=1).counters == vector_copy.counters


def test_bytes_requested_are_exact(vector_copy: LaunchResult) -> None:
    assert vector_copy.memory["load_bytes"] == vector_copy.memory["store_bytes"] == 8 * MEASURED["n"]


def test_counters_of_wavefronts_with_32_lanes() -> None:
    wave32, wave64 = (instruction_set("gfx1030", wave_size) for wave_size in (32, 64))
    blocks, executions, lanes = [{"SQ_INSTS": 3, "SQ_INSTS_VALU": 2}], np.array([5], np.uint64), np.array([320], np.uint64)

    small = launch_counters(blocks, executions, lanes, RUNTIME, wave32)
    large = launch_counters(blocks, executions, lanes, RUNTIME, wave64)

    names = ("SQ_INSTS", "SQ_WAVE32_INSTS", "SQ_WAVE64_INSTS", "SQ_INSTS_WAVE32", "SQ_INSTS_WAVE32_VALU")
    assert [small[name] for name in names] == [15, 15, 0, 15, 10]
    assert [large[name] for name in names] == [15, 0, 15, 0, 0]
    assert set(exact_counters(wave32)) == set(small)
    assert not any(name.startswith(("TCP_", "TA_", "SQC_", "SPI_", "SQ_INSTS_MFMA")) for name in small)
