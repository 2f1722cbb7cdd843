"""Decoded thread traces of the size of a real GEMM trace: loops of loads, LDS and matrix instructions in many wavefronts.

The wavefronts differ: each omits a few instructions at random, as branches do.
"""

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
from rocm_perf_lab.rocprof.att.writer import write_trace

if TYPE_CHECKING:
    from pathlib import Path

SYMBOL = "gemm_kernel"


def _tile(number: int) -> str:
    first = 16 * (number % 4)
    return f"a[{first}:{first + 15}]"


_BODY: tuple[tuple[str, Category, int], ...] = (
    *((f"global_load_dwordx4 v[{8 + 4 * i}:{11 + 4 * i}], v[0:1], off offset:{16 * i}", Category.FLAT, 4) for i in range(8)),
    ("s_waitcnt vmcnt(4)", Category.IMMEDIATE, 0),
    *((f"ds_write_b128 v2, v[{8 + 4 * i}:{11 + 4 * i}] offset:{64 * i}", Category.LDS, 16) for i in range(4)),
    ("s_waitcnt vmcnt(0)", Category.IMMEDIATE, 0),
    *((f"ds_write_b128 v2, v[{24 + 4 * i}:{27 + 4 * i}] offset:{256 + 64 * i}", Category.LDS, 16) for i in range(4)),
    ("s_waitcnt lgkmcnt(0)", Category.IMMEDIATE, 0),
    ("s_barrier", Category.IMMEDIATE, 0),
    *((f"ds_read_b128 v[{48 + 4 * i}:{51 + 4 * i}], v3 offset:{64 * i}", Category.LDS, 16) for i in range(8)),
    ("s_waitcnt lgkmcnt(0)", Category.IMMEDIATE, 0),
    *(
        (f"v_mfma_f32_32x32x8_f16 {_tile(i)}, v[{48 + 2 * i}:{49 + 2 * i}], v[{50 + 2 * i}:{51 + 2 * i}], {_tile(i)}",
         Category.VALU, 32)
        for i in range(16)
    ),
    *((f"v_add_u32_e32 v{i}, 64, v{i}", Category.VALU, 4) for i in range(16)),
    ("s_add_i32 s4, s4, -1", Category.SALU, 4),
    ("s_cmp_lg_u32 s4, 0", Category.SALU, 4),
    ("s_cbranch_scc1 65400", Category.JUMP, 8),
)  # fmt: skip
_OMITTED = 0.02
_WAITS = ("s_waitcnt", "s_barrier")


def generate(directory: Path, *, waves: int, instructions: int, seed: int = 1) -> Path:
    """Write a trace directory of `waves` wavefronts with about `instructions` instructions each, and return its path."""
    random = np.random.default_rng(seed)
    turns = instructions // len(_BODY)
    every = np.tile(np.arange(1, len(_BODY) + 1), turns)
    made = []
    totals = np.zeros((len(_BODY) + 1, 4), np.int64)
    for number in range(waves):
        lines = every[random.random(len(every)) >= _OMITTED]
        category = np.array([kind for _, kind, _ in _BODY], np.int64)[lines - 1]
        issue = np.array([cycles for _, _, cycles in _BODY], np.int64)[lines - 1]
        waits = np.array([text.startswith(_WAITS) for text, _, _ in _BODY])[lines - 1]
        stall = np.where(waits, 4 * random.geometric(0.01, len(lines)), 4 * random.poisson(0.4, len(lines)))
        duration = stall + issue
        idle = 4 * random.poisson(0.1, len(lines))
        time = 1000 * number + np.cumsum(idle + duration) - duration
        rows = np.empty((len(lines), len(Column)), np.int32)
        for place, values in zip(Column, (time, category, stall, duration, lines), strict=True):
            rows[:, place] = values
        for column, values in enumerate((np.ones_like(lines), duration, stall, idle)):
            np.add.at(totals[:, column], lines, values)
        states = np.stack([np.where(waits, 3, 2), idle + duration], axis=1)
        key = WaveKey(0, number % 4, number // 4 % 8, number // 32)
        made.append(Wave(key, 1, number, 1000 * number, int(time[-1] + duration[-1]), rows, states))
    code = tuple(
        InstructionRow(line, text, f"gemm.hip:{20 + line // 4}", 1, 0x1000 + 8 * line, *totals[line].tolist())
        for line, (text, _, _) in enumerate(_BODY, start=1)
    )
    provenance = AttProvenance("ui_output_agent_1_dispatch_1", 1, 1, "3.0.0", 9, "rocprofv3", emulated=False)
    return write_trace(AttTrace(provenance, code, (KernelLabel(0, SYMBOL, SYMBOL, 1, 0x1000),), tuple(made)), directory)
