"""Classification of CSV files in a directory: which belong together, and what each contains.

rocprofv3 names its tables (`<prefix>_kernel_trace.csv`). A workload directory of rocprof-compute contains a table of counters
per pass (`results_*.csv`; older releases `pmc_perf_<n>.csv` and `SQ_*.csv`), the same joined by dispatch (`pmc_perf.csv`), and
`sysinfo.csv`. A file with any other name is classified by its header.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.csv_tables import CsvError, content_of, header_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TRACE = re.compile(
    r"^(?P<prefix>.*?)(?:^|_)(?P<kind>kernel_trace|counter_collection|memory_copy_trace|agent_info|[a-z]+_api_trace)\.csv(\.gz)?$"
)
_PASS = re.compile(r"^(results_.+|pmc_perf_\d+|SQ_[A-Z_]+)\.csv(\.gz)?$")
_JOINED = re.compile(r"^pmc_perf\.csv(\.gz)?$")
_SYSINFO = "sysinfo.csv"
_SUMMED = ({"Name", "Calls"}, {"TotalDurationNs"})
_PEAKS = ("HBMBw", "L2Bw", "LDSBw")


class CsvContent(StrEnum):
    """Content of a CSV file of a ROCm profiler."""

    DISPATCHES = "dispatches"
    COUNTERS = "counters"
    COPIES = "copies"
    API_CALLS = "API calls"
    AGENT_INFO = "agents"
    SYSINFO = "machine"
    ROOFLINE = "peaks"
    PC_SAMPLES = "PC samples"
    SUMMARY = "sums"


def csv_content(path: Path) -> CsvContent | None:
    """Return the content of a CSV file by its header; None for a table of another program."""
    names = set(header_of(path))
    if {"Node_Id", "Agent_Type"} <= names:
        return CsvContent.AGENT_INFO
    if "gpu_arch" in names:
        return CsvContent.SYSINFO
    if any(name in names for name in _PEAKS):
        return CsvContent.ROOFLINE
    if {"Sample_Timestamp", "Instruction"} <= names:
        return CsvContent.PC_SAMPLES
    if any(marks <= names for marks in _SUMMED):
        return CsvContent.SUMMARY
    kind = _kind_by_header(path)
    if kind is not None:
        return CsvContent.DISPATCHES if kind == "kernel_trace" else CsvContent.COUNTERS
    if {"Direction", "Start_Timestamp"} <= names:
        return CsvContent.COPIES
    return CsvContent.API_CALLS if {"Function", "Start_Timestamp"} <= names else None


def find_csv(directory: Path) -> tuple[Path, ...]:
    """Return the tables of dispatches, counters, copies and agents below a directory; joined tables only without their passes."""
    files = sorted(path for path in directory.rglob("*.csv*") if path.name.endswith((".csv", ".csv.gz")))
    found = [path for path in files if _TRACE.match(path.name) or (_PASS.match(path.name) and _kind_by_header(path))]
    in_passes = {path.parent for path in found if path.name.startswith(("results_", "pmc_perf_"))}
    found += [path for path in files if _JOINED.match(path.name) and path.parent not in in_passes]
    return tuple(sorted(path for path in found if not _is_doubled(path, found)))


def files_of_processes(paths: Iterable[Path]) -> dict[Path, dict[str, list[Path]]]:
    """Return the files of each kind by process, which is named by the common prefix of its files.

    Kinds are `kernel_trace`, `counter_collection` (a row per counter), `counter_columns` (a column per counter),
    `memory_copy_trace`, `api_trace`, `agent_info` and `sysinfo`.

    Raises:
        CsvError: A file contains none of these.
    """
    processes: dict[Path, dict[str, list[Path]]] = {}
    for path in paths:
        for file in find_csv(path) if path.is_dir() else (path,):
            prefix, kind = _place(file)
            processes.setdefault(prefix, {}).setdefault(kind, []).append(file)
            if kind == "counter_columns" or _PASS.match(file.name):
                sysinfo = file.with_name(_SYSINFO)
                if sysinfo.is_file():
                    processes[prefix]["sysinfo"] = [sysinfo]
    return processes


def _place(file: Path) -> tuple[Path, str]:
    if match := _TRACE.match(file.name):
        return file.parent / match["prefix"], "api_trace" if match["kind"].endswith("_api_trace") else match["kind"]
    kind = _kind_by_header(file)
    if kind is None:
        content_of(file)
        raise CsvError(
            "neither name nor header is that of a trace or of counters of rocprofv3",
            where=str(file),
            hint="pass *_kernel_trace.csv, or its directory",
        )
    return file.with_name(file.name.partition(".")[0]), kind


def _kind_by_header(file: Path) -> str | None:
    names = set(header_of(file))
    if {"Kernel_Name", "Workgroup_Size_X", "Start_Timestamp"} <= names:
        return "kernel_trace"
    if {"Dispatch_Id", "Counter_Name", "Counter_Value"} <= names:
        return "counter_collection"
    return "counter_columns" if {"Dispatch_Id", "Kernel_Name", "Grid_Size"} <= names else None


def _is_doubled(path: Path, found: list[Path]) -> bool:
    """Return True if a compressed file has an uncompressed copy next to it."""
    return path.suffix == ".gz" and path.with_suffix("") in found
