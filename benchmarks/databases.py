"""rocpd databases of any size, as `rocprofv3 --kernel-trace --memory-copy-trace` writes them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof import schema
from rocm_perf_lab.rocprof.recording import (
    AgentRecord,
    CodeObjectRecord,
    DispatchRecord,
    HostRecord,
    KernelSymbolRecord,
    ProcessRecord,
    RecordedRun,
)
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

TARGET = "mi300x"
KERNELS = 40
_PID = 4242
_COPY_EVERY = 100


def generate_database(path: Path, *, dispatches: int, queues: int, seed: int = 1) -> None:
    """Write a database of `dispatches` kernel dispatches, with one memory copy per hundred."""
    guid = schema.make_guid(1_700_000_000_000, f"benchmark {dispatches} {queues} {seed}")
    write_database(path, _first_dispatches(queues, guid))
    random = np.random.default_rng(seed)
    queue = random.integers(0, queues, dispatches)
    duration = random.lognormal(8.5, 1.0, dispatches).astype(np.int64) + 500
    gap = random.integers(500, 6000, dispatches)
    start, end = np.empty(dispatches, np.int64), np.empty(dispatches, np.int64)
    for number in range(queues):
        rows = np.flatnonzero(queue == number)
        end[rows] = 1_010_000 + np.cumsum(duration[rows] + gap[rows])
        start[rows] = end[rows] - duration[rows]
    ids = np.arange(queues + 1, dispatches + 1)
    kernel = random.integers(1, KERNELS + 1, dispatches)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; BEGIN;")
        (node,) = connection.execute("SELECT id FROM rocpd_info_node").fetchone()
        suffix = schema.suffix_of(guid)
        copies = np.arange(dispatches + 1, dispatches + 1 + dispatches // _COPY_EVERY)
        _insert(connection, f"rocpd_event{suffix}", ("id", "stack_id"), {"category_id": 2}, (np.concatenate([ids, copies]),) * 2)
        _insert(
            connection,
            f"rocpd_kernel_dispatch{suffix}",
            ("id", "dispatch_id", "event_id", "kernel_id", "queue_id", "stream_id", "start", "end"),
            {
                "nid": node, "pid": _PID, "tid": _PID, "agent_id": 1, "region_name_id": 1, "private_segment_size": 0,
                "group_segment_size": 1024, "workgroup_size_x": 256, "workgroup_size_y": 1, "workgroup_size_z": 1,
                "grid_size_x": 1 << 20, "grid_size_y": 1, "grid_size_z": 1,
            },
            (ids, ids, ids, *(column[queues:] for column in (kernel, queue, queue, start, end))),
        )  # fmt: skip
        before = np.linspace(queues, dispatches - 1, len(copies)).astype(np.int64)
        _insert(
            connection,
            f"rocpd_memory_copy{suffix}",
            ("event_id", "start", "end", "queue_id", "stream_id"),
            {"nid": node, "pid": _PID, "tid": _PID, "name_id": 2, "size": 1 << 20, "src_agent_id": 0, "dst_agent_id": 1},
            (copies, end[before] + 100, end[before] + 2_000, queue[before], queue[before]),
        )
        connection.execute("COMMIT")


def _first_dispatches(queues: int, guid: str) -> RecordedRun:
    """Return one dispatch per queue, with the kernels, agent and process that all other dispatches refer to."""
    kernels = tuple(
        KernelSymbolRecord(
            id=i,
            code_object_id=1,
            mangled_name=f"_Z6kernelILi{i}EEvPf",
            display_name=f"void kernel<{i}>(float*)",
            arch_vgpr_count=32,
            accum_vgpr_count=0,
            sgpr_count=32,
            static_lds_bytes=1024,
            static_scratch_bytes=0,
        )
        for i in range(1, KERNELS + 1)
    )
    block, grid = (256, 1, 1), (1 << 20, 1, 1)
    used = tuple(DispatchRecord(1, 1_000_000, 1_004_000, grid, block, 1024, 0, queue=q, stream=q) for q in range(queues))
    agent = AgentRecord.from_target(load_target(TARGET), device="benchmark", emulated=True, versions={})
    host = HostRecord("Linux", "benchmark", "6.1", "#1", "x86_64")
    code = (CodeObjectRecord(1, "memory://benchmark", 4096, "0" * 64),)
    return RecordedRun(agent, ProcessRecord("./benchmark", _PID, 1), code, kernels, used, guid=guid, host=host)


def _insert(
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    constants: dict[str, int],
    values: Iterable[np.ndarray[Any, np.dtype[np.int64]]],
) -> None:
    slots = ", ".join(["?"] * len(columns) + [str(value) for value in constants.values()])
    statement = f'INSERT INTO "{table}" ({", ".join((*columns, *constants))}) VALUES ({slots})'
    connection.executemany(statement, zip(*(column.tolist() for column in values), strict=True))
