"""Atomics of all workgroups to one line are serial: 4 clocks per request and 20 per further lane of a word on MI300X."""

from __future__ import annotations

import numpy as np

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.timing.engine import TimingEstimate, contention_cycles, estimate
from rocm_perf_lab.emulator.timing.stable_traces import stabilise
from tests.builders.targets import mi300x
from tests.builders.timed_launches import BUFFER_BYTES, END, LOAD, Step, straight_program, traced_launch, vector_record

ATOMIC = Step("GLOBAL_ATOMIC_ADD", "GLOBAL")
LDS_ATOMIC = Step("DS_ADD_U32", "DS")
WORKGROUPS = 30_000
ONES = np.ones(10)


def timed(step: Step, lines: list[list[int]]) -> TimingEstimate:
    records = [[vector_record(0, own, serial=24)] for own in lines]
    return estimate(load_runtime(), traced_launch([step, END], records, workgroups=WORKGROUPS, resident=8), mi300x())


def test_a_shared_counter_is_busy_for_all_requests() -> None:
    assert timed(ATOMIC, [[0], [0]]).cycles == 24 * WORKGROUPS


def test_a_counter_per_workgroup_is_not() -> None:
    assert timed(ATOMIC, [[0], [1 << 20]]).cycles < 24 * WORKGROUPS / 2


def test_loads_of_one_place_do_not_wait_for_each_other() -> None:
    assert timed(LOAD, [[0], [0]]).cycles < 24 * WORKGROUPS / 2


def test_the_line_with_most_requests_counts() -> None:
    program = straight_program([ATOMIC, ATOMIC, LOAD, END])
    waves = [
        [*vector_record(0, [0, 128], serial=16), *vector_record(1, [128], serial=8), *vector_record(2, [128])],
        [*vector_record(0, [128], serial=8), *vector_record(1, [256], serial=8), *vector_record(2, [128])],
    ]
    traces = stabilise(traced_launch([ATOMIC, ATOMIC, LOAD, END], [[wave] for wave in waves]).traces, [(0, BUFFER_BYTES)])

    cycles = contention_cycles(program, traces, np.arange(10) % 2, ONES)

    assert cycles == (8 + 8) * 5 + 8 * 5  # five workgroups of each trace meet in the second line; loads do not count


def test_atomics_in_lds_do_not_count() -> None:
    assert contention_cycles(straight_program([LDS_ATOMIC, END]), [], np.zeros(0, np.int64), np.zeros(0)) == 0
