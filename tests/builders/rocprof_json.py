"""Runs as `rocprofv3 -f json` writes them, after rocprofiler-sdk's generateJSON.cpp and the tests that read it.

It does not use the package's readers. Handles are not the ids of a database: agents have separate handles, and the names
of kinds and operations are numbers into a table.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import DispatchRecord, KernelSymbolRecord, RecordedRun

CPU, GPU = 26790, 53062
"""Handles of the agents."""
COUNTERS = 4503599627370496
"""Handle of the first counter: the agent is in its upper bits."""
KINDS = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API", "operations": ["NONE", "hipLaunchKernel", "hipMemcpy"]},
    {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]},
    {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE", "COMPLETE"]},
]
PROVENANCE_KEY = "rocm_perf_lab"


def process_of(
    run: RecordedRun,
    *,
    streams: bool = True,
    kernel_trace: bool = True,
    times: bool = True,
    groups: Sequence[Sequence[str]] = (),
) -> dict[str, Any]:
    """Return the output of one process. Without `streams` as of ROCm 6, without `times` as counter records of 6.2.

    With several `groups` of counters a dispatch has a record for each, as in kernel replay.
    """
    names = sorted({name for dispatch in run.dispatches for name in dispatch.counters})
    numbered = list(enumerate(run.dispatches, start=1))
    dispatches = [{"size": 128, "kind": 4, "operation": 2, "thread_id": 7, **_launch(n, d, times=True)} for n, d in numbered]
    counted = [
        {
            "thread_id": 7,
            "dispatch_data": {"size": 96, **_launch(n, d, times=times)},
            "records": [
                {"counter_id": {"handle": COUNTERS + names.index(name)}, "value": value}
                for name, value in d.counters.items()
                if not groups or name in groups[replayed]
            ],
            "stream_id": {"handle": d.stream},
            **({"replay_pass": replayed} if len(groups) > 1 else {}),
        }
        for n, d in numbered
        if d.counters
        for replayed in range(len(groups) or 1)
    ]
    for record, (_, dispatch) in zip(dispatches, numbered, strict=True):
        record["stream_id"] = {"handle": dispatch.stream}
    if not streams:
        for record in (*dispatches, *counted):
            del record["stream_id"]
    return {
        "metadata": {
            "pid": run.process.pid,
            "init_time": 1,
            "fini_time": 2,
            "config": {},
            "command": run.process.command.split(),
        },
        "agents": _agents(run),
        "counters": [
            {"agent_id": {"handle": GPU}, "id": {"handle": COUNTERS + number}, "is_constant": 0, "is_derived": 0, "name": name}
            for number, name in enumerate(names)
        ],
        "strings": {
            "callback_records": [{"kind": "NONE", "operations": []}],
            "buffer_records": KINDS,
            "marker_api": [],
            "correlation_id": {"external": []},
            "counters": {"dimension_ids": [{"id": 0, "instance_size": 8, "name": "DIMENSION_XCC"}]},
            "pc_sample_instructions": [],
        },
        "code_objects": [{"code_object_id": 0}, {"code_object_id": 1, "uri": "memory://app", "load_size": 4096}],
        "kernel_symbols": _symbols(run.kernels),
        "host_functions": [],
        "summary": [],
        "callback_records": {"counter_collection": counted},
        "buffer_records": {
            "kernel_dispatch": dispatches if kernel_trace else [],
            "hip_api": [],
            "hsa_api": [],
            "marker_api": [],
            "memory_copy": [],
            "scratch_memory": [],
            "pc_sample_host_trap": [],
        },
    }


def call(kind: int, operation: int, start_ns: int, end_ns: int, *, correlation: int, thread: int) -> dict[str, Any]:
    """Return a record of `hip_api` or `marker_api`."""
    return {
        "size": 64, "kind": kind, "operation": operation, "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start_ns, "end_timestamp": end_ns, "thread_id": thread,
    }  # fmt: skip


def copy(start_ns: int, end_ns: int, size: int, *, correlation: int, stream: int) -> dict[str, Any]:
    """Return a record of `memory_copy`, from the host to the GPU."""
    return {
        **call(3, 2, start_ns, end_ns, correlation=correlation, thread=7), "dst_agent_id": {"handle": GPU},
        "src_agent_id": {"handle": CPU}, "bytes": size, "stream_id": {"handle": stream},
    }  # fmt: skip


def write_json(path: Path, *processes: Mapping[str, Any], indent: int | None = None) -> Path:
    """Write one document of some processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rocprofiler-sdk-tool": processes}, indent=indent), encoding="utf-8")
    return path


def _launch(number: int, dispatch: DispatchRecord, *, times: bool) -> dict[str, Any]:
    start, end = (dispatch.start_ns, dispatch.end_ns) if times else (0, 0)
    return {
        "correlation_id": {"internal": number, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
        "dispatch_info": {
            "size": 72,
            "agent_id": {"handle": GPU},
            "queue_id": {"handle": dispatch.queue},
            "kernel_id": dispatch.kernel_id,
            "dispatch_id": number,
            "private_segment_size": dispatch.scratch_bytes,
            "group_segment_size": dispatch.lds_bytes,
            "workgroup_size": dict(zip("xyz", dispatch.workgroup, strict=True)),
            "grid_size": dict(zip("xyz", dispatch.grid, strict=True)),
        },
    }


def _agents(run: RecordedRun) -> list[dict[str, Any]]:
    host = run.host.hardware_name
    cpu = {"size": 408, "id": {"handle": CPU}, "type": 1, "name": host, "product_name": host, "node_id": 0}
    gpu = {
        **run.agent.properties, PROVENANCE_KEY: dict(run.agent.provenance), "size": 408, "id": {"handle": GPU}, "type": 2,
        "node_id": 1,
    }  # fmt: skip
    return [cpu, gpu]


def _symbols(kernels: Sequence[KernelSymbolRecord]) -> list[dict[str, Any]]:
    """Return one symbol per id from 0; symbols without a kernel are empty."""
    empty = {"size": 0, "kernel_id": 0, "code_object_id": 0, "kernel_name": "", "formatted_kernel_name": ""}
    symbols = [dict(empty) for _ in range(max((kernel.id for kernel in kernels), default=-1) + 1)]
    for kernel in kernels:
        symbols[kernel.id] = {
            "size": 80, "kernel_id": kernel.id, "code_object_id": kernel.code_object_id,
            "kernel_name": f"{kernel.mangled_name}.kd", "group_segment_size": kernel.static_lds_bytes,
            "private_segment_size": kernel.static_scratch_bytes, "sgpr_count": kernel.sgpr_count,
            "arch_vgpr_count": kernel.arch_vgpr_count, "accum_vgpr_count": kernel.accum_vgpr_count,
            "kernel_address": {"handle": 2**63 + 17}, "formatted_kernel_name": kernel.display_name,
            "demangled_kernel_name": kernel.display_name, "truncated_kernel_name": kernel.display_name.partition("(")[0],
        }  # fmt: skip
    return symbols
