"""The wavefront's state as `runtime/wave.h` lays it out, for ctypes and for the translator's address arithmetic."""

from __future__ import annotations

import ctypes
from enum import IntEnum

LANES = 64
VGPR_ROWS = 512
TEMP_ROWS = 16
SGPRS = 128
VCC, M0, EXEC = 106, 124, 126
FIRST_AGPR_ROW = 256
FIRST_TEMP_ROW = VGPR_ROWS


class Status(IntEnum):
    """Why a translated kernel returned."""

    ENDED = 0
    BARRIER = 1
    SLICE_OVER = 2
    FAULT = 3


class Wave(ctypes.Structure):
    """struct rpl_wave."""

    _fields_ = (
        ("vgpr", ctypes.c_uint32 * LANES * (VGPR_ROWS + TEMP_ROWS)),
        ("sgpr", ctypes.c_uint32 * SGPRS),
        ("scc", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("resume", ctypes.c_uint32),
        ("slice", ctypes.c_int64),
        ("block_executions", ctypes.c_void_p),
        ("block_active_lanes", ctypes.c_void_p),
        ("lds", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("machine", ctypes.c_void_p),
        ("trace", ctypes.c_void_p),
        ("lds_bytes", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32),
        ("workgroup", ctypes.c_uint32 * 3),
        ("wave_in_workgroup", ctypes.c_uint32),
        ("slice_end", ctypes.c_int64),
        ("group", ctypes.c_void_p),
        ("workgroup_number", ctypes.c_uint32),
        ("waves_in_workgroup", ctypes.c_uint32),
        ("vgpr_rows", ctypes.c_uint32),
        ("agpr_rows", ctypes.c_uint32),
    )


def offset_of(field: str) -> int:
    """Byte offset of a field of struct rpl_wave."""
    return int(getattr(Wave, field).offset)
