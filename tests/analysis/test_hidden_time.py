"""Waiting is hidden while another wavefront of the same SIMD issues: by hand, and against counting every cycle."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.traced_cycles import hidden_cycles
from rocm_perf_lab.rocprof.att.model import AttTrace, Category, Column, WaveKey
from rocm_perf_lab.rocprof.att.timeline import idle_cycles
from tests.builders.att import thread_trace

CODE = [
    ("global_load_dword v1, v0, s[0:1]", "k.hip:10"), ("s_waitcnt vmcnt(0)", "k.hip:11"),
    ("v_add_f32_e32 v1, v1, v1", "k.hip:12"), ("s_nop 7", ""), ("s_endpgm", ""),
]  # fmt: skip


def on_simds(trace: AttTrace, *simds: int) -> AttTrace:
    waves = tuple(
        replace(wave, key=WaveKey(0, simd, 0, n)) for n, (wave, simd) in enumerate(zip(trace.waves, simds, strict=True))
    )
    return replace(trace, waves=waves)


def test_waiting_is_hidden_while_other_wavefronts_issue() -> None:
    # The first waits from 4 to 104; the second issues for it from 20 to 60, and pauses, which is no use of a pipe.
    trace = thread_trace(CODE, [(1, 0, 0, 4), (2, 0, 100, 100)], [(3, 20, 0, 40), (4, 0, 30, 30)])

    # The second's idle time from 0 to 20 is hidden while the first issues from 0 to 4.
    assert hidden_cycles(on_simds(trace, 0, 0)) == {2: 40, 3: 4}
    assert hidden_cycles(on_simds(trace, 0, 1)) == {}


def counted(trace: AttTrace) -> dict[int, int]:
    """Every cycle of every wavefront, one after the other."""
    pipes = {Category.SMEM, Category.SALU, Category.VMEM, Category.FLAT, Category.LDS, Category.VALU, Category.BVH}
    found: dict[int, int] = {}
    for simd in {wave.key.simd for wave in trace.waves}:
        waves = [wave for wave in trace.waves if wave.key.simd == simd]
        busy = set[int]()
        for wave in waves:
            for time, kind, stall, duration, _ in wave.instructions.tolist():
                if kind in pipes:
                    busy.update(range(time + stall, time + duration))
        for wave in waves:
            idle = idle_cycles(wave.begin, wave.instructions).tolist()
            for (time, _, stall, _, line), gap in zip(wave.instructions.tolist(), idle, strict=True):
                if hidden := len(busy & set(range(time - gap, time + stall))):
                    found[line] = found.get(line, 0) + hidden
    return found


INSTRUCTION = st.tuples(st.integers(1, len(CODE)), st.integers(0, 9), st.integers(0, 30), st.integers(0, 9))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.lists(INSTRUCTION, max_size=8), st.integers(0, 1), st.booleans()), min_size=1, max_size=4))
def test_hidden_time_matches_cycle_by_cycle_counting(drawn: list[tuple[list[tuple[int, int, int, int]], int, bool]]) -> None:
    trace = thread_trace(CODE, *([(row, idle, stall, stall + issue) for row, idle, stall, issue in one] for one, _, _ in drawn))
    trace = on_simds(trace, *(simd for _, simd, _ in drawn))
    overlapping = []
    for wave, (_, _, squeezed) in zip(trace.waves, drawn, strict=True):
        moved = wave.instructions.copy()
        if squeezed:  # as of GFX10: instructions are executed at the same time
            moved[:, Column.TIME] //= 2
        overlapping.append(replace(wave, instructions=moved))
    trace = replace(trace, waves=tuple(overlapping))

    assert hidden_cycles(trace) == counted(trace)
