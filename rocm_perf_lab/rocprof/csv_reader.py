"""Reader for `rocprofv3 -f csv` (ROCm 6.2 to 10); returns the same :class:`Trace` as for a database.

Accepts a directory or some of its files: `*kernel_trace.csv`, `*counter_collection.csv`, `*memory_copy_trace.csv`,
`*_api_trace.csv`, `*agent_info.csv`, and the tables of other tools that `csv_files.py` knows. Columns are found by name; data
missing in older releases (streams, AGPRs, dispatch ids) is 0 or counted. Files with equal prefix belong to one process, and the
prefix replaces the guid. CSV contains less than a database: LDS is the static part only, registers are those of the dispatch,
and names may exist in demangled form only.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.csv_agents import agent_of_agent_info, agent_of_sysinfo, unknown_agent
from rocm_perf_lab.rocprof.csv_columns import CsvError
from rocm_perf_lab.rocprof.csv_counters import counters_by_dispatch
from rocm_perf_lab.rocprof.csv_files import DISPATCHES, CsvContent, files_of_processes, is_joined
from rocm_perf_lab.rocprof.csv_tables import processes_in, read_cells
from rocm_perf_lab.rocprof.csv_times import COARSEST_NS, timestamps, too_coarse
from rocm_perf_lab.rocprof.merging import in_order, merge
from rocm_perf_lab.rocprof.trace import (
    MARKED_RANGE,
    NO_KERNEL_TRACE,
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

    from rocm_perf_lab.rocprof.csv_columns import CsvColumn
    from rocm_perf_lab.rocprof.csv_tables import Cells, ProcessRows

    Integers = NDArray[np.int64]

_AXES = ("X", "Y", "Z")
_FORMAT = "csv"
_UNKNOWN = -1
_CLONE = re.compile(r"( \[clone \.kd\]| \(\.kd\)|\.kd)$")
"""Suffix of a kernel's descriptor: `copy.kd`, demangled `copy(float*) [clone .kd]` or `copy(float*) (.kd)`."""
_DESCRIPTIONS = (CsvContent.SYSINFO, CsvContent.AGENT_INFO)
_TIMES = ("Start_Timestamp", "End_Timestamp")
_REGISTERS = ("VGPR_Count", "Accum_VGPR_Count", "SGPR_Count")


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
        _Process(prefix, files, process).read()
        for prefix, files in processes.items()
        if (content := _dispatches_in(files)) is not None
        for process in _separated(files[content][0])
    ]
    if not traces:
        raise CsvError(
            "neither a kernel trace nor counters among the CSV files",
            where=", ".join(str(path) for path in given),
            hint="collect them with: rocprofv3 --kernel-trace -f csv -d DIRECTORY -- APP",
        )
    return traces


def _separated(file: Path) -> Sequence[ProcessRows | None]:
    processes = processes_in(file)
    return processes if len(processes) > 1 else [None]


def _digest(files: Sequence[Path], process: ProcessRows | None) -> str:
    parts = []
    for file in files:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as content:
            parts.append(hashlib.file_digest(content, "sha256").digest())
    return hashlib.sha256(b"".join((*parts, (process[1] if process else "").encode()))).hexdigest()


def _dispatches_in(files: Mapping[CsvContent, Sequence[Path]]) -> CsvContent | None:
    return next((content for content in DISPATCHES if content in files), None)


class _Process:
    """Files of one process."""

    def __init__(self, prefix: Path, files: Mapping[CsvContent, Sequence[Path]], process: ProcessRows | None) -> None:
        self._prefix = prefix
        self._process = process
        self._files = files
        self._agents: dict[str, int] = {}
        self._notes: list[str] = []

    def read(self) -> Trace:
        """Return the trace of this process."""
        content = _dispatches_in(self._files)
        assert content is not None
        file = self._files[content][0]
        dispatches, kernels, positions = self._dispatches(file, content)
        copies, regions = self._copies(), self._regions()
        counters, *replays = self._counters(positions)
        own = [path for kind, paths in self._files.items() if kind not in _DESCRIPTIONS for path in paths]
        agents = self._described_agents()
        return Trace(
            path=file if len(own) == 1 else file.parent,
            sha256=_digest(own, self._process),
            schema_version=_FORMAT,
            provenance=TraceProvenance("rocm", emulated=False, versions={}),
            processes=(TracedProcess(self._guid(), self._pid(), ""),),
            agents=agents,
            kernels=kernels,
            dispatches=dispatches,
            memory_copies=copies,
            counters=counters,
            regions=regions,
            queues=tuple(TracedLane(0, int(queue), f"Queue {queue}") for queue in np.unique(dispatches.queue)),
            streams=tuple(TracedLane(0, int(stream), f"Stream {stream}") for stream in np.unique(dispatches.stream)),
            notes=tuple(dict.fromkeys(self._notes)),
            paths=tuple(own),
            replays=tuple(replays),
        )

    def _described_agents(self) -> tuple[TracedAgent, ...]:
        for content, read in ((CsvContent.AGENT_INFO, agent_of_agent_info), (CsvContent.SYSINFO, agent_of_sysinfo)):
            if content in self._files:
                return tuple(read(label, self._files[content][0], self._process) for label in self._agents)
        return tuple(unknown_agent(label) for label in self._agents)

    def _cells(self, file: Path, needed: Sequence[str]) -> Cells:
        return read_cells(file, needed, self._process)

    def _guid(self) -> str:
        if self._process is None:
            return str(self._prefix)
        column, value = self._process
        return value if column == "Guid" else f"{self._prefix}:{value}"

    def _pid(self) -> int:
        """Return the process id, stated in the file or by the default name, `<pid>_kernel_trace.csv`; 0 if unknown."""
        if self._process is not None and self._process[1].isdecimal():
            return int(self._process[1])
        return int(self._prefix.name) if self._prefix.name.isdecimal() else 0

    def _agent_at(self, label: str) -> int:
        return self._agents.setdefault(label, len(self._agents))

    def _agents_at(self, column: CsvColumn) -> Integers:
        codes, labels = column.codes()
        return np.array([self._agent_at(label) for label in labels] or [0], np.int64)[codes]

    def _dispatches(
        self, file: Path, content: CsvContent
    ) -> tuple[Dispatches, tuple[TracedKernel, ...], tuple[Integers, Integers]]:
        """Return the dispatches, their kernels, and the dispatch ids, sorted, with the position of each."""
        cells = self._cells(file, _needed(content))
        if content in (CsvContent.COUNTER_ROWS, CsvContent.COUNTER_COLUMNS):
            cells = _first_of_each(cells, "Dispatch_Id")
            times = "times are those of the counter pass" if all(name in cells for name in _TIMES) else NO_TIMES
            if content is CsvContent.COUNTER_ROWS or is_joined(file):
                self._notes.append(f"{NO_KERNEL_TRACE}{times}, sizes are products")
        if is_joined(file) and content is CsvContent.COUNTER_COLUMNS:
            self._notes.append(
                "pmc_perf.csv joins counters of several runs: ratios of cycles from different runs are approximate"
            )
        count = len(cells["Kernel_Name"])
        none = np.empty(0, np.int64)
        if count == 0:
            return no_dispatches(), (), (none, none)

        def number(name: str, default: int = 0) -> Integers:
            return cells[name].integers() if name in cells else np.full(count, default, np.int64)

        start_ns, end_ns = self._times(cells, _TIMES, count)
        kernels, kernel = _kernels(cells, count)
        workgroup, grid = _sizes(cells, count, content)
        columns = {
            "process": np.zeros(count, np.int64),
            "agent": self._agents_at(cells["Agent_Id"]),
            "kernel": kernel,
            "queue": number("Queue_Id"),
            "stream": number("Stream_Id"),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "lds_bytes": number("LDS_Block_Size"),
            "scratch_bytes": number("Scratch_Size"),
            "workgroup": workgroup,
            "grid": grid,
            "correlation": number("Correlation_Id", _UNKNOWN),
        }
        # A trace of ROCm 6.2 has no dispatch ids; its rows are in dispatch order.
        ids = number("Dispatch_Id") if "Dispatch_Id" in cells else np.arange(1, count + 1)
        kept = timed(start_ns, end_ns)
        if not kept.all():
            self._notes.append(never_timed(count - int(kept.sum())))
            ids, columns = ids[kept], {name: column[kept] for name, column in columns.items()}
        columns, order = in_order([columns])
        ids = ids[order]
        by_id = np.argsort(ids, kind="stable")
        repeated = _repeated(ids, by_id, columns)
        if len(repeated):
            self._notes.append(f"{len(repeated):,} rows repeat a dispatch and were ignored")
            ids = np.delete(ids, repeated)
            columns = {name: np.delete(column, repeated, axis=0) for name, column in columns.items()}
            by_id = np.argsort(ids, kind="stable")
        return Dispatches(**columns), kernels, (ids[by_id], by_id)

    def _times(self, cells: Cells, names: Sequence[str], count: int) -> list[Integers]:
        """Return columns of times; all are 0 if they are missing, or too coarse."""
        if not all(name in cells for name in names):
            return [np.zeros(count, np.int64) for _ in names]
        found, precision = timestamps([cells[name] for name in names])
        if precision <= COARSEST_NS:
            return found
        self._notes.append(too_coarse(precision))
        return [np.zeros(count, np.int64) for _ in names]

    def _counters(self, positions: tuple[Integers, Integers]) -> list[dict[str, CounterValues]]:
        in_rows, in_columns = (self._files.get(kind, ()) for kind in (CsvContent.COUNTER_ROWS, CsvContent.COUNTER_COLUMNS))
        passes, notes = counters_by_dispatch(in_rows, in_columns, positions, self._process)
        self._notes.extend(notes)
        return passes

    def _copies(self) -> MemoryCopies:
        directions: dict[str, int] = {}
        parts = []
        for file in self._files.get(CsvContent.COPIES, ()):
            cells = self._cells(file, _TIMES)
            start_ns, end_ns = self._times(cells, _TIMES, len(cells["Start_Timestamp"]))
            count = len(start_ns)
            unknown = np.full(count, _UNKNOWN, np.int64)
            codes, texts = cells[_named(file, cells, "Direction", "Operation")].codes()
            numbers = np.array([directions.setdefault(text, len(directions)) for text in texts] or [0], np.int64)
            parts.append({
                "process": np.zeros(count, np.int64),
                "direction": numbers[codes],
                "size_bytes": cells["Size"].integers() if "Size" in cells else np.zeros(count, np.int64),
                "start_ns": start_ns,
                "end_ns": end_ns,
                "source": self._agents_at(cells["Source_Agent_Id"]) if "Source_Agent_Id" in cells else unknown,
                "destination": self._agents_at(cells["Destination_Agent_Id"]) if "Destination_Agent_Id" in cells else unknown,
                "queue": unknown,
                "stream": cells["Stream_Id"].integers() if "Stream_Id" in cells else unknown,
                "correlation": cells["Correlation_Id"].integers() if "Correlation_Id" in cells else unknown,
            })  # fmt: skip
        return MemoryCopies(**in_order(parts)[0], directions=tuple(directions)) if parts else no_copies()

    def _regions(self) -> Regions:
        names: dict[str, int] = {}
        parts = []
        for file in self._files.get(CsvContent.API_CALLS, ()):
            cells = self._cells(file, ("Function", *_TIMES))
            start_ns, end_ns = self._times(cells, _TIMES, len(cells["Function"]))
            unknown = np.full(len(start_ns), _UNKNOWN, np.int64)
            parts.append({
                "process": np.zeros(len(start_ns), np.int64),
                "thread": cells["Thread_Id"].integers() if "Thread_Id" in cells else np.zeros(len(start_ns), np.int64),
                "name": _region_names(cells, names),
                "start_ns": start_ns,
                "end_ns": end_ns,
                "correlation": cells["Correlation_Id"].integers() if "Correlation_Id" in cells else unknown,
            })  # fmt: skip
        return Regions(**in_order(parts)[0], names=tuple(names)) if parts else no_regions()


def _needed(content: CsvContent) -> tuple[str, ...]:
    """Return the columns without which dispatches cannot be read."""
    if content is CsvContent.KERNEL_TRACE:
        sizes = [f"{what}_Size_{axis}" for what in ("Workgroup", "Grid") for axis in _AXES]
        return ("Agent_Id", "Kernel_Name", *_TIMES, *sizes)
    # Counters of ROCm 6.2 have no times.
    return ("Agent_Id", "Kernel_Name", "Dispatch_Id", "Workgroup_Size", "Grid_Size")


def _kernels(cells: Cells, count: int) -> tuple[tuple[TracedKernel, ...], Integers]:
    """Return the kernels by name and sizes, and the kernel of each row."""
    key, names = cells["Kernel_Name"].codes()
    columns = [key]
    zeros = np.zeros(count, np.int64)
    for name in (*_REGISTERS, "LDS_Block_Size", "Scratch_Size"):
        columns.append(cells[name].integers() if name in cells else zeros)
        _, codes = np.unique(columns[-1], return_inverse=True)
        key = key * (int(codes.max()) + 1) + codes.ravel()
    _, first, kernel = np.unique(key, return_index=True, return_inverse=True)
    # Kernels are numbered in order of their first row.
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    kernels = []
    for row in first[order].tolist():
        code, vgprs, agprs, sgprs, lds_bytes, scratch_bytes = (int(column[row]) for column in columns)
        name = _CLONE.sub("", names[code].strip()).strip()
        kernels.append(TracedKernel(0, name, name, vgprs, agprs, sgprs, lds_bytes, scratch_bytes))
    return tuple(kernels), number[kernel.ravel()]


def _sizes(cells: Cells, count: int, content: CsvContent) -> tuple[Integers, Integers]:
    """Return workgroups and grids in work-items, of shape (n, 3); products are along the first axis."""
    found = []
    for what in ("Workgroup", "Grid"):
        if content is CsvContent.KERNEL_TRACE:
            axes = [cells[f"{what}_Size_{axis}"].integers() for axis in _AXES]
        else:
            one = np.ones(count, np.int64)
            axes = [cells[f"{what}_Size"].integers(), one, one]
        found.append(np.stack(axes, axis=1))
    return found[0], found[1]


def _region_names(cells: Cells, names: dict[str, int]) -> Integers:
    """Return the number of each region's name; a marked range may have the name of an API call, so it gets a prefix."""
    function, functions = cells["Function"].codes()
    domain, domains = cells["Domain"].codes() if "Domain" in cells else (np.zeros(len(function), np.int64), [""])
    pairs = domain * max(len(functions), 1) + function
    used, which = np.unique(pairs, return_inverse=True)
    numbers = []
    for pair in used.tolist():
        of_domain, of_function = divmod(pair, max(len(functions), 1))
        text = functions[of_function]
        text = f"{MARKED_RANGE}{text}" if domains[of_domain].startswith("MARKER") else text
        numbers.append(names.setdefault(text, len(names)))
    found: Integers = np.array(numbers or [0], np.int64)[which.ravel()]
    return found


def _repeated(ids: Integers, by_id: Integers, columns: Mapping[str, Integers]) -> Integers:
    """Return the positions of rows that repeat the dispatch before them, which a table that was written twice has."""
    same = ids[by_id[1:]] == ids[by_id[:-1]]
    if not same.any():
        return np.empty(0, np.int64)
    for name in ("start_ns", "end_ns", "agent", "kernel", "queue"):
        same &= columns[name][by_id[1:]] == columns[name][by_id[:-1]]
    found: Integers = by_id[1:][same]
    return found


def _first_of_each(cells: Cells, key: str) -> Cells:
    """Return the first row of each value of `key`."""
    _, first = np.unique(cells[key].codes()[0], return_index=True)
    if len(first) == len(cells[key]):
        return cells
    rows = np.sort(first)
    return {name: column.take(rows) for name, column in cells.items()}


def _named(file: Path, cells: Cells, *names: str) -> str:
    """Return the first of several names of a column that a file uses.

    Raises:
        CsvError: The file has none of them.
    """
    found = next((name for name in names if name in cells), None)
    if found is None:
        raise CsvError(f"no column {' or '.join(names)}", where=str(file), hint="pass the file as rocprofv3 wrote it")
    return found
