"""Constants of instruction issue, several wavefronts on a SIMD, and matrix instructions (sections 1 to 3 of the sheet)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing.probes import Probe, run_probe
from benchmarks.timing.sheet_row import WAVE_NUMBER, Constant, best_rate, gap, rate, repeated

if TYPE_CHECKING:
    from collections.abc import Callable

_ADDRESS = "  v_lshlrev_b32 v1, 2, v0\n"
_TAKEN = """
  s_branch .Ltarget
.p2align 6
{padding}
.Ltarget:
  v_add3_u32 v2, v3, v4, v5
"""
_SPLIT = (
    WAVE_NUMBER
    + """
  s_barrier
  s_cmp_lt_u32 s8, 4
  s_cbranch_scc1 .Lother
{first}
  s_branch .Lend
.Lother:
{second}
.Lend:
"""
)
"""The wavefronts 4 to 7 execute `first`, the wavefronts 0 to 3 `second`, one of each on every SIMD."""
_MFMA32 = "v_mfma_f32_32x32x8_f16 a[{0}:{1}], v[2:3], v[4:5], a[{0}:{1}]"
_MFMA16 = "v_mfma_f32_16x16x16_f16 a[{0}:{1}], v[2:3], v[4:5], a[{0}:{1}]"
_LARGE, _LARGE_TOO = _MFMA32.format(0, 15), _MFMA32.format(16, 31)
_SMALL = [_MFMA16.format(4 * n, 4 * n + 3) for n in range(4)]
_PAUSE = ("s_nop 15",) * 3


def _after_mfma(successor: str) -> Callable[[], float]:
    return gap(repeated(4, _LARGE, successor, *_PAUSE), "v_mfma", successor.split()[0], setup="  v_mov_b32 v9, 0\n")


def _taken(padding: str) -> Callable[[], float]:
    return gap(_TAKEN.format(padding=padding), "s_branch", "v_add3")


def _per_slot(body: str, start: str, waves: int) -> Callable[[], float]:
    """Return a probe of the instructions per 4 clocks on one SIMD."""
    return lambda: 4 / best_rate(run_probe(Probe(body, waves=waves)), start, simd=0)


def _side_by_side(first: str, second: str, start: str) -> Callable[[], float]:
    """Return a probe of the mean interval of `start` in wavefronts that share their SIMD with wavefronts of another kind."""

    def measure() -> float:
        run = run_probe(Probe(_SPLIT.format(first=first, second=second), waves=8))
        found = [wave.find(start) for wave in run.waves]
        means = [(events[-1].issue - events[0].issue) / (len(events) - 1) for events in found if events]
        return float(np.median(means))

    return measure


def _barrier(*, last: bool) -> Callable[[], float]:
    """Return a probe of the clocks from the last arrival at a barrier to the next instruction of the last, or of the others."""
    skew = WAVE_NUMBER + "  s_lshl_b32 s9, s8, 3\n.Lskew:\n  s_sub_u32 s9, s9, 1\n  s_cmp_gt_i32 s9, 0\n  s_cbranch_scc1 .Lskew\n"

    def measure() -> float:
        run = run_probe(Probe(skew + "  s_barrier\n  v_mov_b32 v9, v8\n", waves=4))
        pairs = [next(wave.pairs("s_barrier", "v_mov")) for wave in run.waves]
        arrival = max(barrier.attempt for barrier, _ in pairs)
        chosen = [after.issue - arrival for barrier, after in pairs if (barrier.attempt == arrival) == last]
        return float(np.median(chosen))

    return measure


def _result_of_mfma() -> float:
    body = (
        "  v_mfma_f32_32x32x8_f16 v[8:23], v[2:3], v[4:5], v[8:23]\n  s_nop 15\n  s_nop 1\n  v_add_f32 v30, v8, v9\n"
        + repeated(1, *_PAUSE)
    )
    (wave,) = run_probe(Probe(body)).waves
    return float(wave.find("v_add")[0].issue - wave.find("v_mfma")[0].issue)


_VALU_RUN, _SALU_RUN = repeated(64, "v_add_f32 v1, v2, v3"), repeated(64, "s_add_u32 s9, s10, s11")
_MFMA_RUN = repeated(8, *_SMALL)

ISSUE: tuple[Constant, ...] = (
    Constant("VALU, then independent VALU", 4, 4, "H", gap(_VALU_RUN, "v_add", "v_add")),
    Constant("VALU, then VALU that reads the result", 4, 4, "H", gap(repeated(64, "v_add_f32 v1, v1, v3"), "v_add", "v_add")),
    Constant(
        "v_lshl_add_u64, then VALU",
        4,
        4,
        "H",
        gap(repeated(8, "v_lshl_add_u64 v[2:3], v[4:5], 0, v[6:7]", "v_mov_b32 v8, v9"), "v_lshl", "v_mov"),
    ),
    Constant(
        "v_mul_lo_u32, then VALU", 4, 4, "M", gap(repeated(8, "v_mul_lo_u32 v2, v3, v4", "v_mov_b32 v8, v9"), "v_mul", "v_mov")
    ),
    Constant("v_rcp_f32, then VALU", 16, 16, "M", gap(repeated(8, "v_rcp_f32 v2, v3", "v_mov_b32 v8, v9"), "v_rcp", "v_mov")),
    Constant("v_cvt_f16_f32, then the same", 4, 4, "H", gap(repeated(16, "v_cvt_f16_f32 v2, v3"), "v_cvt", "v_cvt")),
    Constant(
        "v_accvgpr_read, then VALU that reads the result",
        4,
        4,
        "H",
        gap(repeated(8, "v_accvgpr_read_b32 v2, a1", "v_add_f32 v3, v2, v4"), "v_accvgpr", "v_add"),
    ),
    Constant("VALU of 8 bytes in a row, each", 4, 5.11, "H", rate(repeated(64, "v_add3_u32 v1, v2, v3, v4"), "v_add3", waves=1)),
    Constant("SALU, then SALU", 4, 4, "H", gap(_SALU_RUN, "s_add", "s_add")),
    Constant(
        "SALU, then VALU that reads the SGPR",
        4,
        4,
        "H",
        gap("  s_mov_b32 s9, 5\n  v_add_f32 v1, s9, v2\n", "s_mov_b32 s9", "v_add"),
    ),
    Constant(
        "v_cmp, then unrelated SALU", 20, 20, "H", gap("  v_cmp_gt_f32 vcc, v2, v3\n  s_add_u32 s9, s10, s11\n", "v_cmp", "s_add")
    ),
    Constant(
        "v_readfirstlane, then SALU",
        20,
        20,
        "H",
        gap("  v_readfirstlane_b32 s9, v2\n  s_add_u32 s10, s9, s11\n", "v_read", "s_add"),
    ),
    Constant(
        "VALU, then vector memory",
        12,
        12,
        "H",
        gap(_ADDRESS + "  global_load_dword v2, v1, s[4:5]\n  s_waitcnt vmcnt(0)\n", "v_lshl", "global_load"),
    ),
    Constant(
        "VALU, then LDS", 12, 12, "H", gap(_ADDRESS + "  ds_read_b32 v2, v1\n  s_waitcnt lgkmcnt(0)\n", "v_lshl", "ds_read")
    ),
    Constant(
        "SALU, then branch",
        8,
        16,
        "H",
        gap("  s_cmp_lg_u32 s9, s9\n  s_cbranch_scc1 .Lx\n.Lx:\n", "s_cmp_lg_u32 s9", "s_cbranch"),
    ),
    Constant(
        "branch with a false condition, then next",
        4,
        4,
        "H",
        gap(
            "  s_cmp_lg_u32 s9, s9\n  v_mov_b32 v2, v3\n  s_cbranch_scc1 .Lx\n  v_add_f32 v2, v3, v4\n.Lx:\n",
            "s_cbranch",
            "v_add",
        ),
    ),
    Constant("branch, to its target", 20, 24, "H", _taken("")),
    Constant("branch, to a target across two 32-byte blocks", 36, 36, "H", _taken(repeated(7, "s_nop 0"))),
    *(
        Constant(
            f"s_nop {n}", 4 * (n + 1), 4 * (n + 1), "H", gap(repeated(4, f"s_nop {n}", "v_mov_b32 v2, v3"), "s_nop", "v_mov")
        )
        for n in (0, 1, 2, 4, 5, 7)
    ),
    Constant("s_setprio", 4, 4, "H", gap(repeated(4, "s_setprio 1", "s_setprio 0"), "s_setprio 1", "s_setprio 0")),
    Constant(
        "s_waitcnt, nothing pending", 4, 4, "H", gap(repeated(4, "s_waitcnt vmcnt(0)", "v_mov_b32 v2, v3"), "s_waitcnt", "v_mov")
    ),
    Constant("barrier, from the last arrival, last wavefront", 8, 8, "H", _barrier(last=True)),
    Constant("barrier, from the last arrival, others", 4, 8, "H", _barrier(last=False)),
    Constant("VALU per 4 clk, one wavefront per SIMD", 1, 1, "H", _per_slot(_VALU_RUN, "v_add", 4), ""),
    Constant("VALU per 4 clk, two wavefronts per SIMD", 1.77, 2, "H", _per_slot(_VALU_RUN, "v_add", 8), ""),
    Constant(
        "VALU with an SGPR operand per 4 clk, two wavefronts per SIMD",
        1,
        1,
        "H",
        _per_slot(repeated(64, "v_fmac_f32 v1, s9, v2"), "v_fmac", 8),
        "",
    ),
    Constant("VALU, while another wavefront executes MFMA", 4, 5.4, "H", _side_by_side(_VALU_RUN, _MFMA_RUN, "v_add_f32")),
    Constant("MFMA 16x16x16 of two wavefronts, per SIMD", 16, 16, "H", rate(_MFMA_RUN, "v_mfma", waves=8, simd=0)),
    Constant(
        "MFMA 32x32x8 of two wavefronts, per SIMD", 32, 32, "H", rate(repeated(16, _LARGE, _LARGE_TOO), "v_mfma", waves=8, simd=0)
    ),
    Constant("SALU of two wavefronts, per SIMD", 4, 4, "H", rate(_SALU_RUN, "s_add", waves=8, simd=0)),
    Constant("SALU, all four SIMDs, per SIMD", 4, 4, "H", rate(_SALU_RUN, "s_add", waves=4, simd=0)),
    Constant("VALU, while another wavefront executes SALU", 4, 4, "H", _side_by_side(_VALU_RUN, _SALU_RUN, "v_add_f32")),
    Constant("SALU, while another wavefront executes VALU", 4, 4.4, "H", _side_by_side(_VALU_RUN, _SALU_RUN, "s_add_u32 s9")),
    Constant("MFMA 32x32x8, then independent MFMA", 32, 32, "H", gap(repeated(8, _LARGE, _LARGE_TOO), "v_mfma", "v_mfma")),
    Constant("MFMA 32x32x8, then MFMA that accumulates on it", 32, 32, "H", gap(repeated(8, _LARGE), "v_mfma", "v_mfma")),
    Constant("MFMA 16x16x16, then independent MFMA", 16, 16, "H", gap(_MFMA_RUN, "v_mfma", "v_mfma")),
    Constant("MFMA, then SALU", 4, 4, "H", _after_mfma("s_add_u32 s9, s10, s11")),
    Constant("MFMA, then independent VALU", 4, 4, "H", _after_mfma("v_add_f32 v8, v9, v10")),
    Constant("MFMA, then LDS", 4, 4, "H", _after_mfma("ds_read_b32 v8, v9")),
    Constant("MFMA, then s_waitcnt, nothing pending", 8, 8, "H", _after_mfma("s_waitcnt vmcnt(0)")),
    Constant(
        "MFMA 32x32x8, to VALU that reads the result, after s_nop of the compiler",
        64,
        80,
        "M",
        _result_of_mfma,
    ),
)
