"""Small hand-written thread traces: `thread_trace(rows, waves)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import (
    AttProvenance,
    AttTrace,
    Category,
    Column,
    InstructionRow,
    KernelLabel,
    Wave,
    WaveKey,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PROVENANCE = AttProvenance("ui_output_agent_7_dispatch_3", 7, 3, "3.0.0", 9, "rocprofv3", emulated=False)
KERNEL = KernelLabel(0, "_Z6kernelPf", "kernel(float*)", 1, 0x1000)

_CATEGORIES = {
    "s_waitcnt": Category.IMMEDIATE, "s_barrier": Category.IMMEDIATE, "s_nop": Category.IMMEDIATE,
    "s_load": Category.SMEM, "s_cbranch": Category.JUMP, "s_endpgm": Category.MESSAGE, "s_": Category.SALU,
    "v_": Category.VALU, "ds_": Category.LDS, "global_": Category.FLAT, "buffer_": Category.VMEM, "flat_": Category.FLAT,
    "scratch_": Category.FLAT,
}  # fmt: skip


def wave(issued: Sequence[tuple[int, int, int, int]], texts: Sequence[str], key: WaveKey) -> Wave:
    """Return one wavefront that begins at 0.

    Args:
        issued: (row, idle, stall, latency) of each instruction that it executed, in order.
        texts: The code, from row 1 on.
        key: Hardware slot.
    """
    time, rows = 0, []
    for row, idle, stall, latency in issued:
        time += idle
        kind = next(kind for prefix, kind in _CATEGORIES.items() if texts[row - 1].startswith(prefix))
        rows.append((time, kind, stall, latency, row))
        time += latency
    instructions = np.array(rows, dtype=np.int64).reshape(-1, len(Column))
    return Wave(key, 1, 0, 0, time, instructions, np.array([[2, time]], dtype=np.int64).reshape(-1, 2))


def thread_trace(code: Sequence[tuple[str, str]], *issued: Sequence[tuple[int, int, int, int]]) -> AttTrace:
    """Return a trace of one kernel whose row 0 is its label.

    Args:
        code: (instruction, source line), from row 1 on.
        issued: For each wavefront, (row, idle, stall, latency) of each instruction that it executed.
    """
    texts = [text for text, _ in code]
    waves = tuple(wave(one, texts, WaveKey(0, 0, 0, number)) for number, one in enumerate(issued))
    totals = totals_of(issued)
    rows = tuple(
        InstructionRow(line, text, source, 1, 0x1000 + 8 * (line - 1), *totals.get(line, (0, 0, 0, 0)))
        for line, (text, source) in enumerate(code, start=1)
    )
    return AttTrace(PROVENANCE, rows, (KERNEL,), waves)


def totals_of(issued: Sequence[Sequence[tuple[int, int, int, int]]]) -> dict[int, tuple[int, int, int, int]]:
    """Return hits, latency, stall and idle time by row."""
    totals: dict[int, tuple[int, int, int, int]] = {}
    for one in issued:
        for row, idle, stall, latency in one:
            hits, *sums = totals.get(row, (0, 0, 0, 0))
            totals[row] = (hits + 1, sums[0] + latency, sums[1] + stall, sums[2] + idle)
    return totals
