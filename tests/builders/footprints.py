"""Footprints of launches whose accesses are given line by line, for tests of the model of the shared caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.footprint import LINE_ACCESS, LINE_BYTES, WINDOWS, LineFootprint
from rocm_perf_lab.emulator.structures import AccessKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

ADDRESS = 0x1000
"""Address of the only buffer."""
ALL_SECTORS = 15


def accesses(
    lines: ArrayLike,
    times: ArrayLike | None = None,
    *,
    kind: AccessKind = AccessKind.LOAD,
    sectors: int = ALL_SECTORS,
    scalar: bool = False,
    dwords: int = 32,
) -> NDArray[np.void]:
    """Return accesses of one workgroup to whole or partial lines, one after the other if `times` is omitted."""
    numbers = np.asarray(lines, dtype=np.uint64)
    result = np.zeros(len(numbers), dtype=LINE_ACCESS)
    fields = sectors << 47 | kind << 51 | scalar << 53 | (dwords - 1) << 58
    result["place"] = numbers | np.uint64(fields)
    result["time"] = np.arange(len(numbers)) if times is None else times
    return result


def footprint(workgroups: Sequence[NDArray[np.void]], *, sampling: int = 1) -> LineFootprint:
    """Return a footprint from the accesses of each workgroup; with `sampling` only every such line remains, by a hash."""
    kept = [group[_sampled(group["place"] & np.uint64(0xFFFFFFFF), sampling)] for group in workgroups]
    for number, group in enumerate(kept):
        group["workgroup"] = number
    longest = max((int((group["place"] & np.uint64(0xFFFFFFFF)).max(initial=0)) for group in workgroups), default=0)
    return LineFootprint(
        accesses=np.concatenate(kept),
        first=np.cumsum([0, *map(len, kept)]).astype(np.uint64),
        memory_instructions=np.array([int(group["time"].max(initial=0)) + 1 for group in workgroups], dtype=np.uint32),
        sampling=sampling,
        allocations=((ADDRESS, (longest + 1) * LINE_BYTES),),
        channel_windows=np.zeros((1, WINDOWS, 16), dtype=np.uint64),
    )


def _sampled(lines: NDArray[np.uint64], sampling: int) -> NDArray[np.bool_]:
    """Return which lines are the chosen one of their group, by a hash that differs from that of the runtime."""
    group = lines // np.uint64(sampling)
    hashed = (group * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    chosen: NDArray[np.bool_] = lines % np.uint64(sampling) == hashed % np.uint64(sampling)
    return chosen
