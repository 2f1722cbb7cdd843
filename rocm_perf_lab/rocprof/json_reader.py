"""Reader for `rocprofv3 -f json` (`*_results.json`, ROCm 6.2 to 10); returns the same :class:`Trace` as for a database.

The layout is that of rocprofiler-sdk's generateJSON.cpp: under `rocprofiler-sdk-tool` one object per process with agents,
counters, names and kernel symbols, followed by the records, which are read one at a time and kept as columns. Data missing in
older releases (streams, times of counter records) is 0. Without a kernel trace the dispatches are those of the counter records,
as in rocprofv3's databases; calls of zero duration are marks there, and are ignored here too.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.counter_values import per_dispatch
from rocm_perf_lab.rocprof.descriptions import KERNEL_SIZES, provenance_of, traced_kernel, unknown_kernel
from rocm_perf_lab.rocprof.json_document import UNKNOWN, ProcessDocument, handle, signed
from rocm_perf_lab.rocprof.json_files import COLLECT, ROOT, opened, refuse_other
from rocm_perf_lab.rocprof.json_stream import JsonError, JsonStream
from rocm_perf_lab.rocprof.merging import in_order
from rocm_perf_lab.rocprof.trace import (
    MARKED_RANGE,
    NO_TIMES,
    Dispatches,
    MemoryCopies,
    Regions,
    Trace,
    TracedAgent,
    TracedLane,
    TracedProcess,
    never_timed,
    no_copies,
    no_dispatches,
    no_regions,
    timed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import CounterValues, TracedKernel

    Integers = NDArray[np.int64]

_FORMAT = "json"
_AGENT_KINDS = {1: "CPU", 2: "GPU", 3: "NIC"}


def read_results(path: Path) -> list[Trace]:
    """Return the trace of each process of one file.

    Raises:
        JsonError: The file is not JSON of rocprofv3, or is damaged.
    """
    with opened(path) as source:
        stream = JsonStream(source, path)
        if stream.peek() != "{":
            raise JsonError("this is not JSON of rocprofv3", where=str(path), hint=COLLECT)
        processes: list[_Process] = []
        keys = []
        for key in stream.members():
            keys.append(key)
            if key != ROOT:
                refuse_other(path, key)
                stream.skip()
            elif stream.peek() == "[":
                processes += [_Process(path, ProcessDocument(path, stream)) for _ in stream.entries()]
            else:
                processes.append(_Process(path, ProcessDocument(path, stream)))
        if stream.peek():
            raise JsonError(
                "unexpected content after the end of the document", where=str(path), hint="pass each document separately"
            )
    if ROOT not in keys:
        shown = ", ".join(keys[:6]) or "none"
        raise JsonError(f"this JSON is not of rocprofv3; its keys: {shown}", where=str(path), hint=COLLECT)
    if not processes:
        raise JsonError("the document contains no process", where=str(path), hint=COLLECT)
    with path.open("rb") as whole:
        digest = hashlib.file_digest(whole, "sha256").hexdigest()
    if len(processes) == 1:
        return [processes[0].trace(digest)]
    digests = (hashlib.sha256(f"{digest} {index}".encode()).hexdigest() for index in range(len(processes)))
    return [process.trace(own) for process, own in zip(processes, digests, strict=True)]


class _Process:
    """Trace of the document of one process."""

    def __init__(self, path: Path, document: ProcessDocument) -> None:
        self._path = path
        self._document = document
        self._notes: list[str] = []

    def trace(self, sha256: str) -> Trace:
        """Return the trace. Can be called once, because it releases the records."""
        agents = self._traced_agents()
        dispatches, kernels, ids = self._traced_dispatches()
        counters, *replays = self._counters(ids)
        return Trace(
            path=self._path,
            sha256=sha256,
            schema_version=_FORMAT,
            provenance=provenance_of(agents),
            processes=(self._traced_process(),),
            agents=agents,
            kernels=kernels,
            dispatches=dispatches,
            memory_copies=self._traced_copies(),
            counters=counters,
            regions=self._traced_regions(),
            queues=_lanes("Queue", dispatches.queue),
            streams=_lanes("Stream", dispatches.stream),
            notes=tuple(self._notes),
            paths=(self._path,),
            replays=tuple(replays),
        )

    def _traced_process(self) -> TracedProcess:
        metadata = self._document.metadata
        with self._document.understood("metadata", metadata):
            pid, parent, start_ns, end_ns = (int(metadata.get(key) or 0) for key in ("pid", "ppid", "init_time", "fini_time"))
            node, command = metadata.get("node") or {}, metadata.get("command") or ""
            machine = str(node.get("machine_id") or node.get("hostname") or "")
            text = command if isinstance(command, str) else " ".join(map(str, command))
        # The document contains no guid; process ids repeat only much later.
        return TracedProcess(f"{_FORMAT}:{pid}:{start_ns}", pid, text, machine, parent, start_ns, end_ns)

    def _traced_agents(self) -> tuple[TracedAgent, ...]:
        agents = []
        for agent in self._document.agents:
            with self._document.understood("agents", agent):
                kind = agent.get("type")
                agents.append(
                    TracedAgent(
                        process=0,
                        id=int(agent.get("node_id", handle(agent["id"]))),
                        kind=_AGENT_KINDS.get(kind, "") if isinstance(kind, int) else str(kind or "").upper(),
                        name=str(agent.get("name") or ""),
                        product_name=str(agent.get("product_name") or ""),
                        properties=agent,
                    )
                )
        return tuple(agents)

    def _traced_dispatches(self) -> tuple[Dispatches, tuple[TracedKernel, ...], Integers]:
        """Return the dispatches, the kernels that they refer to, and the id of each dispatch."""
        kernels = self._described_kernels()
        from_counters = not len(self._document.dispatches)
        found = (self._document.counted if from_counters else self._document.dispatches).taken()
        ids = found.pop("id")
        if not len(ids):
            return no_dispatches(), tuple(kernels.values()), ids
        if np.any(ids[1:] <= ids[:-1]):
            # A dispatch that was counted twice ran once.
            ids, first = np.unique(ids, return_index=True)
            found = {name: found.pop(name)[first] for name in tuple(found)}
        kept = timed(found["start_ns"], found["end_ns"])
        if not kept.all():
            self._notes.append(never_timed(len(ids) - int(kept.sum())))
            ids, found = ids[kept], {name: found.pop(name)[kept] for name in tuple(found)}
        for number in np.unique(found["kernel"]).tolist():
            kernels.setdefault(number, unknown_kernel(0, number))
        if from_counters and not found["start_ns"].any():
            self._notes.append(NO_TIMES)
        columns, order = in_order([
            {
                "process": np.zeros(len(ids), np.int64),
                "agent": self._position_of_agents(found["agent"]),
                "kernel": _positions(list(kernels), found["kernel"]),
                **{what: np.stack([found.pop(f"{what}_{axis}") for axis in "xyz"], axis=1) for what in ("workgroup", "grid")},
                **{name: found.pop(name) for name in tuple(found) if name not in ("agent", "kernel")},
            }
        ])  # fmt: skip
        return Dispatches(**columns), tuple(kernels.values()), ids[order]

    def _described_kernels(self) -> dict[int, TracedKernel]:
        kernels = {}
        for symbol in self._document.symbols:
            with self._document.understood("kernel_symbols", symbol):
                names = (symbol.get("kernel_name"), symbol.get("formatted_kernel_name") or symbol.get("demangled_kernel_name"))
                mangled, shown = (str(name or "") for name in names)
                sizes = [int(symbol.get(size) or 0) for size in KERNEL_SIZES]
                code = self._document.code_objects.get(int(symbol.get("code_object_id") or 0), "")
                kernels[int(symbol["kernel_id"])] = traced_kernel(0, mangled, shown, sizes, code)
        return dict(sorted(kernels.items()))

    def _position_of_agents(self, handles: Integers) -> Integers:
        position = self._found_agents(handles)
        if (position == UNKNOWN).any():
            raise JsonError(
                f"a dispatch refers to agent {handles[position == UNKNOWN][0]}, which the document does not describe",
                where=str(self._path),
                hint="collect it again",
            )
        return position

    def _found_agents(self, handles: Integers) -> Integers:
        return _positions([handle(agent["id"]) for agent in self._document.agents], handles)

    def _counters(self, ids: Integers) -> list[dict[str, CounterValues]]:
        """Return the counters by pass; at least one pass."""
        rows = self._document.instances.taken()
        handles, named = list(self._document.counter_names), self._document.counter_names.values()
        names = sorted(set(named))
        number = {name: index for index, name in enumerate(names)}
        name_of_handle = np.array([number[name] for name in named] or [0], np.int64)
        described = _positions(handles, rows["counter"])
        name = np.where(described == UNKNOWN, UNKNOWN, name_of_handle[described])
        position = _positions(ids, rows["dispatch"])
        known = (name != UNKNOWN) & (position != UNKNOWN)
        if undescribed := int(np.count_nonzero(name == UNKNOWN)):
            self._notes.append(f"{undescribed} counter values belong to counters that the document does not describe; ignored")
        if stray := int(np.count_nonzero((name != UNKNOWN) & (position == UNKNOWN))):
            self._notes.append(f"{stray} counter values belong to dispatches missing in the kernel trace; ignored")
        value = np.array(self._document.values, np.float64)
        passes = []
        for replayed in np.unique(rows["pass"][known]).tolist():
            of_pass = known & (rows["pass"] == replayed)
            counters, notes = per_dispatch(names, name[of_pass], position[of_pass], value[of_pass], rows_are_channels=True)
            passes.append(counters)
            self._notes.extend(notes)
        return passes or [{}]

    def _traced_copies(self) -> MemoryCopies:
        if not len(self._document.copies):
            return no_copies()
        rows = self._document.copies.taken()
        rows["source"], rows["destination"] = (self._found_agents(rows[name]) for name in ("source", "destination"))
        none = np.zeros(len(rows["source"]), np.int64)
        columns, _ = in_order([{**rows, "process": none, "queue": none + UNKNOWN}])
        return MemoryCopies(**columns, directions=tuple(self._document.operation(*key) for key in self._document.directions))

    def _traced_regions(self) -> Regions:
        if not len(self._document.regions):
            return no_regions()
        rows = self._document.regions.taken()
        order = np.argsort(rows["correlation"], kind="stable")
        rows = {name: column[order] for name, column in rows.items()}
        names: dict[str, int] = {}
        operations = [names.setdefault(self._document.operation(*key), len(names)) for key in self._document.names]
        marks = np.array([self._document.is_mark(kind) for kind, _ in self._document.names])[rows["name"]]
        rows["name"] = np.array(operations, np.int64)[rows["name"]]
        for row in np.flatnonzero(marks).tolist():
            if message := self._document.messages.get(int(rows["correlation"][row])):
                rows["name"][row] = names.setdefault(f"{MARKED_RANGE}{message}", len(names))
        columns, _ = in_order([{**rows, "process": np.zeros(len(order), np.int64)}])
        return Regions(**columns, names=tuple(names))


def _positions(known: Sequence[int] | Integers, wanted: Integers) -> Integers:
    """Return the position of each number among the known ones, or -1 if it is missing."""
    if not len(known):
        return np.full(len(wanted), UNKNOWN, np.int64)
    numbers = known if isinstance(known, np.ndarray) else np.array([signed(number) for number in known], np.int64)
    order = np.argsort(numbers, kind="stable")
    at = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(numbers) - 1)]
    return np.where(numbers[at] == wanted, at, UNKNOWN)


def _lanes(word: str, used: Integers) -> tuple[TracedLane, ...]:
    numbers = sorted({0, *np.unique(used).tolist()})
    return tuple(TracedLane(0, number, f"{word} {number}" if number else f"Default {word}") for number in numbers)
