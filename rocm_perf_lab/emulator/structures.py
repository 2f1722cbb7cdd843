"""Structures of the C runtime (`runtime/wave.h`, `machine.h`, `checks.h`) for ctypes and for addresses in translated code.

A test compares sizes and offsets with those of the compiled structures.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

LANES = 64
VGPR_ROWS = 512
TEMP_ROWS = 16
SGPRS = 128
VCC, M0, NULL, EXEC = 106, 124, 125, 126
FIRST_AGPR_ROW = 256
FIRST_TEMP_ROW = VGPR_ROWS
USER_SGPR_SLOTS = 32
RECENT_PLACES = 4


class WaveStatus(IntEnum):
    """Reason for which a translated kernel returned."""

    ENDED = 0
    BARRIER = 1
    SLICE_OVER = 2
    FAULT = 3
    GRID_BARRIER = 4


class WaveState(ctypes.Structure):
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
        ("lane_count", ctypes.c_uint32),
        ("grid_barrier", ctypes.c_uint32),
        ("recent_places", ctypes.c_uint64 * RECENT_PLACES),
        ("recent_times", ctypes.c_uint32 * RECENT_PLACES),
        ("oldest_place", ctypes.c_uint32),
        ("memory_instructions", ctypes.c_uint32),
        ("load_address", ctypes.c_uint64),
    )


def offset_of(field: str) -> int:
    """Return the byte offset of a field of struct rpl_wave."""
    return int(getattr(WaveState, field).offset)


class FaultKind(IntEnum):
    """enum rpl_fault_kind."""

    NONE = 0
    MEMORY = 1
    MISALIGNED = 2
    LDS = 3
    SCRATCH = 4
    BUDGET = 5
    BARRIER = 6
    ILLEGAL = 7
    UNSUPPORTED = 8
    HOST_MEMORY = 9
    TRAP = 10
    HOST_CALL = 11
    STOPPED = 12


class AccessKind(IntEnum):
    """enum rpl_access."""

    LOAD = 0
    STORE = 1
    ATOMIC = 2


FILL = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
"""Callback that writes the content of the page at an address before the first access to it."""


class AllocationEntry(ctypes.Structure):
    """struct rpl_allocation."""

    _fields_ = (
        ("begin", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("freed", ctypes.c_uint64),
        ("written", ctypes.c_void_p),
        ("first_page", ctypes.c_uint64),
        ("pages", ctypes.c_void_p),
        ("filled", ctypes.c_void_p),
        ("fill", ctypes.c_void_p),
    )


class RunNumber(IntEnum):
    """enum rpl_run_number."""

    ONLY = 0
    FIRST = 1
    SECOND = 2


class RewoundPages(ctypes.Structure):
    """struct rpl_pages."""

    _fields_ = (
        ("first", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("state", ctypes.c_void_p),
        ("before", ctypes.c_void_p),
        ("after", ctypes.c_void_p),
        ("image", ctypes.c_void_p),
        ("image_pages", ctypes.c_uint64),
    )


class FaultRecord(ctypes.Structure):
    """struct rpl_fault."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("inst", ctypes.c_int32),
        ("access", ctypes.c_uint32),
        ("width_bytes", ctypes.c_uint32),
        ("lanes", ctypes.c_uint64),
        ("detail", ctypes.c_uint64),
        ("workgroup", ctypes.c_uint32 * 3),
        ("wave", ctypes.c_uint32),
        ("addresses", ctypes.c_uint64 * LANES),
    )


class MemoryCounters(ctypes.Structure):
    """struct rpl_counters."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "waves", "partial_waves", "work_items", "workgroups", "waves_below_48", "waves_below_32", "waves_below_16",
            "load_bytes", "store_bytes", "atomic_operations", "lds_bytes",
            "flat_read_waves", "flat_write_waves", "flat_atomic_waves",
            "buffer_read_waves", "buffer_write_waves", "buffer_atomic_waves",
            "lds_active_cycles", "lds_conflict_cycles",
            "read_accesses", "write_accesses", "atomic_accesses", "returning_accesses",
            "l1_lookups", "coalesced_waves",
            "write_segments", "atomic_segments", "returning_segments",
            "span_bytes", "address_sum",
        )
    )  # fmt: skip

    def as_dict(self) -> dict[str, int]:
        """Return the values by field name."""
        return {name: int(getattr(self, name)) for name, *_ in self._fields_}


class MachineState(ctypes.Structure):
    """struct rpl_machine, one per thread."""

    _fields_ = (
        ("allocations", ctypes.c_void_p),
        ("allocation_count", ctypes.c_uint64),
        ("last_hit", ctypes.c_uint64),
        ("concurrent", ctypes.c_uint64),
        ("run", ctypes.c_uint64),
        ("has_half_lines", ctypes.c_uint64),
        ("fault", FaultRecord),
        ("counters", MemoryCounters),
        ("footprint", ctypes.c_void_p),
        ("miss", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("wave_syncs", ctypes.c_void_p),
    )


class WaveTrace(ctypes.Structure):
    """struct rpl_trace."""

    _fields_ = (
        ("words", ctypes.POINTER(ctypes.c_uint64)),
        ("count", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
    )


class FindingRecord(ctypes.Structure):
    """struct rpl_finding."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("access", ctypes.c_uint32),
        ("width_bytes", ctypes.c_uint32),
        ("inst", ctypes.c_int32),
        ("other_inst", ctypes.c_int32),
        ("lanes", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("detail", ctypes.c_uint64),
        ("workgroup", ctypes.c_uint32 * 3),
        ("wave", ctypes.c_uint32),
        ("other_wave", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


class ChecksRecord(ctypes.Structure):
    """struct rpl_checks."""

    _fields_ = (
        ("enabled", ctypes.c_uint64),
        ("traits", ctypes.c_void_p),
        ("reported", ctypes.c_void_p),
        ("cells", ctypes.c_void_p),
        ("initialised", ctypes.c_void_p),
        ("released", ctypes.c_void_p),
        ("findings", ctypes.c_void_p),
        ("finding_count", ctypes.c_uint64),
        ("finding_capacity", ctypes.c_uint64),
        ("meeting", ctypes.c_uint64),
        ("clock", ctypes.c_uint32),
        ("waves_per_group", ctypes.c_uint32),
        ("one_barrier", ctypes.c_uint32),
        ("unseen_releases", ctypes.c_uint32),
        ("shadow", ctypes.c_void_p),
        ("epoch", ctypes.c_uint64),
        ("touched", ctypes.c_void_p),
        ("note", ctypes.c_void_p),
    )


ANSWER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32)
"""Callback that answers host calls of a wavefront: (workgroup, wavefront in it) -> :class:`HostCallOutcome`."""


class HostCallOutcome(IntEnum):
    """enum rpl_answer."""

    NOTHING_ASKED = 0
    ANSWERED = 1
    NONE = 2


class HostServicesRecord(ctypes.Structure):
    """struct rpl_host."""

    _fields_ = (("ready", ctypes.c_void_p), ("answer", ANSWER))


class LaunchRecord(ctypes.Structure):
    """struct rpl_launch."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("block_executions", ctypes.c_void_p),
        ("block_active_lanes", ctypes.c_void_p),
        ("sampled", ctypes.c_void_p),
        ("sampled_count", ctypes.c_uint64),
        ("traces", ctypes.c_void_p),
        ("budget", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("remainder", ctypes.c_uint32 * 3),
        ("user_sgprs", ctypes.c_uint32 * USER_SGPR_SLOTS),
        ("user_sgpr_count", ctypes.c_uint32),
        ("system_sgprs", ctypes.c_uint32),
        ("work_item_id_dims", ctypes.c_uint32),
        ("work_item_id_rows", ctypes.c_uint32),
        ("wave_size", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("lds_bytes", ctypes.c_uint32),
        ("lds_poison", ctypes.c_uint32),
        ("lds_step", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32),
        ("vgpr_rows", ctypes.c_uint32),
        ("agpr_rows", ctypes.c_uint32),
        ("slice_instructions", ctypes.c_uint32),
        ("resident_workgroups", ctypes.c_uint32),
        ("starts_together", ctypes.c_uint32),
        ("checks", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("chosen", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("load_address", ctypes.c_uint64),
        ("hooks", ctypes.c_void_p),
    )
