"""Compute unit model: cycles that can be counted by hand, and the order of variants of a kernel.

MI300X parameters: a vector instruction occupies its SIMD for 4 clocks, a wait lasts 1, other instructions 4.
"""

from __future__ import annotations

import pytest

from rocm_perf_lab.emulator.build import Runtime, load_runtime
from rocm_perf_lab.emulator.timing.engine import TimingEstimate, TimingUnavailable, TracedLaunch, estimate
from tests.builders.targets import mi250x, mi300x
from tests.builders.timed_launches import (
    BARRIER,
    END,
    EXP,
    LDS_READ,
    LOAD,
    STORE,
    VALU,
    WAIT_LDS,
    WAIT_LOADS,
    lds_record,
    traced_launch,
    vector_record,
)

TARGET = mi300x()
UNITS = TARGET.compute_units


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return load_runtime()


def timed(runtime: Runtime, launch: TracedLaunch) -> TimingEstimate:
    return estimate(runtime, launch, TARGET)


def test_a_chain_of_vector_instructions_takes_four_clocks_each(runtime: Runtime) -> None:
    assert timed(runtime, traced_launch([VALU] * 100 + [END])).cycles == 100 * 4 + 4


def test_a_transcendental_takes_four_times_as_long(runtime: Runtime) -> None:
    assert timed(runtime, traced_launch([EXP] * 100 + [END])).cycles == 100 * 16 + 4


def test_four_waves_run_side_by_side_on_four_simds_and_eight_share_them(runtime: Runtime) -> None:
    steps = [VALU] * 100 + [END]

    four = timed(runtime, traced_launch(steps, [[()] * 4]))
    eight = timed(runtime, traced_launch(steps, [[()] * 8]))

    assert four.cycles == 100 * 4 + 4
    assert eight.cycles == 2 * 100 * 4 + 4


def test_fma_on_all_compute_units_runs_at_the_vector_peak(runtime: Runtime) -> None:
    instructions, waves, groups = 2000, 16, 8 * UNITS
    result = timed(runtime, traced_launch([VALU] * instructions + [END], [[()] * waves], workgroups=groups, resident=2))

    flops = 2 * 64 * instructions * waves * groups
    peak_gflops = UNITS * TARGET.peaks.vector_flops_per_cu_clock["f32"] * TARGET.max_clock_mhz / 1000
    assert flops / (result.cycles / TARGET.max_clock_mhz * 1000) == pytest.approx(peak_gflops, rel=0.02)


def test_a_wait_for_a_load_shows_the_latency_of_memory(runtime: Runtime) -> None:
    launch = traced_launch([LOAD, WAIT_LOADS, END], [[vector_record(0, [0])]])
    result = timed(runtime, launch)

    assert TARGET.timing is not None
    assert TARGET.timing.dram_latency < result.cycles < 1.1 * TARGET.timing.dram_latency
    assert result.stall_cycles[1] > 0.9 * TARGET.timing.dram_latency
    assert result.hits.tolist() == [1, 1, 1]


def test_loads_in_flight_together_hide_latency_and_loads_waited_for_one_by_one_do_not(runtime: Runtime) -> None:
    lines = [[4096 * i] for i in range(8)]
    one_by_one = traced_launch(
        [LOAD, WAIT_LOADS] * 8 + [END], [[[w for i, a in enumerate(lines) for w in vector_record(2 * i, a)]]]
    )
    together = traced_launch([LOAD] * 8 + [WAIT_LOADS, END], [[[w for i, a in enumerate(lines) for w in vector_record(i, a)]]])

    assert timed(runtime, one_by_one).cycles > 6 * timed(runtime, together).cycles


def test_a_second_load_of_a_line_comes_from_the_vector_l1(runtime: Runtime) -> None:
    records = vector_record(0, [0]) + vector_record(2, [64])  # the other half of the same 128-byte line
    result = timed(runtime, traced_launch([LOAD, WAIT_LOADS, LOAD, WAIT_LOADS, END], [[records]]))

    assert TARGET.timing is not None
    assert result.stall_cycles[3] < 1.1 * TARGET.timing.vector_l1_latency
    assert result.counters["TCP_TCC_READ_REQ_sum"] == 1


def test_strided_access_is_slower_than_coalesced_access(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, END]
    coalesced = [[vector_record(0, [256 * w + 64 * s for s in range(4)]) for w in range(4)]]
    strided = [[vector_record(0, [64 * 4096 * w + 4096 * s for s in range(64)]) for w in range(4)]]

    fast = timed(runtime, traced_launch(steps, coalesced, workgroups=64 * UNITS, resident=8))
    slow = timed(runtime, traced_launch(steps, strided, workgroups=64 * UNITS, resident=8))

    assert slow.cycles > 10 * fast.cycles


def test_a_streaming_copy_reaches_the_achievable_bandwidth(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, STORE, END]
    groups = 256 * UNITS

    def wave(index: int) -> list[int]:
        segments = [512 * index + 64 * s for s in range(8)]
        return vector_record(0, segments) + vector_record(2, [(1 << 30) + s for s in segments])

    launch = traced_launch(steps, [[wave(w) for w in range(4)]], workgroups=groups, resident=8)
    seconds = timed(runtime, launch).cycles / (TARGET.max_clock_mhz * 1e6)

    assert TARGET.timing is not None
    copied_gb_per_s = groups * 4 * 2 * 512 / seconds / 1e9
    assert copied_gb_per_s == pytest.approx(TARGET.timing.achievable_dram_gb_per_s, rel=0.05)


def test_bank_conflicts_occupy_the_lds(runtime: Runtime) -> None:
    steps = [LDS_READ] * 32 + [WAIT_LDS, END]

    def of(busy_cycles: int) -> float:
        records = [word for i in range(32) for word in lds_record(i, busy_cycles)]
        return timed(runtime, traced_launch(steps, [[records] * 4])).cycles

    assert of(32) - of(16) == pytest.approx(4 * 32 * 16, rel=0.05)


def test_a_barrier_waits_for_the_slowest_wave(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, BARRIER, END]
    quick, slow = vector_record(0, []), vector_record(0, [0])
    result = timed(runtime, traced_launch(steps, [[quick, slow]]))

    assert TARGET.timing is not None
    assert result.cycles > TARGET.timing.dram_latency + TARGET.timing.barrier_cycles
    assert result.stall_cycles[2] > TARGET.timing.dram_latency / 2
    assert result.counters["SQ_WAIT_ANY"] > 2 * TARGET.timing.dram_latency / 2 / 4


def test_a_load_without_a_record_does_not_take_the_next_ones(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, LOAD, WAIT_LOADS, END]
    result = timed(runtime, traced_launch(steps, [[vector_record(2, [0])]]))

    assert result.stall_cycles[1] < result.stall_cycles[3]


def test_many_rounds_cost_the_sum_of_each(runtime: Runtime) -> None:
    steps = [VALU] * 200 + [END]
    few = timed(runtime, traced_launch(steps, [[()] * 4], workgroups=4 * UNITS, resident=1))
    many = timed(runtime, traced_launch(steps, [[()] * 4], workgroups=400 * UNITS, resident=1))

    assert many.cycles == pytest.approx(100 * few.cycles, rel=0.05)


@pytest.mark.parametrize("base", [0x7F00_0000_0000, 0x7F12_3456_7000])
@pytest.mark.parametrize("scratch", [0x1000, 0x7FFF_0000_0040])
def test_the_address_of_memory_does_not_change_the_time(runtime: Runtime, base: int, scratch: int) -> None:
    def launch(base: int, scratch: int) -> TracedLaunch:
        inside = [base + 4160 * i for i in range(64)]
        outside = [scratch + 64 * i for i in range(8)]
        records = vector_record(0, inside) + vector_record(1, outside)
        return traced_launch([LOAD, LOAD, WAIT_LOADS, END], [[records] * 4], workgroups=5000, resident=4, base=base)

    here, there = timed(runtime, launch(base, scratch)), timed(runtime, launch(1 << 40, 1 << 30))

    assert (here.duration_ns, here.counters) == (there.duration_ns, there.counters)


def test_a_target_without_parameters_is_refused(runtime: Runtime) -> None:
    with pytest.raises(TimingUnavailable, match="mi250x"):
        estimate(runtime, traced_launch([END]), mi250x())
