"""Wavefronts of a thread trace as slices for a Perfetto trace: one track per hardware slot, one slice per state.

A thread trace is recorded in a separate run, in cycles of the shader clock. Its tracks begin at 0, and one nanosecond in Perfetto
is one cycle: times cannot be converted, because the clock frequency varies during a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.att.model import AttTrace, Wave

    Integers = NDArray[np.int64]

TITLE = "Wavefronts (thread trace, 1 ns is 1 cycle)"
STATE_NAMES = tuple(state.name.lower() for state in State)


@dataclass(frozen=True, eq=False)
class SlotTimeline:
    """States of the wavefronts of one hardware slot in order of time; arrays have one entry per state.

    `state` indexes :data:`STATE_NAMES`; `begin` and `end` are cycles from the beginning of the trace.
    """

    simd: str
    slot: str
    begin: Integers
    end: Integers
    state: Integers
    wavefront: Integers


def slot_timelines(trace: AttTrace, *, max_states: int) -> tuple[list[SlotTimeline], int]:
    """Return the timelines of the slots of a thread trace, and the number of omitted states.

    Args:
        trace: Thread trace.
        max_states: Maximum number of states; further wavefronts are omitted.
    """
    if not trace.waves:
        return [], 0
    origin = min(wave.begin for wave in trace.waves)
    # Wavefronts of one slot cannot overlap: the later one was decoded from a different pass, and is omitted.
    ordered = sorted(trace.waves, key=lambda wave: (_slot(wave), wave.begin, wave.end))
    kept: list[Wave] = []
    states = omitted = 0
    for wave in ordered:
        states += len(wave.timeline)
        overlaps = bool(kept) and _slot(kept[-1]) == _slot(wave) and wave.begin < kept[-1].end
        if states > max_states or overlaps:
            omitted += len(wave.timeline)
        else:
            kept.append(wave)
    return [_timeline(list(waves), origin) for _, waves in groupby(kept, _slot)], omitted


def _slot(wave: Wave) -> tuple[int, int, int, int]:
    return wave.key.engine, wave.compute_unit, wave.key.simd, wave.key.slot


def _timeline(waves: Sequence[Wave], origin: int) -> SlotTimeline:
    engine, unit, simd, slot = _slot(waves[0])
    ends = [wave.begin - origin + np.cumsum(wave.timeline[:, 1]) for wave in waves]
    begins = [end - wave.timeline[:, 1] for end, wave in zip(ends, waves, strict=True)]
    state = np.concatenate([wave.timeline[:, 0] for wave in waves]).astype(np.int64)
    number = np.repeat([wave.key.number for wave in waves], [len(wave.timeline) for wave in waves]).astype(np.int64)
    begin, end = np.concatenate(begins).astype(np.int64), np.concatenate(ends).astype(np.int64)
    shown = (state != State.EMPTY) & (end > begin)
    return SlotTimeline(f"SE{engine} CU{unit} SIMD{simd}", f"slot {slot}", begin[shown], end[shown], state[shown], number[shown])
