"""Timelines of wavefronts: an aggregated overview, and the states of each wavefront in chunks that are decoded on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.att.model import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.report.chunks import Chunks
    from rocm_perf_lab.rocprof.att.model import AttTrace, Wave

_BINS = 600
"""Points in time of the overview."""
_STATES_PER_CHUNK = 60_000
_SHOWN_STATES = (State.EXEC, State.WAIT, State.STALL, State.IDLE)


def wavefronts(trace: AttTrace, chunks: Chunks) -> dict[str, Any]:
    """Return the wavefronts of a trace.

    Args:
        trace: Thread trace with at least one wavefront.
        chunks: Receives the states of the wavefronts.

    Returns:
        `start` and `end` in cycles; `overview`: mean number of wavefronts in each state, in equal bins of time; `lanes`: SIMDs
        with the mean number of wavefronts per bin; `waves`: key, begin, end, workgroup, and the chunk with their states.
    """
    ordered = sorted(trace.waves, key=lambda wave: (wave.key, wave.begin))
    start, end = min(wave.begin for wave in ordered), max(wave.end for wave in ordered)
    edges = np.linspace(start, end, _BINS + 1)
    totals = {state: np.zeros(_BINS) for state in _SHOWN_STATES}
    for wave in ordered:
        for state, counts in totals.items():
            counts += _coverage(_spans(wave, state), edges)
    width = (end - start) / _BINS or 1.0
    return {
        "start": start,
        "end": end,
        "states": [state.name.lower() for state in _SHOWN_STATES],
        "overview": [_rounded(totals[state] / width) for state in _SHOWN_STATES],
        "waves": _listed(ordered, chunks),
        "simds": _simds(ordered, edges, width),
    }


def _listed(waves: Sequence[Wave], chunks: Chunks) -> list[list[Any]]:
    """Return (engine, SIMD, slot, number, compute unit, begin, end, workgroup, chunk, place in the chunk) per wavefront."""
    groups: list[list[Wave]] = [[]]
    states = 0
    for wave in waves:
        if states > _STATES_PER_CHUNK:
            groups.append([])
            states = 0
        groups[-1].append(wave)
        states += len(wave.timeline)
    rows: list[list[Any]] = []
    for group in groups:
        name = chunks.add("waves", [wave.timeline.astype(int).tolist() for wave in group])
        rows += [
            [*wave.key, wave.compute_unit, wave.begin, wave.end, wave.workgroup, name, place] for place, wave in enumerate(group)
        ]
    return rows


def _simds(waves: Sequence[Wave], edges: NDArray[np.float64], width: float) -> list[dict[str, Any]]:
    """Return the mean number of resident wavefronts per SIMD and bin."""
    found: dict[tuple[int, int, int], NDArray[np.float64]] = {}
    for wave in waves:
        key = (wave.key.engine, wave.compute_unit, wave.key.simd)
        counts = found.setdefault(key, np.zeros(len(edges) - 1))
        counts += _coverage(np.array([[wave.begin, wave.end]], dtype=float), edges)
    return [
        {"engine": engine, "compute_unit": unit, "simd": simd, "waves": _rounded(counts / width)}
        for (engine, unit, simd), counts in sorted(found.items())
    ]


def _spans(wave: Wave, state: State) -> NDArray[np.float64]:
    """Return begin and end of the intervals in which a wavefront is in a state, shape (n, 2)."""
    ends = wave.begin + np.cumsum(wave.timeline[:, 1])
    begins = ends - wave.timeline[:, 1]
    chosen = wave.timeline[:, 0] == state
    return np.stack((begins[chosen], ends[chosen]), axis=1).astype(float)


def _coverage(spans: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the time inside disjoint intervals for each bin between consecutive edges."""
    if not len(spans):
        return np.zeros(len(edges) - 1)
    # Total covered time up to a point is linear inside each interval and constant between them.
    points = spans.reshape(-1)
    covered = np.repeat(np.concatenate(([0.0], np.cumsum(spans[:, 1] - spans[:, 0]))), 2)[1:-1]
    return np.diff(np.interp(edges, points, covered, left=0.0, right=float(covered[-1])))


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 3) for value in values]
