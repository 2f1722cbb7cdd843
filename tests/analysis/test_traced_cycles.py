"""Times of a thread trace add up: by class, by source line, and to the life of the wavefronts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.analysis.traced_cycles import TimeBalance, balance
from rocm_perf_lab.rocprof.att.timeline import summed
from tests.builders.att import PROVENANCE, thread_trace

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.att.model import AttTrace

CODE = [
    ("global_load_dword v1, v0, s[0:1]", "k.hip:10"), ("s_waitcnt vmcnt(0)", "k.hip:11 -> k.hip:2"), ("ds_read_b32 v9, v8", ""),
    ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "k.hip:10"), ("s_waitcnt lgkmcnt(0)", "k.hip:12"),
    ("s_nop 7", "k.hip:13"), ("v_accvgpr_read_b32 v9, a3", "k.hip:13"), ("s_endpgm", ""),
]  # fmt: skip
INSTRUCTION = st.tuples(st.integers(1, len(CODE)), st.integers(0, 50), st.integers(0, 900), st.integers(0, 20))


@st.composite
def traces(draw: st.DrawFn) -> AttTrace:
    """Of wavefronts that execute anything in any order, one instruction after the other, or overlapping each other."""
    issued = [
        [(row, idle, stall, stall + issue) for row, idle, stall, issue in draw(st.lists(INSTRUCTION, max_size=12))]
        for _ in range(draw(st.integers(1, 4)))
    ]
    trace = thread_trace(CODE, *issued)
    waves = []
    for wave in trace.waves:
        moved = wave.instructions.copy()
        if draw(st.booleans()) and len(moved):
            moved[:, 0] = np.sort(draw(st.lists(st.integers(0, 3000), min_size=len(moved), max_size=len(moved))))
        unplaced = draw(st.integers(0, len(moved)))
        moved[:unplaced, 4] += draw(st.sampled_from([0, 0, 1000]))
        waves.append(replace(wave, instructions=moved, end=wave.end + draw(st.integers(-5, 40))))
    rows = summed(trace.rows, waves, ("Latency", "Stall", "Idle"))
    return replace(trace, rows=rows, waves=tuple(waves[: draw(st.integers(1, len(waves)))]))


@settings(max_examples=100, deadline=None)
@given(traces())
def test_classes_and_lines_and_the_balance_are_the_same_cycles(trace: AttTrace) -> None:
    found = analyse(trace)

    if not isinstance(found, ThreadTrace):
        assert not any(row.cycles for row in trace.rows)
        return
    total = sum(row.cycles for row in trace.rows)
    parts = found.balance
    assert found.total.cycles == total == parts.instructions
    assert sum(spent.cycles for spent in found.classes.values()) == total
    assert sum(line.spent.cycles for line in found.lines) == total
    assert sum(line.caused_cycles for line in found.lines) == pytest.approx(total)
    assert total == parts.waves + parts.overlapped - parts.behind_last - parts.unplaced + parts.without_file
    assert parts.waves == sum(wave.end - wave.begin for wave in trace.waves)
    assert parts.overlapped >= 0
    assert found.stall_fraction + found.issue_fraction + found.idle_fraction == pytest.approx(1)
    assert all(charge.cycles > 0 for charge in found.charges)


@settings(max_examples=100, deadline=None)
@given(traces())
def test_no_stall_is_charged_twice(trace: AttTrace) -> None:
    found = analyse(trace)

    if isinstance(found, ThreadTrace):
        charged: dict[int, float] = {}
        for charge in found.charges:
            charged[charge.victim.line] = charged.get(charge.victim.line, 0.0) + charge.cycles
        stalls = {row.line: row.latency if row.text.startswith("s_waitcnt") else row.stall for row in trace.rows}
        assert all(cycles <= stalls[line] + 1e-6 for line, cycles in charged.items())


def test_sequential_instructions_cover_the_lifetime() -> None:
    trace = thread_trace(CODE, [(1, 4, 4, 8), (2, 0, 700, 700), (8, 8, 0, 4)])

    assert balance(trace, trace.rows) == TimeBalance(724, 724, 0, 0, 0, 0)


def test_overlapping_cycles_are_separate() -> None:
    """As of GFX10: the load is executed from 0 to 100, the next instruction begins at 4 and ends at 24, with the wave."""
    trace = thread_trace(CODE, [(1, 0, 0, 100), (7, 0, 0, 20)])
    moved = trace.waves[0].instructions.copy()
    moved[1, 0] = 4
    navi = replace(trace, provenance=replace(PROVENANCE, gfxip=10), waves=(replace(trace.waves[0], instructions=moved, end=110),))

    found = analyse(navi)

    assert balance(navi, navi.rows) == TimeBalance(120, 110, overlapped=20, behind_last=10, unplaced=0, without_file=0)
    assert isinstance(found, ThreadTrace)
    assert "of the wavefronts' cycles 18.2% are counted for several instructions at once" in found.limits
    assert "of the wavefronts' cycles 9.1% follow the last instruction" in found.limits


def test_a_lost_wave_file_is_missing_in_the_balance() -> None:
    trace = thread_trace(CODE, [(1, 0, 0, 40)], [(1, 0, 0, 60)])

    found = analyse(replace(trace, waves=trace.waves[:1]))

    assert isinstance(found, ThreadTrace)
    assert found.balance == TimeBalance(100, 40, 0, 0, 0, without_file=60)
    assert any("150.0% more are in the code totals than in readable wave files" in limit for limit in found.limits)
