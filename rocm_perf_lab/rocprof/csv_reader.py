"""Reader for `rocprofv3 -f csv` (ROCm 6.2 to 10); returns the same :class:`Trace` as for a database.

Accepts a directory or some of its files: `*kernel_trace.csv`, `*counter_collection.csv`, `*memory_copy_trace.csv`,
`*_api_trace.csv`, `*agent_info.csv`, and the tables of other tools that `csv_files.py` knows. Columns are found by name; data
missing in older releases (streams, AGPRs, dispatch ids) is 0 or counted. Files with equal prefix belong to one process, and the
prefix replaces the guid. CSV contains less than a database: LDS is the static part only, registers are those of the dispatch,
and names may exist in demangled form only.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.csv_agents import agent_of_agent_info, agent_of_sysinfo, unknown_agent
from rocm_perf_lab.rocprof.csv_counters import counters_by_dispatch
from rocm_perf_lab.rocprof.csv_files import files_of_processes
from rocm_perf_lab.rocprof.csv_tables import CsvError, content_of, guids_of, integers, read_cells
from rocm_perf_lab.rocprof.merging import in_order, merge
from rocm_perf_lab.rocprof.trace import (
    MARKED_RANGE,
    NO_TIMES,
    CounterValues,
    Dispatches,
    MemoryCopies,
    Regions,
    Trace,
    TracedAgent,
    TracedKernel,
    TracedLane,
    TracedProcess,
    TraceProvenance,
    never_timed,
    no_copies,
    no_dispatches,
    no_regions,
    timed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.csv_tables import Cells

    Integers = NDArray[np.int64]

_AXES = ("X", "Y", "Z")
_FORMAT = "csv"
_OF_DISPATCHES = ("kernel_trace", "counter_collection", "counter_columns")
"""Tables that may list dispatches, preferred first."""
_UNKNOWN = -1
_CLONE = re.compile(r"( \[clone)? ?\.kd\]?$")
"""Suffix of a kernel's descriptor: `copy.kd`, demangled `copy(float*) [clone .kd]`."""


def read_csv(paths: Iterable[Path]) -> Trace:
    """Return the trace of the given files, or of the files in the given directories; several processes are merged.

    Raises:
        CsvError: The files contain neither a kernel trace nor counters, a column is missing, or a value is not a number.
    """
    return merge(read_csv_processes(paths))


def read_csv_processes(paths: Iterable[Path]) -> list[Trace]:
    """Return the trace of each process, and of each pass if a tool writes one table per pass.

    Raises:
        CsvError: The files contain neither a kernel trace nor counters, a column is missing, or a value is not a number.
    """
    given = tuple(paths)
    processes = files_of_processes(given)
    traces = [
        _Process(prefix, files, guid).read()
        for prefix, files in processes.items()
        if (kind := _kind_of_dispatches(files)) is not None
        for guid in _processes_in(files[kind][0])
    ]
    if not traces:
        raise CsvError(
            "neither a kernel trace nor counters among the CSV files",
            where=", ".join(str(path) for path in given),
            hint="collect them with: rocprofv3 --kernel-trace -f csv -d DIRECTORY -- APP",
        )
    return traces


def _processes_in(file: Path) -> Sequence[str | None]:
    guids = guids_of(file)
    return guids if len(guids) > 1 else [None]


def _digest(contents: Iterable[bytes], guid: str | None) -> str:
    parts = [hashlib.sha256(content).digest() for content in contents]
    return hashlib.sha256(b"".join((*parts, (guid or "").encode()))).hexdigest()


def _kind_of_dispatches(files: Mapping[str, Sequence[Path]]) -> str | None:
    return next((kind for kind in _OF_DISPATCHES if kind in files), None)


class _Process:
    """Files of one process."""

    def __init__(self, prefix: Path, files: Mapping[str, Sequence[Path]], guid: str | None) -> None:
        self._prefix = prefix
        self._guid = guid
        self._files = files
        self._agents: dict[str, int] = {}
        self._kernels: dict[tuple[str, ...], int] = {}
        self._notes: list[str] = []

    def read(self) -> Trace:
        """Return the trace of this process."""
        kind = _kind_of_dispatches(self._files)
        assert kind is not None
        file = self._files[kind][0]
        dispatches, row_of = self._dispatches(file, counters_only=kind != "kernel_trace")
        copies, regions = self._copies(), self._regions()
        counters, *replays = self._counters(row_of)
        contents = [content_of(path) for paths in self._files.values() for path in paths]
        agents = self._described_agents()
        return Trace(
            path=file if len(contents) == 1 else file.parent,
            sha256=_digest(contents, self._guid),
            schema_version=_FORMAT,
            provenance=TraceProvenance("rocm", emulated=False, versions={}),
            processes=(TracedProcess(self._guid or str(self._prefix), self._pid(), ""),),
            agents=agents,
            kernels=tuple(TracedKernel(0, name, name, *(int(size) for size in sizes)) for name, *sizes in self._kernels),
            dispatches=dispatches,
            memory_copies=copies,
            counters=counters,
            regions=regions,
            queues=tuple(TracedLane(0, int(queue), f"Queue {queue}") for queue in np.unique(dispatches.queue)),
            streams=tuple(TracedLane(0, int(stream), f"Stream {stream}") for stream in np.unique(dispatches.stream)),
            notes=tuple(self._notes),
            paths=tuple(path for paths in self._files.values() for path in paths),
            replays=tuple(replays),
        )

    def _described_agents(self) -> tuple[TracedAgent, ...]:
        for kind, read in (("agent_info", agent_of_agent_info), ("sysinfo", agent_of_sysinfo)):
            if kind in self._files:
                return tuple(read(label, self._files[kind][0], self._guid) for label in self._agents)
        return tuple(unknown_agent(label) for label in self._agents)

    def _cells(self, file: Path, needed: Sequence[str]) -> Cells:
        return read_cells(file, needed, self._guid)

    def _pid(self) -> int:
        """Return the process id of the default name, `<pid>_kernel_trace.csv`; 0 for any other name."""
        return int(self._prefix.name) if self._prefix.name.isdecimal() else 0

    def _agent_at(self, label: str) -> int:
        return self._agents.setdefault(label, len(self._agents))

    def _kernel_at(self, *name_and_sizes: str) -> int:
        return self._kernels.setdefault(name_and_sizes, len(self._kernels))

    def _dispatches(self, file: Path, *, counters_only: bool) -> tuple[Dispatches, dict[int, int]]:
        """Return the dispatches, and the position of each dispatch id."""
        sizes = (
            ("Workgroup_Size", "Grid_Size")
            if counters_only
            else tuple(f"{w}_Size_{a}" for w in ("Workgroup", "Grid") for a in _AXES)
        )
        # Counters of ROCm 6.2 have no times.
        needed = ("Dispatch_Id",) if counters_only else ("Start_Timestamp", "End_Timestamp")
        cells = self._cells(file, ("Agent_Id", "Kernel_Name", *needed, *sizes))
        # A trace of ROCm 6.2 has no dispatch ids; its rows are in dispatch order.
        cells.setdefault("Dispatch_Id", [str(row) for row in range(1, len(cells["Kernel_Name"]) + 1)])
        if counters_only:
            cells = _first_of_each(cells, "Dispatch_Id")
            has_times = "Start_Timestamp" in cells and "End_Timestamp" in cells
            times = "times are those of the counter pass" if has_times else NO_TIMES
            self._notes.append(f"there is no kernel trace: {times}, sizes are products")
        if file.name.startswith("pmc_perf."):
            self._notes.append(
                "pmc_perf.csv joins counters of several runs: ratios of cycles from different runs are approximate"
            )
        count = len(cells["Dispatch_Id"])
        if count == 0:
            return no_dispatches(), {}

        def number(name: str, default: str = "0") -> Integers:
            return integers(file, name, cells.get(name) or [default] * count)

        registers = [cells.get(name) or ["0"] * count for name in ("VGPR_Count", "Accum_VGPR_Count", "SGPR_Count")]
        lds, scratch = (cells.get(name) or ["0"] * count for name in ("LDS_Block_Size", "Scratch_Size"))
        rows = list(zip(cells["Kernel_Name"], *registers, lds, scratch, strict=True))
        kernel_of = {row: self._kernel_at(_CLONE.sub("", row[0].strip()).strip(), *row[1:]) for row in dict.fromkeys(rows)}
        kernels = [kernel_of[row] for row in rows]
        one = np.ones(count, np.int64)
        axes = (
            [[number(s), one, one] for s in sizes]
            if counters_only
            else [[number(n) for n in sizes[at : at + 3]] for at in (0, 3)]
        )
        columns = {
            "process": np.zeros(count, np.int64),
            "agent": np.array([self._agent_at(label) for label in cells["Agent_Id"]], np.int64),
            "kernel": np.array(kernels, np.int64),
            "queue": number("Queue_Id"),
            "stream": number("Stream_Id"),
            "start_ns": number("Start_Timestamp"),
            "end_ns": number("End_Timestamp"),
            "lds_bytes": number("LDS_Block_Size"),
            "scratch_bytes": number("Scratch_Size"),
            "workgroup": np.stack(axes[0], axis=1),
            "grid": np.stack(axes[1], axis=1),
            "correlation": number("Correlation_Id", str(_UNKNOWN)),
        }
        ids = number("Dispatch_Id")
        kept = timed(columns["start_ns"], columns["end_ns"])
        if not kept.all():
            self._notes.append(never_timed(count - int(kept.sum())))
            ids, columns = ids[kept], {name: column[kept] for name, column in columns.items()}
        columns, order = in_order([columns])
        return Dispatches(**columns), {dispatch: position for position, dispatch in enumerate(ids[order].tolist())}

    def _counters(self, position_of: Mapping[int, int]) -> list[dict[str, CounterValues]]:
        in_rows, in_columns = (self._files.get(kind, ()) for kind in ("counter_collection", "counter_columns"))
        passes, notes = counters_by_dispatch(in_rows, in_columns, position_of, self._guid)
        self._notes.extend(notes)
        return passes

    def _copies(self) -> MemoryCopies:
        directions: dict[str, int] = {}
        parts = []
        for file in self._files.get("memory_copy_trace", ()):
            cells = self._cells(file, ("Direction", "Start_Timestamp", "End_Timestamp"))
            count = len(cells["Direction"])
            unknown = [str(_UNKNOWN)] * count
            ends = {
                column: np.array([self._agent_at(label) for label in cells.get(name, [])] or [_UNKNOWN] * count, np.int64)
                for column, name in (("source", "Source_Agent_Id"), ("destination", "Destination_Agent_Id"))
            }
            parts.append({
                "process": np.zeros(count, np.int64),
                "direction": np.array([directions.setdefault(text, len(directions)) for text in cells["Direction"]], np.int64),
                "size_bytes": integers(file, "Size", cells.get("Size") or ["0"] * count),
                "start_ns": integers(file, "Start_Timestamp", cells["Start_Timestamp"]),
                "end_ns": integers(file, "End_Timestamp", cells["End_Timestamp"]),
                **ends,
                "queue": np.full(count, _UNKNOWN),
                "stream": integers(file, "Stream_Id", cells.get("Stream_Id") or unknown),
                "correlation": integers(file, "Correlation_Id", cells.get("Correlation_Id") or unknown),
            })  # fmt: skip
        return MemoryCopies(**in_order(parts)[0], directions=tuple(directions)) if parts else no_copies()

    def _regions(self) -> Regions:
        names: dict[str, int] = {}
        parts = []
        for file in self._files.get("api_trace", ()):
            cells = self._cells(file, ("Function", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp"))
            parts.append({
                "process": np.zeros(len(cells["Function"]), np.int64),
                "thread": integers(file, "Thread_Id", cells["Thread_Id"]),
                "name": np.array([names.setdefault(text, len(names)) for text in _region_names(cells)], np.int64),
                "start_ns": integers(file, "Start_Timestamp", cells["Start_Timestamp"]),
                "end_ns": integers(file, "End_Timestamp", cells["End_Timestamp"]),
                "correlation": integers(file, "Correlation_Id", cells["Correlation_Id"]),
            })  # fmt: skip
        return Regions(**in_order(parts)[0], names=tuple(names)) if parts else no_regions()


def _region_names(cells: Cells) -> list[str]:
    """Return region names; a marked range may have the name of an API call, so it gets a prefix."""
    domains = cells.get("Domain") or [""] * len(cells["Function"])
    functions = zip(domains, cells["Function"], strict=True)
    return [f"{MARKED_RANGE}{function}" if domain.startswith("MARKER") else function for domain, function in functions]


def _first_of_each(cells: Cells, key: str) -> Cells:
    """Return the first row of each value of `key`."""
    seen: dict[str, int] = {}
    for row, value in enumerate(cells[key]):
        seen.setdefault(value, row)
    return {name: [column[row] for row in seen.values()] for name, column in cells.items()}
