"""Timelines of wavefronts, totals of instructions and state curves, computed from executed instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import Category, Column, State, StateCurve

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rocm_perf_lab.rocprof.att.model import InstructionRow, Integers, Wave


def timeline(begin: int, instructions: Integers) -> Integers:
    """Return states and their cycles, shape (m, 2), of a wavefront that executed `instructions`, shape (n, 5), in sequence.

    As in hardware traces, the gap before the first instruction is IDLE and further gaps count as EXEC; a stall is WAIT for
    instructions of category IMMEDIATE (waits, barriers), else STALL.
    """
    if not len(instructions):
        return np.zeros((0, 2), np.int64)
    stall = instructions[:, Column.STALL]
    is_wait = instructions[:, Column.CATEGORY] == Category.IMMEDIATE
    states = np.full((len(instructions), 3), State.EXEC, np.int64)
    states[0, 0] = State.IDLE
    states[:, 1] = np.where(is_wait, State.WAIT, State.STALL)
    cycles = np.stack([idle_cycles(begin, instructions), stall, instructions[:, Column.DURATION] - stall], axis=1)
    spent = cycles.ravel() > 0
    flat, lengths = states.ravel()[spent], cycles.ravel()[spent]
    if not len(flat):
        return np.zeros((0, 2), np.int64)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
    return np.stack([flat[starts], np.add.reduceat(lengths, starts)], axis=1)


def idle_cycles(begin: int, instructions: Integers) -> Integers:
    """Return the gap before each instruction, shape (n,): from the latest previous end, or from the wavefront's start."""
    times = instructions[:, Column.TIME]
    ends = np.maximum.accumulate(np.concatenate([[begin], times + instructions[:, Column.DURATION]]))[:-1]
    gaps: Integers = np.maximum(times - ends, 0)
    return gaps


def summed(rows: Sequence[InstructionRow], waves: Iterable[Wave], columns: Collection[str]) -> tuple[InstructionRow, ...]:
    """Return the rows with these columns (`Latency`, `Stall` or `Idle`) summed over wavefronts."""
    lines = np.array([row.line for row in rows], dtype=np.int64)
    order = np.argsort(lines)
    totals = {name: np.zeros(len(rows), np.int64) for name in ("latency", "stall", "idle")}
    for wave in waves:
        one = wave.instructions
        place = order[np.minimum(np.searchsorted(lines[order], one[:, Column.LINE]), len(rows) - 1)]
        known = lines[place] == one[:, Column.LINE]
        parts = {"latency": one[:, Column.DURATION], "stall": one[:, Column.STALL], "idle": idle_cycles(wave.begin, one)}
        for name, cycles in parts.items():
            np.add.at(totals[name], place[known], cycles[known])
    for name, cycles in totals.items():
        if name.capitalize() not in columns:
            cycles[:] = [getattr(row, name) for row in rows]
    return tuple(
        replace(row, latency=latency, stall=stall, idle=idle)
        for row, latency, stall, idle in zip(rows, *(cycles.tolist() for cycles in totals.values()), strict=True)
    )


def state_curves(waves: Iterable[Wave]) -> Mapping[State, StateCurve]:
    """Return the number of wavefronts in each state over time."""
    changes: dict[State, list[Integers]] = {}
    for wave in waves:
        ends = wave.begin + np.cumsum(wave.timeline[:, 1])
        for state in (State.IDLE, State.EXEC, State.WAIT, State.STALL):
            mine = wave.timeline[:, 0] == state
            up, down = (ends - wave.timeline[:, 1])[mine], ends[mine]
            changes.setdefault(state, []).extend(
                np.stack([times, np.full(len(times), step)], axis=1) for times, step in ((up, 1), (down, -1)) if len(times)
            )
    return {state: _curve(state, np.concatenate(parts)) for state, parts in changes.items() if parts}


def _curve(state: State, changes: Integers) -> StateCurve:
    times, place = np.unique(changes[:, 0], return_inverse=True)
    steps = np.zeros(len(times), np.int64)
    np.add.at(steps, place, changes[:, 1])
    return StateCurve(state.name, times, np.cumsum(steps))
