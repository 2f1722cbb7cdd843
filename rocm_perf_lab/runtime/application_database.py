"""rocpd databases of an application that ran on emulated GPUs: `write_databases(...)`, one per process that dispatched kernels.

Records are read and written one by one, so that memory does not grow with the number of dispatches. Instruction counters are
exact. Counters that depend on time or caches are scaled from the same estimate, and by the same factor, as the duration of the
dispatch.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab import __version__
from rocm_perf_lab.device.launch_record import symbol_record
from rocm_perf_lab.emulator.sampling import DEFAULT_SEED
from rocm_perf_lab.rocprof.recording import (
    AgentRecord,
    CodeObjectRecord,
    DispatchRecord,
    MemoryCopyRecord,
    ProcessRecord,
)
from rocm_perf_lab.rocprof.writer import open_database
from rocm_perf_lab.runtime.dispatch_records import (
    RecordedCopy,
    RecordedCounts,
    RecordedDispatch,
    RecordedProcess,
    read_records,
)
from rocm_perf_lab.runtime.emulated_clock import TimedKernel, dispatch_counters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.database_stream import DatabaseStream
    from rocm_perf_lab.runtime.emulated_clock import EstimatedDispatch
    from rocm_perf_lab.target.model import Target

DEVICE_NAME = "emulator"
_MOST_COUNTED = 2000
"""Maximum number of dispatches of a kernel with counters in a database, which limits the number of rows."""
_RECORDS = "records.*"


@dataclass(frozen=True)
class ApplicationKernel:
    """Kernel that an application launched, and its code object; `code` is empty if the driver did not observe its loading."""

    timed: TimedKernel
    architecture: str
    code_sha256: str
    code: bytes = b""


@dataclass(frozen=True)
class ApplicationRecords:
    """Records of a finished session about dispatches.

    Args:
        session: Directory with the records of the processes.
        targets: Emulated GPUs.
        kernels: Kernels by the numbers that the records use.
        estimates: Estimates by number.
        command: Command line of the application.
        selected: Kernels whose dispatches have counters; None: all.
    """

    session: Path
    targets: Sequence[Target]
    kernels: Mapping[int, ApplicationKernel]
    estimates: Mapping[int, EstimatedDispatch]
    command: str
    selected: frozenset[int] | None = None

    def is_selected(self, entry: RecordedDispatch) -> bool:
        """Return whether a dispatch has counters: the driver counts the work of dispatches that it records in detail."""
        return bool(entry.counts) and (self.selected is None or entry.kernel in self.selected)


@dataclass(frozen=True)
class WrittenDatabases:
    """Databases of an application, and remarks on their validity."""

    databases: tuple[Path, ...]
    dispatches: int
    notes: tuple[str, ...]
    unselected: int = 0
    """Number of dispatches without counters, since they were not selected."""
    selected_kernels: tuple[str, ...] = ()
    """Mangled names of the kernels with selected dispatches."""
    estimated: Mapping[int, EstimatedPlace] = field(default_factory=dict)
    """Estimated dispatches by number of the estimate."""


@dataclass(frozen=True)
class EstimatedPlace:
    """Dispatch that was estimated: the number of its process, from 0, and its id in the database of that process."""

    process: int
    dispatch: int


def write_databases(records: ApplicationRecords, directory: Path, counters: Sequence[str]) -> WrittenDatabases:
    """Write the databases of all processes that dispatched a kernel or copied memory.

    Args:
        records: The session.
        directory: Directory of the databases, `PID.NUMBER_results.db`.
        counters: Names of the counters of each dispatch.

    Raises:
        RecordError: A file of records is damaged.
        DatabaseWriteError: A database cannot be written.
    """
    databases: list[Path] = []
    dispatches, uncounted, rough, unselected = 0, 0, 0, 0
    kernels: set[int] = set()
    estimated: dict[int, EstimatedPlace] = {}
    for path in sorted(records.session.glob(_RECORDS), key=_numbers):
        written = _ProcessDatabase(records, tuple(counters)).write(path, directory)
        for number, dispatch in written.estimated.items():
            estimated.setdefault(number, EstimatedPlace(len(databases), dispatch))
        if written.path is not None:
            databases.append(written.path)
        dispatches += written.dispatches
        uncounted += written.uncounted
        rough += written.rough
        unselected += written.unselected
        kernels |= written.kernels
    limit = f"{uncounted:,} dispatches have no counters: those of {_MOST_COUNTED:,} of each kernel are kept"
    times = (
        f"the times of {rough:,} dispatches follow from their instructions and bytes only: the timing model did not estimate them"
    )
    others = f"{unselected:,} of {dispatches:,} dispatches have no counters: they were not selected, or failed"
    notes = [*([others] if unselected else []), *([limit] if uncounted else []), *([times] if rough else [])]
    names = sorted({records.kernels[number].timed.metadata.name for number in kernels})
    return WrittenDatabases(tuple(databases), dispatches, tuple(notes), unselected, tuple(names), estimated)


@dataclass
class _Written:
    path: Path | None = None
    dispatches: int = 0
    uncounted: int = 0
    rough: int = 0
    unselected: int = 0
    kernels: set[int] = field(default_factory=set)
    """With selected dispatches."""
    estimated: dict[int, int] = field(default_factory=dict)
    """Id of the first dispatch by number of the estimate."""


@dataclass
class _ProcessDatabase:
    """Writer of one process."""

    records: ApplicationRecords
    counters: tuple[str, ...]
    process: RecordedProcess | None = None
    code_objects: dict[tuple[str, int], int] = field(default_factory=dict)
    kernels: set[int] = field(default_factory=set)
    counted: Counter[int] = field(default_factory=Counter)
    exact: dict[int, array[float]] = field(default_factory=dict)
    """Values of `counters` by number of the counts; NaN if a counter is not exact."""

    def write(self, path: Path, directory: Path) -> _Written:
        entries = read_records(path)
        first = next(entries, None)
        written = _Written()
        later = next((entry for entry in entries if not isinstance(entry, RecordedCounts) or self._remember(entry)), None)
        if not isinstance(first, RecordedProcess) or later is None:
            return written
        written.path = directory / f"{path.name.removeprefix(_RECORDS[:-1])}_results.db"
        is_main = not list(self.records.session.glob(f"records.{first.parent}.*"))
        process = ProcessRecord(self.records.command if is_main else first.executable, first.pid, first.parent)
        with open_database(written.path, agents=[_agent(target) for target in self.records.targets], process=process) as stream:
            self._add(stream, later, written)
            for entry in entries:
                self._add(stream, entry, written)
        return written

    def _remember(self, counts: RecordedCounts) -> bool:
        """Compute the exact counters of an entry; return False, because it is not a row."""
        kernel = self.records.kernels.get(counts.kernel)
        if kernel is not None and self.counted[counts.kernel] < _MOST_COUNTED:
            values = dispatch_counters(kernel.timed.program, counts.block_executions, counts.block_active_lanes, counts.memory)
            self.exact[counts.number] = array("d", [values.get(name, float("nan")) for name in self.counters])
        return False

    def _add(self, stream: DatabaseStream, entry: object, written: _Written) -> None:
        if isinstance(entry, RecordedCounts):
            self._remember(entry)
        elif isinstance(entry, RecordedDispatch) and entry.kernel in self.records.kernels:
            self._add_kernel(stream, entry.kernel, entry.gpu)
            values = self._counters(entry)
            has_times = self.records.targets[entry.gpu].timing is not None
            stream.add_dispatch(_dispatch(entry, values, has_times=has_times))
            written.dispatches += 1
            if entry.estimate:
                written.estimated.setdefault(entry.estimate, written.dispatches)
            written.rough += has_times and not entry.estimate and entry.end_ns > entry.start_ns
            is_selected = self.records.is_selected(entry)
            written.unselected += not is_selected
            written.uncounted += bool(self.counters and is_selected and not values)
            if is_selected:
                written.kernels.add(entry.kernel)
        elif isinstance(entry, RecordedCopy) and self.records.targets[entry.gpu].timing is not None:
            stream.add_copy(_copy(entry))

    def _counters(self, entry: RecordedDispatch) -> dict[str, float]:
        if not self.records.is_selected(entry):
            return {}
        self.counted[entry.kernel] += 1
        if self.counted[entry.kernel] > _MOST_COUNTED:
            return {}
        estimate = self.records.estimates.get(entry.estimate)
        values = {} if estimate is None else _scaled(estimate, entry.end_ns - entry.start_ns)
        exact = zip(self.counters, self.exact.get(entry.counts, ()), strict=False)
        return {**values, **{name: value for name, value in exact if value == value}}

    def _add_kernel(self, stream: DatabaseStream, number: int, gpu: int) -> None:
        if number in self.kernels:
            return
        self.kernels.add(number)
        kernel = self.records.kernels[number]
        key = kernel.code_sha256, gpu
        if key not in self.code_objects:
            self.code_objects[key] = len(self.code_objects) + 1
            code = CodeObjectRecord(
                self.code_objects[key], f"memory://{kernel.code_sha256[:16]}", len(kernel.code), kernel.code_sha256
            )
            stream.add_code_object(code, gpu)
        metadata = kernel.timed.metadata
        stream.add_kernel(symbol_record(kernel.architecture, metadata, number=number, code_object=self.code_objects[key]))


def _numbers(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.name.split(".")[1:])


def _agent(target: Target) -> AgentRecord:
    return AgentRecord.from_target(
        target,
        device=DEVICE_NAME,
        emulated=True,
        versions={"rocm-perf-lab": __version__},
        sample_seed=None if target.timing is None else DEFAULT_SEED,
        has_times=target.timing is not None,
    )


def _scaled(estimate: EstimatedDispatch, duration_ns: int) -> dict[str, float]:
    """Return the estimated counters of a dispatch that took `duration_ns`."""
    whole, part = estimate.duration_ns - estimate.fixed_ns, duration_ns - estimate.fixed_ns
    factor = part / whole if whole > 0 and part > 0 else 1.0
    return {name: value * factor for name, value in estimate.counters.items()}


def _dispatch(entry: RecordedDispatch, counters: Mapping[str, float], *, has_times: bool) -> DispatchRecord:
    return DispatchRecord(
        kernel_id=entry.kernel,
        start_ns=entry.start_ns if has_times else 0,
        end_ns=entry.end_ns if has_times else 0,
        grid=entry.geometry.work_items,
        workgroup=entry.geometry.block,
        lds_bytes=entry.lds_bytes,
        scratch_bytes=entry.scratch_bytes,
        queue=entry.queue,
        stream=entry.queue,
        counters=counters,
        gpu=entry.gpu,
    )


def _copy(entry: RecordedCopy) -> MemoryCopyRecord:
    sides = ["DEVICE" if on_gpu else "HOST" for on_gpu in (entry.from_gpu, entry.to_gpu)]
    return MemoryCopyRecord(
        direction=f"MEMORY_COPY_{sides[0]}_TO_{sides[1]}",
        size_bytes=entry.size_bytes,
        start_ns=entry.start_ns,
        end_ns=entry.end_ns,
        source_gpu=entry.gpu if entry.from_gpu else None,
        destination_gpu=entry.gpu if entry.to_gpu else None,
        queue=entry.queue,
    )
