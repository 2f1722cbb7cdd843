"""Time and memory of the analysis of large profiles: `python -m benchmarks.profiling [--dispatches 1000000 5000000]`.

Databases and thread traces are generated before the timing starts. Measured are reading and analysis, and the whole command
`rocm-perf analyze` with all documents, the timeline and the report, from the start of the interpreter to its exit. Each
measurement runs in a separate process, so that its peak memory is that of one analysis. The fastest of several counts.
The package is compiled to bytecode first, as its installation does.
"""

from __future__ import annotations

import argparse
import compileall
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import rocm_perf_lab
from benchmarks import att_directory
from benchmarks.databases import TARGET, generate_database
from benchmarks.figures import Figure, Publisher

LIMIT_S = 4.0
LIMIT_MIB = 1024
COMMAND_LIMIT_S, COMMAND_LIMIT_MIB = 5.0, 600
"""Processor time and peak memory of the whole command for a million dispatches."""
ATT_WAVES, ATT_INSTRUCTIONS, ATT_LIMIT_S = 76, 18_000, 2.0
ATT_LIMIT_MIB = 600
"""Peak memory at up to ten times the usual trace size."""
LINEAR = 1.3
"""Largest ratio of the times per dispatch of two databases that still counts as linear."""
_MILLION = 1_000_000


_PEAK = """
def peak_mib():  # not ru_maxrss, which a child inherits from a larger parent
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
    """Measure seconds and peak memory of one complete analysis in a separate process."""
    command = [sys.executable, "-c", _MEASURED, str(database), str(documents), TARGET]
    measured: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return measured


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
    """Measure reading and analysing a decoded thread trace in a separate process."""
    command = [sys.executable, "-c", _MEASURED_ATT, str(directory), att_directory.SYMBOL]
    measured: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return measured


_MEASURED_COMMAND = (
    _PEAK
    + """
import contextlib, io, json, sys, time
from pathlib import Path
from rocm_perf_lab.cli import main

begin = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["analyze", sys.argv[1], "--output", sys.argv[2]])
print(json.dumps({
    "total_s": time.perf_counter() - begin,
    "peak_mib": peak_mib(),
    "documents_mib": sum(path.stat().st_size for path in Path(sys.argv[2]).iterdir()) / 2**20,
}))
"""
)


def measure_command(recording: Path, documents: Path) -> dict[str, Any]:
    """Measure `rocm-perf analyze` with all its documents in a separate process; start and exit count."""
    command = [sys.executable, "-c", _MEASURED_COMMAND, str(recording), str(documents)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured["processor_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if not (documents / "report.html").exists():
        raise RuntimeError(f"rocm-perf analyze {recording} wrote no report")
    return measured


def main(arguments: list[str] | None = None) -> int:
    """Generate, measure and print; return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dispatches", type=int, nargs="*", default=[_MILLION, 5 * _MILLION])
    parser.add_argument("--traces", type=int, nargs="*", default=[1, 10], help="thread traces, in multiples of 36 MB")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each kind; the fastest counts")
    publisher = Publisher("profiling", parser, arguments)
    chosen = publisher.options
    compileall.compile_dir(Path(rocm_perf_lab.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as directory:
        data = {
            "databases": [_measure_database(Path(directory), count, chosen.queues, chosen.repeat) for count in chosen.dispatches],
            "thread_traces": [_measure_trace(Path(directory), times, chosen.repeat) for times in chosen.traces],
        }
    pairs = [*map(_database_figures, data["databases"]), *map(_trace_figures, data["thread_traces"])]
    figures = [figure for pair in pairs for figure in pair]
    publisher.publish_figures("analysis of large profiles", figures, data)
    return 0 if _within_limits(data) else 1


def _measure_database(directory: Path, count: int, queues: int, repeat: int) -> dict[str, Any]:
    database = directory / f"{count}_results.db"
    generate_database(database, dispatches=count, queues=queues)
    best = min((measure(database, directory) for _ in range(repeat)), key=lambda run: run["processor_s"])
    whole = _measure_command(database, directory / f"{count}", repeat)
    database.unlink()
    return best | {"command": whole}


def _measure_command(recording: Path, documents: Path, repeat: int) -> dict[str, Any]:
    best = min((measure_command(recording, documents) for _ in range(repeat)), key=lambda run: run["processor_s"])
    shutil.rmtree(documents)
    return best


def _measure_trace(directory: Path, times: int, repeat: int) -> dict[str, Any]:
    traced = att_directory.generate(directory / f"{times}", waves=times * ATT_WAVES, instructions=ATT_INSTRUCTIONS)
    size = sum(path.stat().st_size for path in traced.iterdir())
    best = min((measure_att(traced) for _ in range(repeat)), key=lambda run: run["processor_s"])
    whole = _measure_command(traced, directory / f"documents {times}", repeat)
    shutil.rmtree(traced)
    return best | {"bytes": size, "times": times, "command": whole}


def _database_figures(run: dict[str, Any]) -> tuple[Figure, Figure]:
    count, is_million = run["dispatches"], run["dispatches"] == _MILLION
    per_dispatch_us = run["processor_s"] / count * 1e6
    value = f"{run['total_s']:.2f} s, {per_dispatch_us:.2f} us of processor time per dispatch, {run['peak_mib']:.0f} MiB"
    goal = f"< {LIMIT_S:g} s of processor time, < {LIMIT_MIB} MiB" if is_million else ""
    whole = f"< {COMMAND_LIMIT_S:g} s of processor time, < {COMMAND_LIMIT_MIB} MiB" if is_million else ""
    return (
        Figure(f"database_{count}", f"database of {count:,} dispatches: read, analyse, write documents", value, goal),
        Figure(f"analyze_{count}", f"database of {count:,} dispatches: `rocm-perf analyze`", _command_value(run), whole),
    )


def _trace_figures(run: dict[str, Any]) -> tuple[Figure, Figure]:
    value = f"{run['total_s']:.2f} s, {run['peak_mib']:.0f} MiB"
    goal = f"< {run['times'] * ATT_LIMIT_S:g} s of processor time, < {ATT_LIMIT_MIB} MiB"
    name = f"thread trace of {run['bytes'] / 1e6:.0f} MB"
    return (
        Figure(f"thread_trace_{run['times']}", f"{name}: read and analyse", value, goal),
        Figure(f"analyze_trace_{run['times']}", f"{name}: `rocm-perf analyze`", _command_value(run), goal),
    )


def _command_value(run: dict[str, Any]) -> str:
    whole = run["command"]
    return f"{whole['processor_s']:.2f} s of processor time, {whole['peak_mib']:.0f} MiB"


def _within_limits(data: dict[str, Any]) -> bool:
    costs = [run["processor_s"] / run["dispatches"] for run in data["databases"]]
    million = [run for run in data["databases"] if run["dispatches"] == _MILLION]
    return (
        all(run["processor_s"] < LIMIT_S and run["peak_mib"] < LIMIT_MIB for run in million)
        and all(_is_below(run["command"], COMMAND_LIMIT_S, COMMAND_LIMIT_MIB) for run in million)
        and (not costs or max(costs) < LINEAR * costs[0])
        and all(
            _is_below(one, run["times"] * ATT_LIMIT_S, ATT_LIMIT_MIB)
            for run in data["thread_traces"]
            for one in (run, run["command"])
        )
    )


def _is_below(run: dict[str, Any], processor_s: float, peak_mib: float) -> bool:
    return bool(run["processor_s"] < processor_s and run["peak_mib"] < peak_mib)


if __name__ == "__main__":
    sys.exit(main())
