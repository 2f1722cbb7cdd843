"""Compute unit model: cycles that can be counted by hand, and the order of variants of a kernel.

Parameters of MI300X: the first instruction of a launch issues after 560 clocks, a vector instruction occupies its port for 4,
other instructions issue every 4 clocks.
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
    Step,
    lds_record,
    traced_launch,
    vector_record,
)

TARGET = mi300x()
UNITS = TARGET.compute_units
assert TARGET.timing is not None
TIMING = TARGET.timing
START = TIMING.first_fetch_cycles
TRANSLATION = TIMING.tlb_cold_cycles
SCALAR = Step("S_ADD_U32", "SOP2")
BRANCH = Step("S_CBRANCH_SCC0", "SOPP")
COMPARE = Step("V_CMP_GT_I32", "VOPC", sources=(256, 257))
WITH_CONSTANT = Step("V_ADD_F32", "VOP2", sources=(128, 257))
DOUBLE_FMA = Step("V_FMA_F64", "VOP3", sources=(256, 258, 260), bits=64)
MATRIX = Step("V_MFMA_F32_32X32X8_F16", "VOP3P", sources=(300, 302, 256), vdst=256, bits=64, size=8)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return load_runtime()


def timed(runtime: Runtime, launch: TracedLaunch) -> TimingEstimate:
    return estimate(runtime, launch, TARGET)


def cycles(runtime: Runtime, steps: list[Step], waves: int = 1) -> float:
    """Return the clocks from the first instruction to the end of one workgroup."""
    return timed(runtime, traced_launch([*steps, END], [[()] * waves])).cycles - START


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([VALU] * 100, 400),
        ([EXP] * 100, 1600),
        ([Step("S_NOP", "SOPP", 7)] * 10, 320),
        ([Step("S_WAITCNT", "SOPP", 0xC07F)] * 10, 40),
        ([SCALAR, BRANCH], 4 + 4 + 4),  # 8 clocks from a scalar instruction to the branch, which is not taken
        ([COMPARE, SCALAR], 20 + 4),  # a scalar instruction waits for a scalar result of the vector ALU
        ([COMPARE, VALU, SCALAR], 20 + 4),
        ([VALU, LOAD], 12 + 4),
        ([VALU, LDS_READ], 12 + 4),
        ([LDS_READ, LDS_READ], 8 + 4),
        ([Step("V_FMA_F32", "VOP3", size=8)] * 40, 40 * 5),  # 32 bytes of code every 20 clocks
    ],
)
def test_clocks_of_one_wavefront(runtime: Runtime, steps: list[Step], expected: int) -> None:
    assert cycles(runtime, steps) == pytest.approx(expected + 4, abs=4)  # and s_endpgm


def test_two_wavefronts_of_a_simd_issue_vector_instructions_together(runtime: Runtime) -> None:
    assert cycles(runtime, [VALU] * 100, waves=8) == pytest.approx(cycles(runtime, [VALU] * 100, waves=4), abs=32)
    assert cycles(runtime, [VALU] * 100, waves=16) == pytest.approx(2 * 400, rel=0.05)


@pytest.mark.parametrize("step", [WITH_CONSTANT, DOUBLE_FMA])
def test_constants_and_wide_operands_do_not_issue_together(runtime: Runtime, step: Step) -> None:
    assert cycles(runtime, [step] * 100, waves=8) == pytest.approx(2 * 400, rel=0.05)


def test_the_matrix_core_leaves_the_vector_ports_to_others(runtime: Runtime) -> None:
    alone = cycles(runtime, [MATRIX] * 20)
    with_vector = cycles(runtime, [MATRIX, VALU, VALU, VALU] * 20)

    assert alone == pytest.approx(20 * 32, abs=32)
    assert with_vector == pytest.approx(alone, abs=32)


def test_a_vector_instruction_waits_for_the_result_of_the_matrix_core(runtime: Runtime) -> None:
    reads_result = Step("V_ADD_F32", "VOP2", sources=(256, 300))
    reads_other = Step("V_ADD_F32", "VOP2", sources=(300, 301))

    assert cycles(runtime, [MATRIX, reads_result]) - cycles(runtime, [MATRIX, reads_other]) == 2 * 32 - 4


def test_matrix_instructions_accumulate_without_waiting(runtime: Runtime) -> None:
    on_itself = [MATRIX] * 10
    of_another = [MATRIX, MATRIX._replace(sources=(256, 302, 280), vdst=280)]

    assert cycles(runtime, on_itself) == pytest.approx(10 * 32, abs=32)
    assert cycles(runtime, of_another) == pytest.approx(64 + 4 + 4, abs=8)


def test_fma_on_all_compute_units_runs_at_the_peak_of_two_instructions_per_simd(runtime: Runtime) -> None:
    instructions, waves, groups = 8000, 16, 8 * UNITS
    result = timed(runtime, traced_launch([VALU] * instructions + [END], [[()] * waves], workgroups=groups, resident=2))

    flops = 2 * 64 * instructions * waves * groups
    peak_gflops = UNITS * TARGET.peaks.vector_flops_per_cu_clock["f32_packed"] * TARGET.max_clock_mhz / 1000
    assert flops / (result.cycles / TARGET.max_clock_mhz * 1000) == pytest.approx(peak_gflops, rel=0.03)


def test_the_first_load_waits_for_translation_and_memory(runtime: Runtime) -> None:
    result = timed(runtime, traced_launch([LOAD, WAIT_LOADS, END], [[vector_record(0, [0])]]))

    assert result.stall_cycles[1] == pytest.approx(TRANSLATION + TIMING.dram_latency, rel=0.05)
    assert result.hits.tolist() == [1, 1, 1]


def test_loads_in_flight_together_hide_latency_and_loads_waited_for_one_by_one_do_not(runtime: Runtime) -> None:
    lines = [[4096 * i] for i in range(8)]
    one_by_one = traced_launch(
        [LOAD, WAIT_LOADS] * 8 + [END], [[[w for i, a in enumerate(lines) for w in vector_record(2 * i, a)]]]
    )
    together = traced_launch([LOAD] * 8 + [WAIT_LOADS, END], [[[w for i, a in enumerate(lines) for w in vector_record(i, a)]]])

    saved = timed(runtime, one_by_one).cycles - timed(runtime, together).cycles
    assert saved == pytest.approx(7 * TIMING.dram_latency, rel=0.1)


def test_a_second_load_of_a_line_comes_from_the_vector_l1(runtime: Runtime) -> None:
    records = vector_record(0, [0]) + vector_record(2, [0])
    result = timed(runtime, traced_launch([LOAD, WAIT_LOADS, LOAD, WAIT_LOADS, END], [[records]]))

    assert result.stall_cycles[3] == pytest.approx(TIMING.vector_l1_latency, abs=8)
    assert result.counters["TCP_TCC_READ_REQ_sum"] == 1


def test_a_load_of_a_line_in_flight_waits_for_it(runtime: Runtime) -> None:
    records = vector_record(0, [0]) + vector_record(1, [0])
    both = timed(runtime, traced_launch([LOAD, LOAD, WAIT_LOADS, END], [[records]]))
    one = timed(runtime, traced_launch([LOAD, WAIT_LOADS, END], [[vector_record(0, [0])]]))

    assert both.cycles == pytest.approx(one.cycles, abs=16)
    assert both.counters["TCP_TCC_READ_REQ_sum"] == 1


def test_lines_a_power_of_two_apart_share_a_set_of_the_vector_l1(runtime: Runtime) -> None:
    def misses(pitch: int) -> float:
        lines = [pitch * i for i in range(128)]  # half of L1
        records = [w for step in range(4) for w in vector_record(step, lines[64 * (step % 2) :][:64])]
        result = timed(runtime, traced_launch([LOAD] * 4 + [WAIT_LOADS, END], [[records]]))
        return result.counters["TCP_TCC_READ_REQ_sum"]

    assert misses(128) == 128
    assert misses(512) == 256  # 64 ways hold half of the lines


def test_strided_access_is_slower_than_coalesced_access(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, END]
    coalesced = [[vector_record(0, [256 * w + 128 * s for s in range(2)]) for w in range(4)]]
    strided = [[vector_record(0, [64 * 4096 * w + 4096 * s for s in range(64)]) for w in range(4)]]

    fast = timed(runtime, traced_launch(steps, coalesced, workgroups=64 * UNITS, resident=8))
    slow = timed(runtime, traced_launch(steps, strided, workgroups=64 * UNITS, resident=8))

    assert slow.cycles > 10 * fast.cycles


def test_a_streaming_copy_reaches_the_achievable_bandwidth(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, STORE, END]
    groups = 1024 * UNITS

    def wave(index: int) -> list[int]:
        lines = [512 * index + 128 * s for s in range(4)]
        return vector_record(0, lines, cycles=8) + vector_record(2, [(1 << 30) + line for line in lines], cycles=8)

    launch = traced_launch(steps, [[wave(w) for w in range(4)]], workgroups=groups, resident=8)
    seconds = timed(runtime, launch).cycles / (TARGET.max_clock_mhz * 1e6)

    copied_gb_per_s = groups * 4 * 2 * 512 / seconds / 1e9
    bounds = (TIMING.achievable_dram_gb_per_s, TIMING.achievable_dram_write_gb_per_s)
    assert 0.95 * bounds[0] < copied_gb_per_s < 1.05 * bounds[1]


def test_bank_conflicts_occupy_the_lds(runtime: Runtime) -> None:
    steps = [LDS_READ] * 32 + [WAIT_LDS, END]

    def of(busy_cycles: int) -> float:
        records = [word for i in range(32) for word in lds_record(i, busy_cycles)]
        return timed(runtime, traced_launch(steps, [[records] * 4])).cycles

    assert of(32) - of(16) == pytest.approx(4 * 32 * 16, rel=0.05)


def test_a_full_queue_of_the_lds_stalls_the_issue(runtime: Runtime) -> None:
    records = [word for i in range(32) for word in lds_record(i, 64)]
    result = timed(runtime, traced_launch([LDS_READ] * 32 + [WAIT_LDS, END], [[records]]))

    assert result.stall_cycles[31] == pytest.approx(64 - TIMING.lds_issue_cycles, abs=4)


def test_a_full_queue_of_the_vector_l1_stalls_the_issue(runtime: Runtime) -> None:
    records = [word for i in range(40) for word in vector_record(i, [0], cycles=64)]
    result = timed(runtime, traced_launch([LOAD] * 40 + [WAIT_LOADS, END], [[records]]))

    assert result.stall_cycles[1] == 0
    assert result.stall_cycles[39] == pytest.approx(64 - 4, abs=4)


def test_a_barrier_waits_for_the_slowest_wave(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, BARRIER, END]
    quick, slow = vector_record(0, []), vector_record(0, [0])
    result = timed(runtime, traced_launch(steps, [[quick, slow]]))

    assert result.cycles > START + TRANSLATION + TIMING.dram_latency + TIMING.barrier_cycles
    assert result.stall_cycles[2] > TIMING.dram_latency / 2
    assert result.counters["SQ_WAIT_ANY"] > 2 * TIMING.dram_latency / 2 / 4


def test_a_wavefront_ends_after_its_stores(runtime: Runtime) -> None:
    result = timed(runtime, traced_launch([STORE, END], [[vector_record(0, [0])]]))

    assert result.cycles - START == pytest.approx(TRANSLATION + TIMING.store_latency, rel=0.05)


def test_a_load_without_a_record_does_not_take_the_next_ones(runtime: Runtime) -> None:
    steps = [LOAD, WAIT_LOADS, LOAD, WAIT_LOADS, END]
    result = timed(runtime, traced_launch(steps, [[vector_record(2, [0])]]))

    assert result.stall_cycles[1] < result.stall_cycles[3]


def test_many_rounds_cost_the_sum_of_each(runtime: Runtime) -> None:
    steps = [VALU] * 2000 + [END]
    few = timed(runtime, traced_launch(steps, [[()] * 4], workgroups=4 * UNITS, resident=1))
    many = timed(runtime, traced_launch(steps, [[()] * 4], workgroups=400 * UNITS, resident=1))

    assert many.cycles == pytest.approx(100 * few.cycles, rel=0.1)


@pytest.mark.parametrize("base", [0x7F00_0000_0000, 0x7F12_3456_7000])
@pytest.mark.parametrize("scratch", [0x1000, 0x7FFF_0000_0080])
def test_the_address_of_memory_does_not_change_the_time(runtime: Runtime, base: int, scratch: int) -> None:
    def launch(base: int, scratch: int) -> TracedLaunch:
        inside = [base + 4224 * i for i in range(64)]
        outside = [scratch + 128 * i for i in range(8)]
        records = vector_record(0, inside) + vector_record(1, outside)
        return traced_launch([LOAD, LOAD, WAIT_LOADS, END], [[records] * 4], workgroups=5000, resident=4, base=base)

    here, there = timed(runtime, launch(base, scratch)), timed(runtime, launch(1 << 40, 1 << 30))

    assert (here.duration_ns, here.counters) == (there.duration_ns, there.counters)


def test_a_target_without_parameters_is_refused(runtime: Runtime) -> None:
    with pytest.raises(TimingUnavailable, match="mi250x"):
        estimate(runtime, traced_launch([END]), mi250x().model_copy(update={"timing": None}))
