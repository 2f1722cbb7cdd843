"""Classification of CSV files in a directory: groups of one run, and their contents.

rocprofv3 names its tables (`<prefix>_kernel_trace.csv`). A workload directory of rocprof-compute contains a table of counters
per pass (`results_*.csv`; older releases `pmc_perf_<n>.csv` and `SQ_*.csv`), the same joined by dispatch (`pmc_perf.csv`), and
`sysinfo.csv`. A file with any other name is classified by its header.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.csv_columns import CsvError
from rocm_perf_lab.rocprof.csv_tables import content_of, header_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TRACE = re.compile(
    r"^(?P<prefix>.*?)(?:^|_)(?P<kind>kernel_trace|counter_collection|memory_copy_trace|agent_info|[a-z]+_api_trace)\.csv(\.gz)?$"
)
_OF_ROCPROFV2 = re.compile(r"^(results|hip_api_trace|hsa_api_trace|async_copy_trace|hcc_ops_trace)_(?P<suffix>.+)\.csv$")
_PASS = re.compile(r"^(results_.+|pmc_perf_\d+|SQ_[A-Z_]+)\.csv(\.gz)?$")
_OF_WORKLOAD = re.compile(r"^(pmc_perf(_\d+)?|results_(pmc|SQ|sq).*|SQ_[A-Z_]+|timestamps)\.csv(\.gz)?$")
_JOINED = re.compile(r"^pmc_perf\.csv(\.gz)?$")
_SYSINFO = "sysinfo.csv"
_AGENT_INFO = "agent_info.csv"
_PEAKS = ("HBMBw", "L2Bw", "LDSBw")


class CsvContent(StrEnum):
    """Content of a CSV file of a ROCm profiler."""

    KERNEL_TRACE = "dispatches, sizes by axis"
    COUNTER_ROWS = "a row per dispatch and counter"
    COUNTER_COLUMNS = "a row per dispatch, a column per counter"
    OPERATIONS = "times of kernels without launch sizes"
    COPIES = "memory copies"
    API_CALLS = "API calls"
    AGENT_INFO = "agents"
    SYSINFO = "machine"
    ROOFLINE = "peaks"
    PC_SAMPLES = "PC samples"
    SUMMARY = "sums"

    @property
    def has_dispatches(self) -> bool:
        """Return True if the rows are dispatches, or counters of dispatches."""
        return self in DISPATCHES


DISPATCHES = (CsvContent.KERNEL_TRACE, CsvContent.COUNTER_ROWS, CsvContent.COUNTER_COLUMNS)
"""Tables that list dispatches, preferred first."""
_DESCRIPTIONS = frozenset({CsvContent.AGENT_INFO, CsvContent.SYSINFO})
_MARKS: tuple[tuple[CsvContent, frozenset[str]], ...] = (
    (CsvContent.AGENT_INFO, frozenset({"Node_Id", "Agent_Type"})),
    (CsvContent.SYSINFO, frozenset({"gpu_arch"})),
    (CsvContent.SYSINFO, frozenset({"gpu_soc", "numCU"})),
    (CsvContent.PC_SAMPLES, frozenset({"Sample_Timestamp", "Instruction"})),
    (CsvContent.SUMMARY, frozenset({"TotalDurationNs"})),
    (CsvContent.SUMMARY, frozenset({"Hitcount", "Latency", "Stall"})),
    (CsvContent.SUMMARY, frozenset({"Name", "Calls"})),
    (CsvContent.KERNEL_TRACE, frozenset({"Kernel_Name", "Workgroup_Size_X", "Start_Timestamp"})),
    (CsvContent.COUNTER_ROWS, frozenset({"Dispatch_Id", "Counter_Name", "Counter_Value"})),
    (CsvContent.COUNTER_COLUMNS, frozenset({"Dispatch_Id", "Kernel_Name", "Grid_Size"})),
    (CsvContent.OPERATIONS, frozenset({"Operation", "Kernel_Name", "Start_Timestamp"})),
    (CsvContent.COPIES, frozenset({"Direction", "Start_Timestamp"})),
    (CsvContent.COPIES, frozenset({"Domain", "Operation", "Start_Timestamp"})),
    (CsvContent.API_CALLS, frozenset({"Function", "Start_Timestamp"})),
)
"""Columns of each content, the more specific content first."""
_BY_NAME = {
    "kernel_trace": CsvContent.KERNEL_TRACE,
    "counter_collection": CsvContent.COUNTER_ROWS,
    "memory_copy_trace": CsvContent.COPIES,
    "agent_info": CsvContent.AGENT_INFO,
}


def csv_content(path: Path) -> CsvContent | None:
    """Return the content of a CSV file by its header; None for a table of another program."""
    names = set(header_of(path))
    if any(name in names for name in _PEAKS):
        return CsvContent.ROOFLINE
    content = next((content for content, marks in _MARKS if marks <= names), None)
    if content is None and names and (match := _TRACE.match(path.name)):
        # A table of rocprofv3 that lacks columns: the reader names them.
        return _BY_NAME.get(match["kind"], CsvContent.API_CALLS)
    return content


def is_of_workload(path: Path) -> bool:
    """Return True if rocprof-compute (omniperf) gives this name to a table of one of its passes."""
    return _OF_WORKLOAD.match(path.name) is not None


def is_joined(path: Path) -> bool:
    """Return True if a file joins the tables of the passes of a workload (pmc_perf.csv)."""
    return _JOINED.match(path.name) is not None


def prefix_of(path: Path) -> str:
    """Return the common part of the names of the files of one process: `42` of `42_kernel_trace.csv`."""
    match = _TRACE.match(path.name)
    return match["prefix"] if match else path.name.partition(".")[0]


def find_csv(directory: Path) -> tuple[Path, ...]:
    """Return the tables of dispatches, counters, copies and agents below a directory; joined tables only without their passes."""
    files = sorted(path for path in directory.rglob("*.csv*") if path.name.endswith((".csv", ".csv.gz")))
    found = [path for path in files if _TRACE.match(path.name) or (_PASS.match(path.name) and _has_dispatches(path))]
    in_passes = {path.parent for path in found if path.name.startswith(("results_", "pmc_perf_"))}
    found += [path for path in files if _JOINED.match(path.name) and path.parent not in in_passes]
    return tuple(sorted(path for path in found if not _is_doubled(path, found)))


def files_of_processes(paths: Iterable[Path]) -> dict[Path, dict[CsvContent, list[Path]]]:
    """Return the files of each content by process, which is named by the common part of the names of its files.

    Descriptions of the GPU (agent_info.csv, sysinfo.csv) are added from the directory of each file.

    Raises:
        CsvError: A file is not a table of a ROCm profiler.
    """
    processes: dict[Path, dict[CsvContent, list[Path]]] = {}
    for path in paths:
        for file in find_csv(path) if path.is_dir() else (path,):
            prefix, content = _place(file)
            files = processes.setdefault(prefix, {}).setdefault(content, [])
            if file not in files:
                files.append(file)
    for prefix, contents in processes.items():
        _add_descriptions(prefix, contents)
    return processes


def _place(file: Path) -> tuple[Path, CsvContent]:
    content = csv_content(file)
    if content is None:
        content_of(file)
        found = ", ".join(header_of(file)[:6]) or "nothing"
        raise CsvError(
            f"neither name nor header is that of a table of a ROCm profiler; the file starts with: {found}",
            where=str(file),
            hint="pass *_kernel_trace.csv, or its directory",
        )
    if match := _TRACE.match(file.name):
        return file.parent / match["prefix"], content
    if match := _OF_ROCPROFV2.match(file.name):
        return file.parent / match["suffix"], content
    return file.with_name(file.name.partition(".")[0]), content


def _add_descriptions(prefix: Path, contents: dict[CsvContent, list[Path]]) -> None:
    if CsvContent.AGENT_INFO not in contents:
        directory = prefix.parent
        own = [directory / f"{prefix.name}_{_AGENT_INFO}", directory / _AGENT_INFO, *sorted(directory.glob(f"*_{_AGENT_INFO}"))]
        contents |= {CsvContent.AGENT_INFO: found} if (found := [path for path in own if path.is_file()][:1]) else {}
    sysinfo = prefix.with_name(_SYSINFO)
    if CsvContent.SYSINFO not in contents and sysinfo.is_file():
        contents[CsvContent.SYSINFO] = [sysinfo]
    if not contents.keys() & _DESCRIPTIONS:
        contents |= _renamed_descriptions(prefix.parent)


def _renamed_descriptions(directory: Path) -> dict[CsvContent, list[Path]]:
    """Return the description of the machine with another name than the profiler's, if a directory has exactly one."""
    tables = [path for path in sorted(directory.glob("*.csv")) if not _TRACE.match(path.name)]
    described = [(content, path) for path in tables if (content := csv_content(path)) in _DESCRIPTIONS and content is not None]
    return {described[0][0]: [described[0][1]]} if len(described) == 1 else {}


def _has_dispatches(file: Path) -> bool:
    content = csv_content(file)
    return content is not None and content.has_dispatches


def _is_doubled(path: Path, found: list[Path]) -> bool:
    """Return True if a compressed file has an uncompressed copy next to it."""
    return path.suffix == ".gz" and path.with_suffix("") in found
