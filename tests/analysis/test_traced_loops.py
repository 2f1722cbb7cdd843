"""Loops, occupancy and clock of thread traces that one can count by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rocm_perf_lab.analysis.traced_cycles import shader_clock_hz, waves_per_simd
from rocm_perf_lab.analysis.traced_loops import loops
from rocm_perf_lab.rocprof.att.model import AttTrace, Category, Clocks, Column
from tests.builders.att import thread_trace

CODE = [
    ("s_mov_b32 s0, 4", "k:1"), ("v_add_f32_e32 v1, v1, v1", "k:3"), ("v_mul_f32_e32 v1, v1, v1", "k:4"),
    ("s_cbranch_scc1 65530", "k:3"), ("s_cbranch_vccnz 65520", "k:2"), ("s_swappc_b64 s[30:31], s[4:5]", "k:6"), ("s_endpgm", ""),
]  # fmt: skip


def executed(*waves: list[int]) -> AttTrace:
    """Wavefronts that executed these rows, 4 cycles each; a branch that was not taken is NEXT."""
    trace = thread_trace(CODE, *([(row, 0, 0, 4) for row in rows] for rows in waves))
    fixed = []
    for wave in trace.waves:
        table = wave.instructions.copy()
        is_branch = np.isin(table[:, Column.LINE], [4, 5, 6])
        taken = np.append(table[1:, Column.LINE] != table[:-1, Column.LINE] + 1, False)
        table[:, Column.CATEGORY] = np.where(is_branch, np.where(taken, Category.JUMP, Category.NEXT), Category.VALU)
        fixed.append(replace(wave, instructions=table))
    return replace(trace, waves=tuple(fixed))


def test_a_loop_has_turns_and_cycles_per_turn() -> None:
    trace = executed([1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 5, 7], [1, 2, 3, 4, 5, 7])

    (loop,) = loops(trace, trace.rows)

    # Entered once by each wavefront: 3 turns and 1 turn of 12 cycles each, of 72 cycles in all.
    assert (loop.first.line, loop.last.line, loop.turns, loop.turns_per_entry) == (2, 4, 4, 2.0)
    assert (loop.cycles, loop.cycles_per_turn, loop.share) == (48, 12.0, 48 / 72)
    assert loop.source == "k:3-4"


def test_an_outer_loop_includes_its_inner_loop() -> None:
    trace = executed([1, 2, 3, 4, 2, 3, 4, 5, 1, 2, 3, 4, 5, 7])

    outer, inner = loops(trace, trace.rows)

    assert (outer.first.line, outer.last.line, outer.turns, outer.turns_per_entry) == (1, 5, 2, 2.0)
    assert (inner.first.line, inner.last.line, inner.turns, inner.turns_per_entry) == (2, 4, 3, 1.5)
    assert outer.cycles == 4 * 13


def test_a_call_backwards_is_not_a_loop() -> None:
    assert loops(executed([1, 6, 2, 3, 7]), executed([1]).rows) == ()


def test_a_loop_of_one_instruction_and_a_trace_without_wavefronts() -> None:
    trace = executed([4, 4, 4, 5])

    assert [(loop.first.line, loop.last.line, loop.turns) for loop in loops(trace, trace.rows)] == [(4, 4, 3)]
    assert loops(replace(trace, waves=()), trace.rows) == ()


def events(*rows: tuple[int, int, int, int, int, int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def test_waves_per_simd_is_wavefront_time_over_simd_time() -> None:
    # On SIMD 0 one wave from 0 to 100 and one from 50 to 100; on SIMD 1 one from 0 to 50: 200 cycles of 2 x 100.
    table = events((0, 1, 0, 0, 1, 1), (0, 1, 1, 0, 1, 1), (50, 1, 0, 1, 1, 1), (50, 1, 1, 0, 0, 1), (100, 1, 0, 0, 0, 1),
                   (100, 1, 0, 1, 0, 1))  # fmt: skip
    trace = replace(thread_trace(CODE), occupancy={3: table})

    assert waves_per_simd(trace) == 1.0
    assert waves_per_simd(trace, {2}) is None
    assert waves_per_simd(replace(trace, occupancy={})) is None


def test_a_wave_that_started_before_the_trace_only_ends_in_it() -> None:
    trace = replace(thread_trace(CODE), occupancy={0: events((40, 1, 0, 0, 1, 1), (50, 1, 0, 1, 0, 1), (60, 1, 0, 0, 0, 1))})

    assert waves_per_simd(trace) == pytest.approx(30 / 20)


@pytest.mark.parametrize(
    ("pairs", "hertz"),
    [
        ({}, None),
        ({0: [(5, 5)]}, None),
        ({0: [(9, 9), (9, 9)]}, None),
        ({0: [(0, 0), (2100, 100)], 1: [(7, 3), (7 + 1900, 103)]}, 2.0e9),
    ],
)
def test_the_shader_clock_needs_two_samples(pairs: dict[int, list[tuple[int, int]]], hertz: float | None) -> None:
    clocks = Clocks(100_000_000, {engine: np.array(rows, dtype=np.int64) for engine, rows in pairs.items()})

    assert shader_clock_hz(clocks) == hertz
    assert shader_clock_hz(None) is None
