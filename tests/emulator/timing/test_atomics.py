"""Atomics of all workgroups to one address are serial, with `atomic_cycles` (8) each on MI300X."""

from __future__ import annotations

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.timing.engine import TimingEstimate, contention_cycles, estimate
from rocm_perf_lab.emulator.timing.stable_traces import stabilise
from tests.builders.targets import mi300x
from tests.builders.timed_launches import BUFFER_BYTES, END, LOAD, Step, straight_program, traced_launch, vector_record

ATOMIC = Step("GLOBAL_ATOMIC_ADD", "GLOBAL")
LDS_ATOMIC = Step("DS_ADD_U32", "DS")
WORKGROUPS = 30_000


def timed(step: Step, addresses: list[list[int]]) -> TimingEstimate:
    records = [[vector_record(0, own)] for own in addresses]
    return estimate(load_runtime(), traced_launch([step, END], records, workgroups=WORKGROUPS, resident=8), mi300x())


def test_a_shared_counter_is_busy_for_all_requests() -> None:
    assert timed(ATOMIC, [[0], [0]]).cycles == 8 * WORKGROUPS


def test_a_counter_per_workgroup_is_not() -> None:
    assert timed(ATOMIC, [[0], [1 << 20]]).cycles < WORKGROUPS


def test_loads_of_one_place_do_not_wait_for_each_other() -> None:
    assert timed(LOAD, [[0], [0]]).cycles < WORKGROUPS


def test_the_segment_with_most_requests_counts() -> None:
    program = straight_program([ATOMIC, ATOMIC, LOAD, END])
    waves = [
        [*vector_record(0, [0, 64]), *vector_record(1, [64]), *vector_record(2, [64])],
        [*vector_record(0, [64]), *vector_record(1, [128]), *vector_record(2, [64])],
    ]
    traces = stabilise(traced_launch([ATOMIC, ATOMIC, LOAD, END], [[wave] for wave in waves]).traces, [(0, BUFFER_BYTES)])

    cycles = contention_cycles(program, traces, workgroups=10, cycles_per_request=8)

    assert cycles == 3 * (10 / 2) * 8  # three atomics of two sampled workgroups meet in the second segment; loads do not count


def test_atomics_in_lds_do_not_count() -> None:
    program = straight_program([LDS_ATOMIC, END])

    assert contention_cycles(program, [], workgroups=10, cycles_per_request=8) == 0
