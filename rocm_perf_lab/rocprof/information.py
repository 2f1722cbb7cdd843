"""Small tables of a rocpd database (`rocpd_info_*`): processes, agents, kernels, threads, queues and streams of a trace."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.descriptions import KERNEL_SIZES, described_code_object, traced_kernel, unknown_kernel
from rocm_perf_lab.rocprof.references import UNKNOWN, Index
from rocm_perf_lab.rocprof.trace import TracedAgent, TracedLane, TracedProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.columns import Tables
    from rocm_perf_lab.rocprof.trace import TracedKernel

    Integers = NDArray[np.int64]


_REPLAYED = re.compile(r'"ROCPROF_KERNEL_REPLAY"\s*:\s*"(1|true|on|yes)"', re.IGNORECASE)
"""Setting in the environment of a process by which rocprofv3 enables kernel replay in its tool."""


class Information:
    """Objects that rows of the large tables refer to.

    Raises:
        DatabaseError: The tables contradict each other.
        json.JSONDecodeError: The properties of an agent are not JSON.
        sqlite3.Error: A table or a column is missing.
    """

    def __init__(self, tables: Tables, path: Path) -> None:
        self._tables = tables
        self._path = path
        life = ("nid", "ppid", "init", "fini")
        rows = tables.rows("rocpd_info_process", ("id", "pid"), ("command", "environment"), optional=life)
        machines = self._machines()
        self.processes = tuple(
            TracedProcess(guid, pid, command, machines.get((guid, node), ""), parent, begin_ns, end_ns)
            for guid, _, pid, node, parent, begin_ns, end_ns, command, _ in rows
        )
        self.is_replayed = any(_REPLAYED.search(row[-1]) for row in rows)
        """True if rocprofv3 ran dispatches several times, once per group of counters."""
        self.process_at = Index(path, [row[:2] for row in rows])
        self.agents, self.agent_at = self._read_agents()
        self._kernels, self._kernel_at = self._read_kernels()
        self._threads = self._read_threads()

    @property
    def kernels(self) -> tuple[TracedKernel, ...]:
        """Described kernels, followed by those that were dispatched but not described."""
        return tuple(self._kernels)

    def kernels_at(self, guid: str, ids: Integers, process: Integers) -> Integers:
        """Return the position of each kernel. Kernels without description are named by number, as in rocprofv3."""
        found = self._kernel_at.find(guid, ids, optional=True)
        missing = found == UNKNOWN
        for kernel_id in np.unique(ids[missing]).tolist():
            of_kernel = missing & (ids == kernel_id)
            found[of_kernel] = len(self._kernels)
            self._kernels.append(unknown_kernel(int(process[of_kernel][0]), kernel_id))
        return found

    def threads(self, guid: str, ids: Integers) -> Integers:
        """Return the system's number of each thread: rocprofv3 uses it as id, other writers count."""
        numbers = self._threads.get(guid)
        if numbers is None:
            return ids
        used, at = np.unique(ids, return_inverse=True)
        return np.array([numbers.get(thread, thread) for thread in used.tolist()], np.int64)[at.ravel()]

    def lanes(self, table: str) -> tuple[TracedLane, ...]:
        """Return queues or streams."""
        rows = self._tables.rows(table, ("id", "pid"), ("name",)) if table in self._tables else []
        return tuple(TracedLane(self.process_at.find_one(guid, pid), row_id, name) for guid, row_id, pid, name in rows)

    def _machines(self) -> Mapping[tuple[str, int], str]:
        if "rocpd_info_node" not in self._tables:
            return {}
        rows = self._tables.rows("rocpd_info_node", ("id",), ("machine_id", "hostname"))
        return {(guid, node): machine or host for guid, node, machine, host in rows}

    def _read_agents(self) -> tuple[tuple[TracedAgent, ...], Index]:
        texts = ("type", "name", "generic_name", "product_name", "extdata")
        rows = self._tables.rows("rocpd_info_agent", ("id", "pid"), texts)
        agents = []
        for guid, row_id, pid, kind, name, generic, product, extdata in rows:
            process = self.process_at.find_one(guid, pid)
            # In schema 4 agents have user-defined names and a generic architecture.
            agents.append(TracedAgent(process, row_id, kind, generic or name, product, _properties(extdata)))
        return tuple(agents), Index(self._path, [row[:2] for row in rows])

    def _read_kernels(self) -> tuple[list[TracedKernel], Index]:
        names = ("display_name", "kernel_name")
        rows = self._tables.rows("rocpd_info_kernel_symbol", ("id", "pid"), names, optional=(*KERNEL_SIZES, "code_object_id"))
        code_objects = self._code_objects()
        kernels = []
        for guid, row_id, pid, *sizes, code_object, display, symbol in rows:
            process = self.process_at.find_one(guid, pid)
            if display or symbol:
                kernels.append(traced_kernel(process, symbol, display, sizes, code_objects.get((guid, code_object), "")))
            else:
                kernels.append(unknown_kernel(process, row_id))
        return kernels, Index(self._path, [row[:2] for row in rows])

    def _code_objects(self) -> Mapping[tuple[str, int], str]:
        if "rocpd_info_code_object" not in self._tables:
            return {}
        rows = self._tables.rows("rocpd_info_code_object", ("id",), ("uri",), optional=("load_size",))
        return {(guid, row_id): described_code_object(uri, load_bytes) for guid, row_id, load_bytes, uri in rows}

    def _read_threads(self) -> Mapping[str, Mapping[int, int]]:
        """Return thread numbers of processes whose thread ids are not those of the system."""
        threads: dict[str, dict[int, int]] = {}
        if "rocpd_info_thread" in self._tables:
            for guid, row_id, thread in self._tables.rows("rocpd_info_thread", ("id", "tid"), ()):
                threads.setdefault(guid, {})[row_id] = thread
        return {guid: numbers for guid, numbers in threads.items() if any(row != thread for row, thread in numbers.items())}


def _properties(extdata: str) -> dict[str, Any]:
    """Return the properties of an agent; empty if they are not a JSON object."""
    properties = json.loads(extdata or "{}")
    return properties if isinstance(properties, dict) else {}
