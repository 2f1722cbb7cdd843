"""Structures of the timing engine (`runtime/timing.h`) for ctypes."""

from __future__ import annotations

import ctypes
from enum import IntEnum, IntFlag


class ExecutionUnit(IntEnum):
    """Unit that an instruction occupies (enum rpl_unit)."""

    VALU = 0
    SCALAR = 1
    SMEM = 2
    LOAD = 3
    STORE = 4
    LDS = 5
    BRANCH = 6
    WAIT = 7
    BARRIER = 8
    END = 9
    INTERNAL = 10
    MATRIX = 11
    ATOMIC = 12


class TimedFlag(IntFlag):
    """Properties of an instruction (enum rpl_timed_flag)."""

    NONE = 0
    CONSTANT = 1
    EXCLUSIVE = 2
    WRITES_SGPR = 4
    LDS_WRITE = 8
    TO_LDS = 16
    RETURNS = 32
    BYPASSES_L1 = 64
    INVALIDATES_L1 = 128


class TimedInstruction(ctypes.Structure):
    """struct rpl_timed_instruction."""

    _fields_ = (
        ("unit", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cycles", ctypes.c_uint32),
        ("issue_cycles", ctypes.c_uint32),
        ("vmcnt", ctypes.c_int32),
        ("lgkmcnt", ctypes.c_int32),
        ("size", ctypes.c_uint32),
        ("producer", ctypes.c_uint32),
        ("producer_cycles", ctypes.c_uint32),
        ("dwords", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
    )


class TimedBlock(ctypes.Structure):
    """struct rpl_timed_block."""

    _fields_ = (("first", ctypes.c_uint32), ("count", ctypes.c_uint32))


class TimedWave(ctypes.Structure):
    """struct rpl_timed_wave."""

    _fields_ = (("words", ctypes.c_void_p), ("count", ctypes.c_uint64))


class LineSources(ctypes.Structure):
    """struct rpl_line_sources."""

    _fields_ = tuple(
        (name, ctypes.c_double)
        for name in ("load_l2", "load_pending", "load_mall", "store_l2", "store_mall", "atomic_l2", "atomic_mall")
    )


class CuParameters(ctypes.Structure):
    """struct rpl_cu_parameters."""

    _fields_ = (
        *(
            (name, ctypes.c_uint32)
            for name in (
                "simds", "barrier_cycles", "branch_taken_cycles", "branch_straddling_cycles",
                "scalar_cached_latency", "scalar_latency", "scalar_cold_latency", "lds_latency", "lds_write_latency",
                "l1_latency", "l2_latency", "mall_latency", "dram_latency", "store_latency", "atomic_latency",
                "l1_lines", "l1_ways", "l2_lines", "mall_lines", "scalar_lines", "instruction_lines", "outstanding_lines",
                "vector_queue", "lds_queue_cycles", "lds_issue_cycles",
                "valu_to_memory_cycles", "valu_to_scalar_cycles", "scalar_to_branch_cycles", "matrix_to_wait_cycles",
                "fetch_block_cycles", "first_fetch_cycles", "wave_start_cycles", "instruction_miss_cycles",
                "launch_cycles", "replace_cycles", "tlb_entries", "tlb_page_shift", "tlb_miss_cycles",
                "tlb_cold_cycles", "l2_burst_cycles", "store_cycles",
            )
        ),
        *(
            (name, ctypes.c_double)
            for name in (
                "lds_write_factor", "l2_port_bytes", "l2_bytes", "mall_bytes", "mall_write_bytes", "dram_bytes",
                "dram_write_bytes",
            )
        ),
    )  # fmt: skip


class CuCounters(ctypes.Structure):
    """struct rpl_cu_counters: clocks and events of one compute unit, summed over its wavefronts."""

    _fields_ = tuple(
        (name, ctypes.c_double)
        for name in (
            "cycles", "wave_cycles", "busy_cycles", "wait_cycles", "wait_issue_cycles", "wait_lds_cycles",
            "active_valu", "active_matrix", "active_scalar", "active_vector_memory", "active_lds", "active_other",
            "valu_busy_cycles", "matrix_busy_cycles", "address_busy_cycles", "lds_busy_cycles",
            "level_vector_memory", "level_lds", "level_scalar_memory", "level_fetch",
            "l1_lookups", "l1_hits", "l1_wait_cycles", "l1_queue_cycles",
            "l2_reads", "l2_writes", "l2_atomics_returning", "l2_atomics", "l2_hits", "l2_misses",
            "dram_reads", "dram_writes",
            "memory_instructions", "fetches", "instruction_hits", "instruction_misses",
            "scalar_requests", "scalar_hits", "scalar_misses", "tlb_requests", "tlb_hits", "tlb_misses",
        )
    )  # fmt: skip


class TimingEvent(ctypes.Structure):
    """struct rpl_event."""

    _fields_ = (
        ("attempt", ctypes.c_double),
        ("issued", ctypes.c_double),
        ("done", ctypes.c_double),
        ("inst", ctypes.c_uint64),
    )


class TracedWaveRecord(ctypes.Structure):
    """struct rpl_traced_wave."""

    _fields_ = (
        ("events", ctypes.POINTER(TimingEvent)),
        ("count", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("begin", ctypes.c_double),
        ("end", ctypes.c_double),
        ("simd", ctypes.c_uint32),
        ("slot", ctypes.c_uint32),
    )


class ThreadTraceRecord(ctypes.Structure):
    """struct rpl_thread_trace."""

    _fields_ = (("waves", ctypes.c_void_p), ("workgroups", ctypes.c_uint32), ("is_short_of_memory", ctypes.c_uint32))


class CuRun(ctypes.Structure):
    """struct rpl_cu_run."""

    _fields_ = (
        ("instructions", ctypes.c_void_p),
        ("blocks", ctypes.c_void_p),
        ("waves", ctypes.c_void_p),
        ("sources", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        ("traces", ctypes.c_uint32),
        ("waves_per_workgroup", ctypes.c_uint32),
        ("workgroups", ctypes.c_uint32),
        ("resident", ctypes.c_uint32),
        ("cu", ctypes.c_void_p),
        ("begin_cycles", ctypes.c_void_p),
        ("finish_cycles", ctypes.c_void_p),
        ("hits", ctypes.c_void_p),
        ("latency_cycles", ctypes.c_void_p),
        ("stall_cycles", ctypes.c_void_p),
        ("idle_cycles", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("thread_trace", ctypes.c_void_p),
    )
