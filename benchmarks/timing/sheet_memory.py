"""Constants of LDS, scalar loads, vector memory and stores (sections 4 to 8 of the sheet)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing.probes import Probe, ProbeRun, run_probe
from benchmarks.timing.sheet_row import Constant, best_rate, gap, latency, repeated

if TYPE_CHECKING:
    from collections.abc import Callable

_LDS = {width: f"  v_lshlrev_b32 v1, {shift}, v0\n" for width, shift in (("b16", 1), ("b64", 3), ("b128", 4))}
_LDS_WAIT, _VMEM_WAIT = "  s_waitcnt lgkmcnt(0)\n", "  s_waitcnt vmcnt(0)\n"
_SOURCE = {"b16": "v8", "b64": "v[8:9]", "b128": "v[8:11]"}

_LANE = "  v_and_b32 v1, 63, v0\n"
_STRIDED = _LANE + "  v_lshlrev_b32 v1, 8, v1\n"
_HALVES = "  v_and_b32 v1, 31, v0\n  v_lshlrev_b32 v1, 8, v1\n"
_ROWS = """
  v_and_b32 v1, 31, v0
  v_lshlrev_b32 v1, 1, v1
  v_and_b32 v2, 32, v0
  v_lshlrev_b32 v2, 7, v2
  v_add_u32 v1, v1, v2
"""
_COALESCED = _LANE + "  v_lshlrev_b32 v1, 4, v1\n"
_OWN_LINES = (
    _LANE + "  v_lshlrev_b32 v1, 7, v1\n  v_lshrrev_b32 v2, 6, v0\n  v_lshlrev_b32 v2, {shift}, v2\n  v_add_u32 v1, v1, v2\n"
)
"""Every lane another line of 128 bytes, every wavefront another region."""
_NEXT_LINES = "  v_add_u32 v1, 0x2000, v1\n"
_WAVES = 4
_FIRST_REGION = 1 << 15
_BURSTING_UNITS = 64


def _read(width: str, times: int) -> str:
    return repeated(times, f"ds_read_{width} v[4:{5 if width == 'b64' else 7}], v1") + _LDS_WAIT


def _write(width: str, times: int) -> str:
    return repeated(times, f"ds_write_{width} v1, {_SOURCE[width]}") + _LDS_WAIT


def _write_latency(width: str) -> Callable[[], float]:
    return latency(_write(width, 1), "ds_write", setup=_LDS[width])


def _write_issue(width: str) -> Callable[[], float]:
    body = f"  ds_write_{width} v1, {_SOURCE[width]}\n  v_mov_b32 v30, v31\n" + _LDS_WAIT
    return gap(body, "ds_write", "v_mov", setup=_LDS[width])


def _loaded_read() -> float:
    body = repeated(11, "ds_read_b64 v[4:5], v1") + "  ds_read_b64 v[60:61], v1\n" + _LDS_WAIT
    return run_probe(Probe(body, setup=_LDS["b64"], waves=_WAVES)).latency("ds_read_b64 v[60:61]")


def _lds_interval(operation: Callable[[str, int], str], width: str) -> Callable[[], float]:
    """Return a probe of the clocks per LDS instruction of a CU with four wavefronts."""

    def busy(times: int) -> int:
        run = run_probe(Probe("  s_barrier\n" + operation(width, times), setup=_LDS[width], waves=_WAVES))
        return run.busy(first="ds_")

    return lambda: (busy(14) - busy(6)) / (8 * _WAVES)


def _interval(setup: str, *loads: str) -> Callable[[], float]:
    """Return a probe of the clocks per load of a CU whose four wavefronts load the same lines, which are in L1."""

    def busy(times: int) -> int:
        run = run_probe(Probe("  s_barrier\n" + repeated(times, *loads) + _VMEM_WAIT, setup=setup, waves=_WAVES))
        return run.busy(first="global_load")

    return lambda: (busy(12) - busy(4)) / (8 * len(loads) * _WAVES)


def _interval_from_l2() -> float:
    """Return the clocks per strided load of 64 lines that are in L2 and no longer in L1."""

    def busy(times: int) -> int:
        load = repeated(times, "global_load_dwordx4 v[4:7], v1, s[4:5]", _NEXT_LINES.strip())
        setup = _OWN_LINES.format(shift=18) + "  v_mov_b32 v3, v1\n"
        run = run_probe(Probe("  v_mov_b32 v1, v3\n  s_barrier\n" + load + _VMEM_WAIT, setup=setup, waves=_WAVES))
        return run.busy(first="global_load")

    return (busy(24) - busy(12)) / (12 * _WAVES)


def _l2_latency() -> float:
    body = "  v_mov_b32 v1, v3\n" + repeated(
        16, "global_load_dwordx4 v[4:7], v1, s[4:5]", _VMEM_WAIT.strip(), _NEXT_LINES.strip()
    )
    setup = _OWN_LINES.format(shift=18) + "  v_mov_b32 v3, v1\n"
    return run_probe(Probe(body, setup=setup)).latency("global_load")


def _miss_burst() -> float:
    """Return the bytes per clock and CU of loads that miss L2, with 64 CUs active, which HBM can feed."""
    data = np.zeros(_BURSTING_UNITS * _FIRST_REGION, np.uint32)

    def busy(times: int) -> int:
        setup = _OWN_LINES.format(shift=15) + "  s_lshl_b32 s8, s2, 17\n  v_add_u32 v1, s8, v1\n"
        load = repeated(times, "global_load_dwordx4 v[4:7], v1, s[4:5]", _NEXT_LINES.strip())
        run = run_probe(Probe(setup + load + _VMEM_WAIT, waves=_WAVES, workgroups=_BURSTING_UNITS, data=data, repeat=False))
        return run.busy(first="global_load", last="s_waitcnt vmcnt")

    return 2 * _WAVES * 64 * 128 / (busy(4) - busy(2))


def _first_load(prefix: str) -> float:
    """Return the latency of the first scalar or vector load of the first wavefront of a launch."""
    body = "  v_lshlrev_b32 v1, 4, v0\n  global_load_dwordx4 v[4:7], v1, s[4:5]\n" + _VMEM_WAIT
    return run_probe(Probe(body, repeat=False)).latency(prefix)


def _store_to_end(*, streaming: bool) -> float:
    store = "  global_store_dwordx4 v1, v[4:7], s[6:7]\n"
    body = "  s_lshl_b32 s8, s2, 12\n  v_lshlrev_b32 v1, 4, v0\n  v_add_u32 v1, s8, v1\n"
    if not streaming:  # the translation of the page is not cold
        body += store + _VMEM_WAIT
    workgroups = 4096 if streaming else 1
    run = run_probe(Probe(body + store, waves=_WAVES, workgroups=workgroups, output_bytes=workgroups << 12, repeat=False))
    return float(np.median([wave.end - wave.find("global_store")[-1].issue for wave in run.waves]))


def _short_stores() -> float:
    body = repeated(32, "global_store_short v1, v8, s[6:7]")
    run: ProbeRun = run_probe(Probe(body, setup=_ROWS, waves=_WAVES))
    return best_rate(run, "global_store")


def _vector(width: str) -> str:
    return {
        "x4": "global_load_dwordx4 v[4:7], v1, s[4:5]",
        "x2": "global_load_dwordx2 v[4:5], v1, s[4:5]",
        "short": "global_load_ushort v4, v1, s[4:5]",
    }[width]


_ITERATION_SETUP = _HALVES + _ROWS.replace("v1", "v20").replace("v2,", "v21,").replace(", v2\n", ", v21\n")

MEMORY: tuple[Constant, ...] = (
    Constant("LDS read of 8 bytes, latency", 63, 97, "M", latency(_read("b64", 1), "ds_read", setup=_LDS["b64"])),
    Constant("LDS read of 8 bytes, last of 12, four wavefronts", 88, 96, "H", _loaded_read),
    Constant("LDS read of 16 bytes, latency", 60, 80, "H", latency(_read("b128", 1), "ds_read", setup=_LDS["b128"])),
    Constant(
        "LDS read of 2 x 8 bytes, latency",
        76,
        280,
        "H",
        latency("  ds_read2_b64 v[4:7], v1 offset1:64\n" + _LDS_WAIT, "ds_read2", setup=_LDS["b64"], waves=4),
    ),
    Constant("LDS write of 2 bytes, latency", 52, 60, "M", _write_latency("b16")),
    Constant("LDS write of 8 bytes, latency", 60, 64, "H", _write_latency("b64")),
    Constant("LDS write of 16 bytes, latency", 76, 84, "M", _write_latency("b128")),
    Constant(
        "LDS read, then VALU",
        4,
        4,
        "H",
        gap("  ds_read_b64 v[4:5], v1\n  v_mov_b32 v30, v31\n" + _LDS_WAIT, "ds_read", "v_mov", setup=_LDS["b64"]),
    ),
    Constant("LDS read, then LDS read, one wavefront", 8, 8, "H", gap(_read("b64", 8), "ds_read", "ds_read", setup=_LDS["b64"])),
    Constant(
        "LDS read, then LDS read, four wavefronts",
        16,
        16,
        "H",
        gap(_read("b64", 15), "ds_read", "ds_read", setup=_LDS["b64"], waves=4),
    ),
    Constant("LDS write of 2 bytes, then VALU", 8, 8, "H", _write_issue("b16")),
    Constant("LDS write of 8 bytes, then VALU", 12, 12, "H", _write_issue("b64")),
    Constant("LDS write of 16 bytes, then VALU", 20, 20, "H", _write_issue("b128")),
    Constant("LDS reads of 8 bytes, per CU", 3.9, 4.1, "H", _lds_interval(_read, "b64")),
    Constant("LDS reads of 16 bytes, per CU", 7.8, 8.2, "H", _lds_interval(_read, "b128")),
    Constant("LDS writes of 2 bytes, per CU", 3.9, 4.1, "M", _lds_interval(_write, "b16")),
    Constant("LDS writes of 8 bytes, per CU", 5.8, 6.2, "H", _lds_interval(_write, "b64")),
    Constant("LDS writes of 16 bytes, per CU", 12.6, 13.4, "H", _lds_interval(_write, "b128")),
    Constant("scalar load, first of a launch", 233, 1035, "H", lambda: _first_load("s_load")),
    Constant(
        "scalar load, line in the scalar cache", 40, 40, "H", latency("  s_load_dword s9, s[4:5], 0x0\n" + _LDS_WAIT, "s_load")
    ),
    Constant(
        "interval of 4-byte loads of one address",
        3.5,
        4.2,
        "M",
        _interval("  v_mov_b32 v1, 0\n", "global_load_dword v4, v1, s[4:5]"),
    ),
    Constant("interval of 16-byte loads, 64 lines", 60, 68, "H", _interval(_STRIDED, _vector("x4"))),
    Constant("interval of 8-byte loads, 32 lines twice", 60, 68, "H", _interval(_HALVES, _vector("x2"))),
    Constant("interval of 2-byte loads, 32 lines twice", 60, 68, "H", _interval(_HALVES, _vector("short"))),
    Constant("interval of 2-byte loads, 32 neighbours in 2 rows", 4, 4.2, "H", _interval(_ROWS, _vector("short"))),
    Constant("interval of 16-byte loads, coalesced", 12, 20, "M", _interval(_COALESCED, _vector("x4"))),
    Constant("interval of 16-byte loads, 64 lines from L2", 120, 132, "M", _interval_from_l2),
    Constant(
        "interval of 4 strided and 4 row loads of 2 bytes, mean",
        33,
        35,
        "H",
        _interval(_ITERATION_SETUP, *([_vector("short")] * 4 + [_vector("short").replace("v1", "v20")] * 4)),
    ),
    Constant(
        "vector load, L1 hit, 64 lines",
        160,
        172,
        "M",
        latency(f"  {_vector('x4')}\n" + _VMEM_WAIT, "global_load", setup=_STRIDED),
    ),
    Constant("vector load, L2 hit, 64 lines", 304, 394, "L", _l2_latency),
    Constant("vector load, first of a launch", 1520, 5272, "H", lambda: _first_load("global_load")),
    Constant("loads that miss L2, four wavefronts per CU", 16, 19, "M", _miss_burst, "B/clk/CU"),
    Constant(
        "store, then VALU",
        4,
        8,
        "H",
        gap(repeated(2, "global_store_short v1, v8, s[6:7]", "v_mov_b32 v30, v31"), "global_store", "v_mov", setup=_ROWS),
    ),
    Constant("stores of 2 bytes, 32 neighbours in 2 rows, per CU", 6, 8, "M", _short_stores),
    Constant("last store to the end of the wavefront, one workgroup", 112, 272, "H", lambda: _store_to_end(streaming=False)),
    Constant("last store to the end of the wavefront, fill", 728, 3628, "H", lambda: _store_to_end(streaming=True)),
)
