"""Constants of the start and end of wavefronts and dispatches (section 9 of the sheet)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.timing.probes import Probe, ProbeRun, run_probe
from benchmarks.timing.sheet_row import Constant, repeated

_UNITS = 304
_WAVES = 4
_LONG = repeated(2000, "s_nop 15")
_FILL = """
  s_lshl_b32 s8, s2, 12
  v_lshlrev_b32 v1, 4, v0
  v_add_u32 v1, s8, v1
  global_store_dwordx4 v1, v[4:7], s[6:7]
"""
"""Every work-item stores 16 bytes."""
_MIB = 1 << 20


def _filling(body: str, *, groups: int, lds_bytes: int = 64) -> ProbeRun:
    return run_probe(Probe(body, waves=_WAVES, workgroups=_UNITS * groups, repeat=False, lds_bytes=lds_bytes))


def _begins(run: ProbeRun) -> list[int]:
    """Return the begin of each workgroup of the CU: of every fourth wavefront."""
    return [wave.begin for wave in run.waves][::_WAVES]


def _first_instruction(*, cached: bool) -> float:
    run = _filling(repeated(64, "s_nop 7"), groups=24)
    begins = [wave.events[0].attempt - wave.begin for wave in run.waves]
    return float(np.median(begins[len(begins) // 2 :] if cached else begins[:_WAVES]))


def _wave_pace() -> float:
    run = _filling(repeated(64, "s_nop 7"), groups=1)
    return float(np.diff([wave.begin for wave in run.waves]).mean())


def _pace_while_filling() -> float:
    return float(np.median(np.diff(_begins(_filling(_LONG, groups=4)))))


def _replacement() -> float:
    run = _filling(repeated(200, "s_nop 15"), groups=4, lds_bytes=65536)
    groups = [run.waves[n : n + _WAVES] for n in range(0, len(run.waves), _WAVES)]
    gaps = [min(w.begin for w in later) - max(w.end for w in one) for one, later in pairwise(groups)]
    return float(np.median(gaps))


def _fill(mib: int) -> ProbeRun:
    return run_probe(Probe(_FILL, waves=_WAVES, workgroups=mib << 8, output_bytes=mib * _MIB, repeat=False))


def _fill_outside_waves(mib: int) -> float:
    run = _fill(mib)
    active = max(wave.end for wave in run.waves) - min(wave.begin for wave in run.waves)
    return (run.nanoseconds - active / run.clock_ghz) / 1000


WAVES: tuple[Constant, ...] = (
    Constant(
        "begin of a wavefront to its first instruction, first of a launch",
        542,
        1178,
        "H",
        lambda: _first_instruction(cached=False),
    ),
    Constant("begin of a wavefront to its first instruction, code cached", 28, 32, "H", lambda: _first_instruction(cached=True)),
    Constant("begin of successive wavefronts of a workgroup", 4, 4, "H", _wave_pace),
    Constant("begin of successive workgroups of a CU while the GPU fills", 254, 304, "H", _pace_while_filling),
    Constant("end of a workgroup to the begin of its successor", 48, 175, "M", _replacement),
    Constant("fill of 4 MiB, duration outside of wavefronts", 1.27, 1.99, "M", lambda: _fill_outside_waves(4), "us"),
    Constant("fill of 8 MiB, duration outside of wavefronts", 2.2, 2.7, "M", lambda: _fill_outside_waves(8), "us"),
    Constant("fill of 16 MiB, duration outside of wavefronts", 3.1, 4.5, "H", lambda: _fill_outside_waves(16), "us"),
    Constant("fill of 4 MiB, repeated", 4.9, 5.3, "H", lambda: _fill(4).nanoseconds / 1000, "us"),
    Constant("fill of 8 MiB, repeated", 5.7, 5.9, "H", lambda: _fill(8).nanoseconds / 1000, "us"),
    Constant("fill of 16 MiB, repeated", 6.3, 7.3, "H", lambda: _fill(16).nanoseconds / 1000, "us"),
)
