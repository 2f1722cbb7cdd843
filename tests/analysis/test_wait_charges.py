"""Charges of waits against counting every cycle of every wait."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.rocprof.att.effects import row_effects
from rocm_perf_lab.rocprof.att.model import AttTrace, Column
from rocm_perf_lab.rocprof.att.waits import Follower
from tests.builders.att import thread_trace

CODE = [
    ("global_load_dword v1, v0, s[0:1]", "a:1"), ("buffer_store_dword v1, v0, s[8:11], 0 offen", "a:2"),
    ("ds_read_b32 v9, v8", "a:3"), ("s_load_dwordx2 s[0:1], s[4:5], 0x0", "a:4"), ("flat_load_dword v3, v[2:3]", "a:5"),
    ("v_add_f32_e32 v2, v1, v1", "a:6"), ("s_waitcnt vmcnt(0)", "b:1"), ("s_waitcnt vmcnt(1)", "b:2"),
    ("s_waitcnt lgkmcnt(0)", "b:3"), ("s_waitcnt lgkmcnt(1)", "b:4"), ("s_waitcnt vmcnt(1) lgkmcnt(0)", "b:5"),
    ("s_barrier", "b:6"),
]  # fmt: skip
INSTRUCTION = st.tuples(st.integers(1, len(CODE)), st.integers(0, 9), st.integers(0, 40), st.integers(1, 9))


def counted(trace: AttTrace) -> dict[tuple[int, int], float]:
    """(row that waited, row that it waited for) -> cycles, one cycle after the other."""
    follower = Follower({row.line: row_effects(row.text, 9) for row in trace.rows}, 9)
    charged: dict[tuple[int, int], float] = defaultdict(float)
    for wave in trace.waves:
        executed = wave.instructions.tolist()
        links = follower.counter_links(
            follower.numbered(wave.instructions[:, Column.LINE], wave.instructions[:, Column.CATEGORY])
        )
        waits: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for victim, cause, counter in zip(links.victims.tolist(), links.causes.tolist(), links.counters.tolist(), strict=True):
            waits[victim].append((cause, counter))
        # A wait is over when it is done, anything else is under way when it is issued.
        issued = [
            time + (took if CODE[line - 1][0].startswith("s_waitcnt") else stall) for time, _, stall, took, line in executed
        ]
        for victim, causes in waits.items():
            returns = {}
            for cause, counter in causes:
                took = issued[victim] - issued[max(other for other, by in causes if by == counter)]
                returns[cause, counter] = issued[cause] + took
            for cycle in range(executed[victim][0], issued[victim]):
                out = [cause for (cause, _), back in returns.items() if back > cycle]
                for cause in out:
                    charged[executed[victim][4], executed[cause][4]] += 1 / len(out)
    return {pair: cycles for pair, cycles in charged.items() if cycles}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(INSTRUCTION, max_size=14), min_size=1, max_size=2))
def test_charges_match_cycle_by_cycle_counting(drawn: list[list[tuple[int, int, int, int]]]) -> None:
    trace = thread_trace(CODE, *([(row, idle, stall, stall + issue) for row, idle, stall, issue in one] for one in drawn))

    found = analyse(trace)

    if not isinstance(found, ThreadTrace):
        return
    sums: dict[tuple[int, int], float] = defaultdict(float)
    for charge in found.charges:
        sums[charge.victim.line, charge.cause.line] += charge.cycles
    assert sums == pytest.approx(counted(trace))
    is_wait = {line for line, (text, _) in enumerate(CODE, start=1) if text.startswith("s_waitcnt")}
    waited = sum(cycles for (victim, _), cycles in sums.items() if victim in is_wait)
    assert found.wait_cycles == pytest.approx(waited + found.unattributed_cycles)


def test_a_wavefront_that_began_before_the_trace_has_waits_for_older_operations() -> None:
    trace = thread_trace(CODE, [(7, 0, 300, 300), (1, 0, 0, 4), (7, 0, 80, 80)])

    found = analyse(trace)

    assert isinstance(found, ThreadTrace)
    assert [(charge.cause.line, charge.cycles) for charge in found.charges] == [(1, 80)]
    assert (found.wait_cycles, found.unattributed_cycles) == (380, 300)


def test_an_operation_without_a_place_in_the_code_is_outstanding_all_the_same() -> None:
    trace = thread_trace(CODE, [(1, 0, 0, 4), (1, 0, 0, 4), (8, 0, 92, 92), (7, 0, 40, 40)])
    moved = trace.waves[0].instructions.copy()
    moved[1, Column.LINE] = 9999

    found = analyse(replace(trace, waves=(replace(trace.waves[0], instructions=moved),)))

    assert isinstance(found, ThreadTrace)
    assert [(charge.victim.line, charge.cause.line, charge.cycles) for charge in found.charges] == [(8, 1, 92)]
    assert found.unattributed_cycles == 40


def test_the_matrix_core_is_charged_only_as_long_as_a_result_may_take() -> None:
    code = [
        ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "m:1"), ("v_accvgpr_read_b32 v9, a3", "m:2"),
        ("s_endpgm", ""),
    ]  # fmt: skip

    found = analyse(thread_trace(code, [(1, 0, 0, 16), (2, 0, 1000, 1004), (3, 0, 0, 4)]))

    assert isinstance(found, ThreadTrace)
    assert [(charge.victim.line, charge.cause.line, charge.cycles) for charge in found.charges] == [(2, 1, 64)]


def test_times_that_run_backwards_charge_nothing_below_zero() -> None:
    trace = thread_trace(CODE, [(1, 0, 0, 4), (7, 0, 50, 50), (1, 0, 0, 4), (7, 0, 50, 50)])
    moved = trace.waves[0].instructions[::-1].copy()
    moved[:, Column.LINE] = [1, 7, 1, 7]

    found = analyse(replace(trace, waves=(replace(trace.waves[0], instructions=moved),)))

    assert isinstance(found, ThreadTrace)
    assert all(charge.cycles > 0 for charge in found.charges)
    assert all(np.isfinite(latency.mean) and latency.mean >= 0 for latency in found.memory_latency.values())


def test_the_time_of_a_wait_counts_where_it_is_called_execution() -> None:
    """As RDNA may have it: no stall, and a duration until the data came."""
    trace = thread_trace(CODE, [(1, 0, 0, 4), (7, 0, 0, 300), (6, 0, 0, 4)])

    found = analyse(trace)

    assert isinstance(found, ThreadTrace)
    assert [(charge.victim.line, charge.cause.line, charge.cycles) for charge in found.charges] == [(7, 1, 300)]
    assert (found.wait_cycles, found.unattributed_cycles, found.memory_latency["vmem"].mean) == (300, 0, 304)


def test_a_wait_for_what_no_memory_operation_counts_is_not_charged_to_one() -> None:
    code = [("global_store_dword v0, v1, off", "a:1"), ("s_waitcnt_depctr 0xffe3", "a:2"), ("s_waitcnt_vscnt null, 0x0", "a:3")]
    trace = thread_trace(code, [(1, 0, 0, 4), (2, 0, 50, 50), (3, 0, 70, 70)])

    found = analyse(replace(trace, provenance=replace(trace.provenance, gfxip=10)))

    assert isinstance(found, ThreadTrace)
    assert [(charge.victim.line, charge.cause.line, charge.cycles) for charge in found.charges] == [(3, 1, 70)]
    assert (found.wait_cycles, found.unattributed_cycles) == (120, 50)
