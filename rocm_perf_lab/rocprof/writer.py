"""Writer for rocpd 3.0.0 databases, filled as rocprofv3 of ROCm 7.0 fills them.

Writes a :class:`RecordedRun` atomically to one SQLite file. Ids follow rocprofiler-sdk's generateRocpd.cpp: process id = pid,
thread id = tid, kernel and dispatch ids as counted by the SDK.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import uuid
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof import schema
from rocm_perf_lab.rocprof.counter_catalogue import describe_counter, has_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.counter_catalogue import CounterDescription
    from rocm_perf_lab.rocprof.recording import KernelSymbolRecord, RecordedRun

_CPU_AGENT_ID = 0
_GPU_AGENT_ID = 1
_KERNEL_DISPATCH = "KERNEL_DISPATCH"
_MEMORY_STORAGE = 2
"""ROCPROFILER_CODE_OBJECT_STORAGE_TYPE_MEMORY."""


class DatabaseWriteError(LabError):
    """A database cannot be written: no permission, no space, or an inconsistent run."""


def write_database(path: Path, run: RecordedRun) -> None:
    """Write `run` to `path`, replacing an existing file; on failure `path` is unchanged.

    Raises:
        DatabaseWriteError: The file cannot be written, or a dispatch names an unknown kernel.
    """
    _check(run)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}")
        _fill(temporary, run)
        temporary.replace(path)
    except (OSError, sqlite3.Error) as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise DatabaseWriteError(
            f"cannot write the rocpd database: {error}",
            where=str(path),
            hint="free some space, or choose an output directory that can be written",
        ) from error


def _check(run: RecordedRun) -> None:
    known = {kernel.id for kernel in run.kernels}
    for index, dispatch in enumerate(run.dispatches):
        if dispatch.kernel_id not in known:
            raise DatabaseWriteError(
                f"dispatch {index} is of kernel {dispatch.kernel_id}, which the run does not describe",
                where="RecordedRun.dispatches",
                hint=f"known kernels: {sorted(known)}",
            )


def _fill(path: Path, run: RecordedRun) -> None:
    guid = run.guid or schema.make_guid(time.time_ns() // 1_000_000, f"{run.host.hostname} {run.process.pid}")
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        # The file is discarded if anything fails, so a journal would only cost time.
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + schema.creation_sql(guid))
        connection.execute("BEGIN")
        _Filler(connection, guid, run).fill()
        connection.execute("COMMIT")
    finally:
        connection.close()


class _Filler:
    """Inserts the rows of one run, parents before children, so that foreign keys hold at every step."""

    def __init__(self, connection: sqlite3.Connection, guid: str, run: RecordedRun) -> None:
        self._connection = connection
        self._guid = guid
        self._run = run
        machine = hashlib.sha256(run.host.hostname.encode()).digest()
        self._node_hash = int.from_bytes(machine[:8]) >> 1
        self._node = self._node_hash % (2**32 - 1)
        self._pid = run.process.pid
        self._owner = {"nid": self._node, "pid": self._pid}
        self._counters = sorted({name for dispatch in run.dispatches for name in dispatch.counters})
        self._strings = self._string_ids()

    def fill(self) -> None:
        """Fill all tables."""
        self._fill_identity()
        self._fill_agents()
        self._fill_queues()
        self._fill_code()
        self._fill_dispatches()
        self._fill_counters()

    def _string_ids(self) -> dict[str, int]:
        names = [kernel.display_name for kernel in self._run.kernels]
        texts = ["", _KERNEL_DISPATCH, self._run.agent.name, *names, *self._counters]
        return {text: index for index, text in enumerate(dict.fromkeys(texts), start=1)}

    def _fill_identity(self) -> None:
        host, process = self._run.host, self._run.process
        suffix = schema.suffix_of(self._guid)
        tags = {"schema_version": schema.SCHEMA_VERSION, "uuid": suffix, "guid": self._guid}
        self._insert("metadata", ({"tag": tag, "value": value} for tag, value in tags.items()))
        self._insert("string", ({"id": index, "string": text} for text, index in self._strings.items()))
        node = {
            "id": self._node,
            "hash": self._node_hash,
            "machine_id": hashlib.sha256(host.hostname.encode()).hexdigest()[:32],
            "system_name": host.system_name,
            "hostname": host.hostname,
            "release": host.release,
            "version": host.version,
            "hardware_name": host.hardware_name,
            "domain_name": "(none)",
        }
        self._insert("info_node", [node])
        start = min((d.start_ns for d in self._run.dispatches), default=0)
        end = max((d.end_ns for d in self._run.dispatches), default=0)
        life = {"id": self._pid, "ppid": process.parent_pid, "start": start, "end": end}
        self._insert("info_process", [{**self._owner, **life, "init": start, "fini": end, "command": process.command}])
        self._insert("info_thread", [{**self._owner, **life, "tid": self._pid, "name": "main"}])

    def _fill_agents(self) -> None:
        agent = self._run.agent
        host = self._run.host.hardware_name
        extdata = {**agent.properties, "node_id": _GPU_AGENT_ID, schema.PROVENANCE_KEY: dict(agent.provenance)}
        shared = {**self._owner, "type_index": 0}
        cpu = {
            "id": _CPU_AGENT_ID, "type": "CPU", "absolute_index": 0, "logical_index": 0, "uuid": 0, "name": host,
            "model_name": host, "vendor_name": "CPU", "product_name": host, "user_name": host, "extdata": "{}",
        }  # fmt: skip
        gpu = {
            "id": _GPU_AGENT_ID, "type": "GPU", "absolute_index": 1, "logical_index": 1, "uuid": 0, "name": agent.name,
            "model_name": agent.name, "vendor_name": "AMD", "product_name": agent.product_name,
            "user_name": agent.product_name, "extdata": _json(extdata),
        }  # fmt: skip
        self._insert("info_agent", [{**shared, **cpu}, {**shared, **gpu}])

    def _fill_queues(self) -> None:
        for table, word, used in (
            ("info_queue", "Queue", {d.queue for d in self._run.dispatches}),
            ("info_stream", "Stream", {d.stream for d in self._run.dispatches}),
        ):
            names = {index: f"{word} {index}" if index else f"Default {word}" for index in sorted({0} | used)}
            self._insert(table, ({**self._owner, "id": index, "name": name} for index, name in names.items()))

    def _fill_code(self) -> None:
        objects = (
            {
                **self._owner, "id": c.id, "agent_id": _GPU_AGENT_ID, "uri": c.uri, "load_base": 0,
                "load_size": c.size_bytes, "load_delta": 0,
                "extdata": _json({
                    "size": c.size_bytes, "storage_type": _MEMORY_STORAGE, "memory_size": c.size_bytes, "uri": c.uri,
                    schema.PROVENANCE_KEY: {"sha256": c.sha256},
                }),
            }
            for c in self._run.code_objects
        )  # fmt: skip
        self._insert("info_code_object", objects)
        self._insert("info_kernel_symbol", ({**self._owner, **_symbol_row(k)} for k in self._run.kernels))

    def _fill_dispatches(self) -> None:
        dispatches = self._run.dispatches
        category = self._strings[_KERNEL_DISPATCH]
        self._insert(
            "event",
            (
                {"id": i, "category_id": category, "stack_id": i, "parent_stack_id": i, "correlation_id": 0}
                for i in range(1, len(dispatches) + 1)
            ),
        )
        constant = {
            **self._owner, "tid": self._pid, "agent_id": _GPU_AGENT_ID, "region_name_id": self._strings[""],
        }  # fmt: skip
        rows = (
            {
                **constant, "id": i, "dispatch_id": i, "event_id": i, "kernel_id": d.kernel_id, "queue_id": d.queue,
                "stream_id": d.stream, "start": d.start_ns, "end": d.end_ns,
                "private_segment_size": d.scratch_bytes, "group_segment_size": d.lds_bytes,
                **_axes("workgroup_size", d.workgroup), **_axes("grid_size", d.grid),
            }
            for i, d in enumerate(dispatches, start=1)
        )  # fmt: skip
        self._insert("kernel_dispatch", rows)

    def _fill_counters(self) -> None:
        ids = {name: index for index, name in enumerate(self._counters, start=1)}
        catalogue = {name: describe_counter(name, self._run.agent.name) for name in ids}
        described = (
            {
                **self._owner, "id": index, "agent_id": _GPU_AGENT_ID, "target_arch": "GPU", "event_code": 0,
                "instance_id": 0, "name": name, "symbol": name, "component": "rocm",
                "description": found.description if found else "", "units": found.unit if found else "",
                "value_type": "ABS", "block": name.partition("_")[0], "expression": "", "is_constant": 0,
                "is_derived": int(name.endswith("_sum")), "extdata": self._certificate_of(found),
            }
            for (name, index), found in zip(ids.items(), catalogue.values(), strict=True)
        )  # fmt: skip
        self._insert("info_pmc", described)
        values = (
            {"event_id": i, "pmc_id": ids[name], "value": float(value)}
            for i, dispatch in enumerate(self._run.dispatches, start=1)
            for name, value in sorted(dispatch.counters.items())
        )
        self._insert("pmc_event", values)

    def _certificate_of(self, counter: CounterDescription | None) -> str:
        """Return the certificate of an emulated counter as JSON; measured ones have none."""
        agent = self._run.agent
        if counter is None or not agent.provenance.get("emulated") or not has_catalogue(agent.name):
            return "{}"
        certificate: dict[str, Any] = {"certificate": counter.certificate}
        if counter.bound is not None:
            certificate |= {"bound": counter.bound, "scope": counter.scope}
        return json.dumps(certificate)

    def _insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows with equal columns."""
        iterator = iter(rows)
        first = next(iterator, None)
        if first is None:
            return
        columns: Sequence[str] = tuple(first)
        name = f'"rocpd_{table}{schema.suffix_of(self._guid)}"'
        slots = ", ".join(f":{column}" for column in columns)
        statement = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({slots})"
        self._connection.execute(statement, first)
        self._connection.executemany(statement, iterator)


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
