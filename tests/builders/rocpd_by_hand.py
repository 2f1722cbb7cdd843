"""rocpd databases as rocprofv3 lays them out, written with separate SQL instead of the package's writer.

`Database(path, version="3.0.3")` creates the tables of that schema; `process(...)` and the like add rows as the tool of
ROCm does: ids of information tables are those of the system (pid, tid, node of an agent), not numbers of rows.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NODE = 3735928559
MI300X: Mapping[str, Any] = {
    "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304, "num_xcc": 8, "wave_front_size": 64,
    "simd_count": 1216, "max_waves_per_simd": 8, "lds_size_in_kb": 64, "gfx_target_version": 90402,
}  # fmt: skip

_JSON = "JSONB DEFAULT '{}' NOT NULL"
_LAUNCH = 'agent_id INTEGER NOT NULL, queue_id INTEGER, stream_id INTEGER, start BIGINT NOT NULL, "end" BIGINT NOT NULL'
_SIZES = ", ".join(f"{what}_size_{axis} INTEGER NOT NULL" for what in ("workgroup", "grid") for axis in "xyz")
_OWNER = "nid INTEGER NOT NULL, pid INTEGER NOT NULL"
_COPY = (
    f'{_OWNER}, tid INTEGER, start BIGINT NOT NULL, "end" BIGINT NOT NULL, name_id INTEGER NOT NULL, dst_agent_id INTEGER,'
    " dst_address INTEGER, src_agent_id INTEGER, src_address INTEGER, size INTEGER NOT NULL, queue_id INTEGER,"
    f" stream_id INTEGER, region_name_id INTEGER, event_id INTEGER, extdata {_JSON}"
)
TABLES: Mapping[str, str] = {
    "string": "string TEXT NOT NULL UNIQUE ON CONFLICT ABORT",
    "info_node": "hash BIGINT NOT NULL UNIQUE, machine_id TEXT NOT NULL UNIQUE, system_name TEXT, hostname TEXT",
    "info_process": f"nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, init BIGINT, fini BIGINT, start BIGINT,"
    f' "end" BIGINT, command TEXT, environment {_JSON}, extdata {_JSON}',
    "info_thread": f"nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, tid INTEGER NOT NULL, name TEXT, extdata {_JSON}",
    "info_agent": f"{_OWNER}, type TEXT, absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, uuid INTEGER,"
    f" name TEXT, model_name TEXT, vendor_name TEXT, product_name TEXT, user_name TEXT, extdata {_JSON}",
    "info_queue": f"{_OWNER}, name TEXT, extdata {_JSON}",
    "info_stream": f"{_OWNER}, name TEXT, extdata {_JSON}",
    "info_pmc": f"{_OWNER}, agent_id INTEGER, target_arch TEXT, event_code INT, instance_id INTEGER, name TEXT NOT NULL,"
    f" symbol TEXT NOT NULL, description TEXT, component TEXT, units TEXT, value_type TEXT, block TEXT, expression TEXT,"
    f" is_constant INTEGER, is_derived INTEGER, extdata {_JSON}",
    "info_code_object": f"{_OWNER}, agent_id INTEGER, uri TEXT, load_base BIGINT, storage_type TEXT, extdata {_JSON}",
    "info_kernel_symbol": f"{_OWNER}, code_object_id INTEGER NOT NULL, kernel_name TEXT, display_name TEXT, kernel_object"
    f" INTEGER, kernarg_segment_size INTEGER, kernarg_segment_alignment INTEGER, group_segment_size INTEGER,"
    f" private_segment_size INTEGER, sgpr_count INTEGER, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER, extdata {_JSON}",
    "event": f"category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, call_stack {_JSON},"
    f" line_info {_JSON}, extdata {_JSON}",
    "pmc_event": "event_id INTEGER, pmc_id INTEGER NOT NULL, value REAL DEFAULT 0.0, extdata JSONB",
    "region": f'{_OWNER}, tid INTEGER NOT NULL, start BIGINT NOT NULL, "end" BIGINT NOT NULL, name_id INTEGER NOT NULL,'
    f" event_id INTEGER, extdata {_JSON}",
    "sample": f"track_id INTEGER NOT NULL, timestamp BIGINT NOT NULL, event_id INTEGER, extdata {_JSON}",
    "kernel_dispatch": f"{_OWNER}, tid INTEGER, kernel_id INTEGER NOT NULL, dispatch_id INTEGER NOT NULL, {_LAUNCH},"
    f" private_segment_size INTEGER, group_segment_size INTEGER, {_SIZES}, region_name_id INTEGER, event_id INTEGER,"
    f" extdata {_JSON}",
    "memory_copy": _COPY,
}
"""Columns of the tables of schema 3.0.0 besides id and guid, in a different order."""
_GRAPH = "graph_exec_id INTEGER DEFAULT 0, graph_node_id INTEGER DEFAULT 0"
ADDED: Mapping[str, Mapping[str, str]] = {
    "3.0.2": {"kernel_dispatch": _GRAPH, "memory_copy": _GRAPH},
    "3.0.3": {
        "pmc_event": "sample_id INTEGER, xcc INTEGER, shader_engine INTEGER, instance INTEGER",
        "info_pmc": "spm_support INTEGER",
    },
    "3.0.9": {"kernel_dispatch": "colour TEXT", "info_agent": "mood JSONB", "event": "weather BLOB"},
}
"""Columns that each schema adds; the last one has not been seen yet."""


class Database:
    """One file, with the tables of one process at a time; tables without suffix hold one process only."""

    def __init__(self, path: Path, *, version: str = "3", views: bool = True, suffixed: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._version, self._views, self._suffixed = version, views, suffixed
        self._connection = sqlite3.connect(path)
        self._guids: list[str] = []
        self._guid, self._pid = "", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._views and self._suffixed:
            for plain in ("metadata", *TABLES):
                union = " UNION ALL ".join(f'SELECT * FROM "{self._name(plain, guid)}"' for guid in self._guids)
                self._connection.execute(f"CREATE VIEW rocpd_{plain} AS {union}")
        self._connection.commit()
        self._connection.close()

    def execute(self, statement: str, *values: object) -> None:
        """Execute a statement; `{pmc_event}` is replaced by the table of the process."""
        tables = {plain: f'"{self._name(plain)}"' for plain in ("metadata", *TABLES)}
        self._connection.execute(statement.format(**tables), values)

    def process(self, guid: str, pid: int, command: str = "./app", machine: str | None = None) -> None:
        """Add the tables of one process, which further rows go to, with strings and queue 0 as every run has them."""
        self._guid, self._pid = guid, pid
        self._create()
        self._guids.append(guid)
        self._connection.executemany(
            f'INSERT INTO "{self._name("metadata")}" (tag, value) VALUES (?, ?)',
            [("schema_version", self._version), ("uuid", "_" + guid.replace("-", "_")), ("guid", guid)],
        )
        self._row("info_node", id=NODE, hash=NODE, machine_id=machine or f"m-{guid}", hostname="node")
        self._row("info_process", id=pid, nid=NODE, ppid=1, pid=pid, command=command, environment='{"HOME": "/root"}')
        self._row("info_thread", id=pid, nid=NODE, pid=pid, tid=pid)
        self._row("info_queue", id=0, name="Default Queue", **self._owner)
        self._row("info_stream", id=0, name="Default Stream", **self._owner)

    def agent(self, node: int, kind: str = "GPU", properties: Mapping[str, Any] = MI300X) -> None:
        """Add an agent by the number of its node."""
        names = {name: properties.get(name) for name in ("name", "product_name")}
        self._row(
            "info_agent", id=node, type=kind, absolute_index=node, extdata=json.dumps(dict(properties)), **names, **self._owner
        )

    def kernel(self, number: int, name: str | None, display: str | None = None, **sizes: int | None) -> None:
        """Add a kernel symbol; `sizes` are columns such as arch_vgpr_count."""
        symbol = None if name is None else f"{name}.kd"
        self._row(
            "info_kernel_symbol", id=number, code_object_id=1, kernel_name=symbol, display_name=display, **sizes, **self._owner
        )

    def dispatch(
        self, number: int, kernel: int, start: int, end: int, *, agent: int, queue: int | None = 0,
        stream: int | None = 0,
        lds: int | None = None, scratch: int | None = None, grid: Sequence[int] = (1024, 1, 1),
        workgroup: Sequence[int] = (256, 1, 1), event: int | None = None, stack: int | None = None,
    ) -> None:  # fmt: skip
        """Add a dispatch, with an event if it has a number; `grid` counts work-items."""
        sizes = {
            f"{what}_size_{axis}": size
            for what, s in (("grid", grid), ("workgroup", workgroup))
            for axis, size in zip("xyz", s, strict=True)
        }
        if event is not None:
            self._row("event", id=event, stack_id=stack, parent_stack_id=stack)
        times = {"start": start, "end": end, "agent_id": agent, "queue_id": queue, "stream_id": stream}
        segments = {"group_segment_size": lds, "private_segment_size": scratch}
        self._row(
            "kernel_dispatch", id=number, dispatch_id=number, kernel_id=kernel, event_id=event,
            **times, **segments, **sizes, **self._owner,
        )  # fmt: skip

    def text(self, number: int, text: str) -> None:
        """Add a string by its number."""
        self._row("string", id=number, string=text)

    def copy(
        self, start: int, end: int, size: int, *, name: int, source: int | None, destination: int | None, stream: int | None
    ) -> None:
        """Add a memory copy."""
        times = {"start": start, "end": end, "size": size, "name_id": name, "stream_id": stream}
        self._row("memory_copy", src_agent_id=source, dst_agent_id=destination, **times, **self._owner)

    def region(self, start: int, end: int, *, name: int, event: int | None = None, stack: int | None = None) -> None:
        """Add an API call or a marked range."""
        if event is not None:
            self._row("event", id=event, stack_id=stack)
        self._row("region", tid=self._pid, start=start, end=end, name_id=name, event_id=event, **self._owner)

    def counter(self, number: int, name: str, agent: int) -> None:
        """Add a counter of an agent."""
        self._row(
            "info_pmc", id=number, agent_id=agent, name=name, symbol=name, target_arch="GPU", value_type="ABS", **self._owner
        )

    def values(self, event: int | None, counter: int, *values: float | None, **columns: int) -> None:
        """Add one row per instance."""
        for value in values:
            self._row("pmc_event", event_id=event, pmc_id=counter, value=value, **columns)

    @property
    def _owner(self) -> dict[str, int]:
        return {"nid": NODE, "pid": self._pid}

    def _name(self, plain: str, guid: str | None = None) -> str:
        return f"rocpd_{plain}" + ("_" + (guid or self._guid).replace("-", "_") if self._suffixed else "")

    def _row(self, plain: str, **columns: object) -> None:
        names, marks = ", ".join(f'"{name}"' for name in ("guid", *columns)), ", ".join("?" * (len(columns) + 1))
        self._connection.execute(f'INSERT INTO "{self._name(plain)}" ({names}) VALUES ({marks})', (self._guid, *columns.values()))

    def _create(self) -> None:
        tags = "id INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT NOT NULL, value TEXT NOT NULL"
        self._connection.execute(f'CREATE TABLE "{self._name("metadata")}" ({tags})')
        for plain, columns in TABLES.items():
            added = [more[plain] for version, more in ADDED.items() if version <= self._version and plain in more]
            keys = ("id INTEGER PRIMARY KEY AUTOINCREMENT", f"guid TEXT DEFAULT '{self._guid}' NOT NULL")
            declared = ", ".join((*keys, columns, *added))
            self._connection.execute(f'CREATE TABLE "{self._name(plain)}" ({declared})')
