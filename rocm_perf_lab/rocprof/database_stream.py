"""Writes a rocpd 3.0.0 database row by row: `DatabaseStream`, filled as rocprofv3 of ROCm 7.0 fills it.

Queues and counters are added when they first occur; rows are inserted in batches, so memory does not grow with the number of
dispatches. Ids follow rocprofiler-sdk's generateRocpd.cpp: process id = pid, thread id = tid, kernel and dispatch ids as counted
by the SDK.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof import schema
from rocm_perf_lab.rocprof.counter_catalogue import describe_counter, has_catalogue

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.rocprof.counter_catalogue import CounterDescription
    from rocm_perf_lab.rocprof.recording import (
        AgentRecord,
        CodeObjectRecord,
        DispatchRecord,
        HostRecord,
        KernelSymbolRecord,
        MemoryCopyRecord,
        ProcessRecord,
    )

_CPU_AGENT_ID = 0
_FIRST_GPU_AGENT_ID = 1
_KERNEL_DISPATCH, _MEMORY_COPY = "KERNEL_DISPATCH", "MEMORY_COPY"
_MEMORY_STORAGE = 2
"""ROCPROFILER_CODE_OBJECT_STORAGE_TYPE_MEMORY."""
_BATCH_ROWS = 5000
_PARENTS_FIRST = ("string", "info_queue", "info_stream", "info_code_object", "info_kernel_symbol", "info_pmc", "event")
"""Order in which pending rows are inserted, so that foreign keys hold; all other tables follow."""


class DatabaseStream:
    """Rows of one process in a new database.

    Args:
        connection: Empty database with an open transaction.
        guid: Identifier of the database.
        agents: GPUs; a record refers to one by its position here.
        process: The profiled process.
        host: Its machine.
        counters: Names of counters to describe first, in this order; others follow when they occur.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        guid: str,
        *,
        agents: Sequence[AgentRecord],
        process: ProcessRecord,
        host: HostRecord,
        counters: Sequence[str] = (),
    ) -> None:
        self._connection = connection
        self._guid = guid
        self._agents = tuple(agents)
        self._pid = process.pid
        machine = hashlib.sha256(host.hostname.encode()).digest()
        node_hash = int.from_bytes(machine[:8]) >> 1
        self._owner = {"nid": node_hash % (2**32 - 1), "pid": self._pid}
        self._pending: dict[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]] = {}
        self._waiting = 0
        self._strings: dict[str, int] = {}
        self._counters: dict[tuple[str, int], int] = {}
        self._lanes: dict[str, set[int]] = {"info_queue": set(), "info_stream": set()}
        self._events = self._dispatches = self._copies = 0
        self._first_ns: int | None = None
        self._last_ns = 0
        self._add_identity(process, host, node_hash)
        self._add_agents(host.hardware_name)
        for table in self._lanes:
            self._lane(table, 0)
        for name in counters:
            self._counter(name, 0)

    def add_code_object(self, code: CodeObjectRecord, gpu: int = 0) -> None:
        """Add a loaded code object."""
        details = {
            "size": code.size_bytes,
            "storage_type": _MEMORY_STORAGE,
            "memory_size": code.size_bytes,
            "uri": code.uri,
            schema.PROVENANCE_KEY: {"sha256": code.sha256},
        }
        row = {
            **self._owner, "id": code.id, "agent_id": _FIRST_GPU_AGENT_ID + gpu, "uri": code.uri, "load_base": 0,
            "load_size": code.size_bytes, "load_delta": 0, "extdata": _json(details),
        }  # fmt: skip
        self._insert("info_code_object", row)

    def add_kernel(self, kernel: KernelSymbolRecord) -> None:
        """Add a kernel of a code object that was added before."""
        self._string(kernel.display_name)
        self._insert("info_kernel_symbol", {**self._owner, **_symbol_row(kernel)})

    def add_dispatch(self, dispatch: DispatchRecord) -> None:
        """Add a dispatch of a kernel that was added before."""
        self._dispatches += 1
        event = self._event(_KERNEL_DISPATCH)
        agent = _FIRST_GPU_AGENT_ID + dispatch.gpu
        row = {
            **self._owner, "tid": self._pid, "agent_id": agent, "region_name_id": self._string(""),
            "id": self._dispatches, "dispatch_id": self._dispatches, "event_id": event, "kernel_id": dispatch.kernel_id,
            "queue_id": self._lane("info_queue", dispatch.queue), "stream_id": self._lane("info_stream", dispatch.stream),
            "start": dispatch.start_ns, "end": dispatch.end_ns,
            "private_segment_size": dispatch.scratch_bytes, "group_segment_size": dispatch.lds_bytes,
            **_axes("workgroup_size", dispatch.workgroup), **_axes("grid_size", dispatch.grid),
        }  # fmt: skip
        self._insert("kernel_dispatch", row)
        self._lives(dispatch.start_ns, dispatch.end_ns)
        for name, value in sorted(dispatch.counters.items()):
            counter = self._counter(name, dispatch.gpu)
            self._insert("pmc_event", {"event_id": event, "pmc_id": counter, "value": float(value)})

    def add_copy(self, copy: MemoryCopyRecord) -> None:
        """Add a memory copy."""
        self._copies += 1
        row = {
            **self._owner, "tid": self._pid, "id": self._copies, "event_id": self._event(_MEMORY_COPY),
            "name_id": self._string(copy.direction), "region_name_id": self._string(""),
            "src_agent_id": _agent_id(copy.source_gpu), "dst_agent_id": _agent_id(copy.destination_gpu),
            "size": copy.size_bytes, "start": copy.start_ns, "end": copy.end_ns,
            "queue_id": self._lane("info_queue", copy.queue),
            "stream_id": None if copy.stream is None else self._lane("info_stream", copy.stream),
        }  # fmt: skip
        self._insert("memory_copy", row)
        self._lives(copy.start_ns, copy.end_ns)

    def finish(self) -> None:
        """Insert the remaining rows, and the lifetime of the process."""
        self._flush()
        start, end = self._first_ns or 0, self._last_ns
        suffix = schema.suffix_of(self._guid)
        self._connection.execute(
            f'UPDATE "rocpd_info_process{suffix}" SET start = :start, end = :end, init = :start, fini = :end',
            {"start": start, "end": end},
        )
        self._connection.execute(
            f'UPDATE "rocpd_info_thread{suffix}" SET start = :start, end = :end', {"start": start, "end": end}
        )

    def _add_identity(self, process: ProcessRecord, host: HostRecord, node_hash: int) -> None:
        suffix = schema.suffix_of(self._guid)
        tags = {"schema_version": schema.SCHEMA_VERSION, "uuid": suffix, "guid": self._guid}
        for tag, value in tags.items():
            self._insert("metadata", {"tag": tag, "value": value})
        for text in ("", _KERNEL_DISPATCH, *(agent.name for agent in self._agents)):
            self._string(text)
        node = {
            "id": self._owner["nid"],
            "hash": node_hash,
            "machine_id": hashlib.sha256(host.hostname.encode()).hexdigest()[:32],
            "system_name": host.system_name,
            "hostname": host.hostname,
            "release": host.release,
            "version": host.version,
            "hardware_name": host.hardware_name,
            "domain_name": "(none)",
        }
        self._insert("info_node", node)
        life = {"id": self._pid, "ppid": process.parent_pid, "start": 0, "end": 0}
        self._insert("info_process", {**self._owner, **life, "init": 0, "fini": 0, "command": process.command})
        self._insert("info_thread", {**self._owner, **life, "tid": self._pid, "name": "main"})
        self._flush()

    def _add_agents(self, host: str) -> None:
        cpu = {
            "id": _CPU_AGENT_ID, "type": "CPU", "absolute_index": 0, "logical_index": 0, "uuid": 0, "name": host,
            "model_name": host, "vendor_name": "CPU", "product_name": host, "user_name": host, "extdata": "{}",
        }  # fmt: skip
        self._insert("info_agent", {**self._owner, "type_index": 0, **cpu})
        for index, agent in enumerate(self._agents):
            number = _FIRST_GPU_AGENT_ID + index
            extdata = {**agent.properties, "node_id": number, schema.PROVENANCE_KEY: dict(agent.provenance)}
            gpu = {
                "id": number, "type": "GPU", "absolute_index": number, "logical_index": number, "uuid": 0, "name": agent.name,
                "model_name": agent.name, "vendor_name": "AMD", "product_name": agent.product_name,
                "user_name": agent.product_name, "extdata": _json(extdata),
            }  # fmt: skip
            self._insert("info_agent", {**self._owner, "type_index": index, **gpu})
        self._flush()

    def _string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self._insert("string", {"id": self._strings[text], "string": text})
        return self._strings[text]

    def _lane(self, table: str, number: int) -> int:
        """Return a queue or stream, which is added if it is new."""
        if number not in self._lanes[table]:
            self._lanes[table].add(number)
            word = table.removeprefix("info_").capitalize()
            name = f"{word} {number}" if number else f"Default {word}"
            self._insert(table, {**self._owner, "id": number, "name": name})
        return number

    def _event(self, category: str) -> int:
        self._events += 1
        number = self._events
        self._insert(
            "event",
            {
                "id": number, "category_id": self._string(category), "stack_id": number, "parent_stack_id": number,
                "correlation_id": 0,
            },
        )  # fmt: skip
        return number

    def _counter(self, name: str, gpu: int) -> int:
        key = name, gpu
        if key not in self._counters:
            self._counters[key] = len(self._counters) + 1
            self._string(name)
            found = describe_counter(name, self._agents[gpu].name)
            row = {
                **self._owner, "id": self._counters[key], "agent_id": _FIRST_GPU_AGENT_ID + gpu, "target_arch": "GPU",
                "event_code": 0, "instance_id": 0, "name": name, "symbol": name, "component": "rocm",
                "description": found.description if found else "", "units": found.unit if found else "",
                "value_type": "ABS", "block": name.partition("_")[0], "expression": "", "is_constant": 0,
                "is_derived": int(name.endswith("_sum")), "extdata": _certificate(found, self._agents[gpu]),
            }  # fmt: skip
            self._insert("info_pmc", row)
        return self._counters[key]

    def _lives(self, start_ns: int, end_ns: int) -> None:
        self._first_ns = start_ns if self._first_ns is None else min(self._first_ns, start_ns)
        self._last_ns = max(self._last_ns, end_ns)

    def _insert(self, table: str, row: Mapping[str, Any]) -> None:
        self._pending.setdefault((table, tuple(row)), []).append(row)
        self._waiting += 1
        if self._waiting >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        order = {table: number for number, table in enumerate(_PARENTS_FIRST)}
        for table, columns in sorted(self._pending, key=lambda key: order.get(key[0], len(order))):
            self._insert_all(table, columns, self._pending[table, columns])
        self._pending.clear()
        self._waiting = 0

    def _insert_all(self, table: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        name = f'"rocpd_{table}{schema.suffix_of(self._guid)}"'
        slots = ", ".join(f":{column}" for column in columns)
        self._connection.executemany(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({slots})", rows)


def _agent_id(gpu: int | None) -> int:
    return _CPU_AGENT_ID if gpu is None else _FIRST_GPU_AGENT_ID + gpu


def _certificate(counter: CounterDescription | None, agent: AgentRecord) -> str:
    """Return the certificate of an emulated counter as JSON; measured ones have none."""
    if counter is None or not agent.provenance.get("emulated") or not has_catalogue(agent.name):
        return "{}"
    certificate: dict[str, Any] = {"certificate": counter.certificate}
    if counter.bound is not None:
        certificate |= {"bound": counter.bound, "scope": counter.scope}
    return json.dumps(certificate)


def _symbol_row(kernel: KernelSymbolRecord) -> dict[str, Any]:
    facts = {
        "code_object_id": kernel.code_object_id,
        "kernel_name": f"{kernel.mangled_name}.kd",
        "kernel_object": 0,
        "kernarg_segment_size": kernel.kernarg_bytes,
        "kernarg_segment_alignment": kernel.kernarg_alignment,
        "group_segment_size": kernel.static_lds_bytes,
        "private_segment_size": kernel.static_scratch_bytes,
        "sgpr_count": kernel.sgpr_count,
        "arch_vgpr_count": kernel.arch_vgpr_count,
        "accum_vgpr_count": kernel.accum_vgpr_count,
    }
    name = kernel.display_name
    names = {"formatted_kernel_name": name, "demangled_kernel_name": name, "truncated_kernel_name": name}
    extdata = _json({**facts, **names, "kernel_id": kernel.id})
    return {"id": kernel.id, "display_name": name, **facts, "extdata": extdata}


def _axes(column: str, sizes: tuple[int, int, int]) -> dict[str, int]:
    return {f"{column}_{axis}": size for axis, size in zip("xyz", sizes, strict=True)}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)
