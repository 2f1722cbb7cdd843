"""How long a profile takes: large databases, large thread traces, and what the lab adds to rocprofv3.

    python -m benchmarks.profiling [--dispatches 1000000 5000000] [--queues 8] [--output FILE]

Databases and traces are generated first, outside the timing. Each measurement runs in a process of its own, so that its
peak memory is its own; the fastest of several counts, and each figure stands beside its goal.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import att_directory
from rocm_perf_lab.core.files import write_text
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

TARGET = "mi300x"
KERNELS = 40
LIMIT_S = 4.0
LIMIT_MIB = 1024
ATT_WAVES, ATT_INSTRUCTIONS, ATT_LIMIT_S = 76, 18_000, 2.0
ATT_LIMIT_MIB = 600
"""However large the directory, up to ten times the usual."""
OVERHEAD_LIMIT_S = 0.5
LINEAR = 1.3
"""Times as much per dispatch as in the smaller database is still called linear."""
_PID = 4242
_COPY_EVERY = 100


def generate(path: Path, *, dispatches: int, queues: int, seed: int = 1) -> None:
    """A database as `rocprofv3 --kernel-trace --memory-copy-trace` leaves it: `dispatches` rows, a copy for each hundred."""
    guid = schema.make_guid(1_700_000_000_000, f"benchmark {dispatches} {queues} {seed}")
    write_database(path, _first_dispatches(queues, guid))
    random = np.random.default_rng(seed)
    queue = random.integers(0, queues, dispatches)
    duration = random.lognormal(8.5, 1.0, dispatches).astype(np.int64) + 500
    gap = random.integers(500, 6000, dispatches)
    start, end = np.empty(dispatches, np.int64), np.empty(dispatches, np.int64)
    for one in range(queues):
        own = np.flatnonzero(queue == one)
        end[own] = 1_010_000 + np.cumsum(duration[own] + gap[own])
        start[own] = end[own] - duration[own]
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
    """One dispatch on each queue, and all that the many refer to."""
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


_PEAK = """
def peak_mib():  # not ru_maxrss: that is the parent's where the parent was larger
    from pathlib import Path
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
"""
_MEASURED = (
    _PEAK
    + """
import json, sys, time
from pathlib import Path
from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target

target = load_target(sys.argv[3])
seconds, begin, processor = {}, time.perf_counter(), time.process_time()
def lap(name):
    global begin
    now = time.perf_counter()
    seconds[name], begin = now - begin, now
trace = read_database(Path(sys.argv[1])); lap("read")
profile = build_profile(trace, target=target); lap("profile")
diagnosis = diagnose(profile, trace, deterministic=False); lap("analysis")
paths = write_documents(Path(sys.argv[2]), describe(profile, diagnosis, trace)); lap("documents")
print(json.dumps({
    "dispatches": len(trace.dispatches), "seconds": seconds, "total_s": sum(seconds.values()),
    "processor_s": time.process_time() - processor,
    "peak_mib": peak_mib(),
    "documents_mib": sum(path.stat().st_size for path in paths) / 2**20,
}))
"""
)


def measure(database: Path, documents: Path) -> dict[str, Any]:
    """Seconds and peak memory of one whole analysis, in a process of its own."""
    command = [sys.executable, "-c", _MEASURED, str(database), str(documents), TARGET]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


_MEASURED_ATT = (
    _PEAK
    + """
import json, sys, time
from pathlib import Path
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.rocprof.att.directories import read_kernel_trace

begin, processor = time.perf_counter(), time.process_time()
found = analyse(read_kernel_trace(Path(sys.argv[1]), sys.argv[2]), symbol=sys.argv[2])
assert isinstance(found, ThreadTrace) and found.charges
print(json.dumps({
    "total_s": time.perf_counter() - begin, "processor_s": time.process_time() - processor,
    "peak_mib": peak_mib(),
}))
"""
)


def measure_att(directory: Path) -> dict[str, Any]:
    """Seconds to read and analyse a decoded thread trace, in a process of its own."""
    command = [sys.executable, "-c", _MEASURED_ATT, str(directory), att_directory.SYMBOL]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> int:
    """Generate, measure, print; 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dispatches", type=int, nargs="*", default=[1_000_000, 5_000_000])
    parser.add_argument("--traces", type=int, nargs="*", default=[1, 10], help="thread traces, in times of 36 MB")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each kind; the fastest counts")
    parser.add_argument("--output", type=Path, help="all figures as JSON")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = {
            "databases": [_database(Path(directory), count, chosen.queues, chosen.repeat) for count in chosen.dispatches],
            "thread_traces": [_thread_trace(Path(directory), times, chosen.repeat) for times in chosen.traces],
            "overhead": _overhead(Path(directory), chosen.repeat),
        }
    if chosen.output:
        write_text(chosen.output, json.dumps(figures, indent=2) + "\n")
    return 0 if _holds(figures) else 1


def _database(directory: Path, count: int, queues: int, repeat: int) -> dict[str, Any]:
    database = directory / f"{count}_results.db"
    generate(database, dispatches=count, queues=queues)
    best = min((measure(database, directory) for _ in range(repeat)), key=lambda run: run["total_s"])
    database.unlink()
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in best["seconds"].items())
    goal = f" (goal {LIMIT_S:g})" if count == 1_000_000 else ""
    print(
        f"{count:>9,} dispatches: {best['total_s']:.2f} s{goal}: {parts}; of a processor {best['processor_s']:.2f} s,"
        f" {best['processor_s'] / count * 1e6:.2f} us per dispatch; peak {best['peak_mib']:.0f} MiB"
        f"{f' (goal {LIMIT_MIB})' if goal else ''}, documents {best['documents_mib']:.1f} MiB",
        flush=True,
    )
    return best


def _thread_trace(directory: Path, times: int, repeat: int) -> dict[str, Any]:
    waves = times * ATT_WAVES
    traced = att_directory.generate(directory / f"{times}", waves=waves, instructions=ATT_INSTRUCTIONS)
    size = sum(path.stat().st_size for path in traced.iterdir())
    best = min((measure_att(traced) for _ in range(repeat)), key=lambda run: run["total_s"])
    shutil.rmtree(traced)
    print(
        f"thread trace of {size / 1e6:.0f} MB, {waves} waves: {best['total_s']:.2f} s (goal {times * ATT_LIMIT_S:g}),"
        f" of a processor {best['processor_s']:.2f} s, peak {best['peak_mib']:.0f} MiB (goal {ATT_LIMIT_MIB})",
        flush=True,
    )
    return best | {"bytes": size, "times": times}


def _overhead(directory: Path, repeat: int) -> dict[str, Any]:
    from benchmarks import overhead

    found = overhead.measure(directory, repeat=2 * repeat)
    print(
        f"overhead of a profile, {found.runs} runs of the profiler: {found.wall_s:.2f} s (goal {OVERHEAD_LIMIT_S:g}),"
        f" of a processor {found.processor_s:.2f} s with the profiler, which takes {found.profiler_s:.2f} s by itself",
        flush=True,
    )
    return vars(found)


def _holds(figures: dict[str, Any]) -> bool:
    costs = [run["processor_s"] / run["dispatches"] for run in figures["databases"]]
    million = [run for run in figures["databases"] if run["dispatches"] == 1_000_000]
    return (
        all(run["total_s"] < LIMIT_S and run["peak_mib"] < LIMIT_MIB for run in million)
        and (not costs or max(costs) < LINEAR * costs[0])
        and all(
            run["total_s"] < run["times"] * ATT_LIMIT_S and run["peak_mib"] < ATT_LIMIT_MIB for run in figures["thread_traces"]
        )
        and bool(figures["overhead"]["wall_s"] < OVERHEAD_LIMIT_S)
    )


if __name__ == "__main__":
    sys.exit(main())
