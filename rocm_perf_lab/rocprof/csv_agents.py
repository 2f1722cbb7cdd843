"""GPUs that CSV files call "Agent 4", "4" or "GPU 0", described by `agent_info.csv` or by rocprof-compute's `sysinfo.csv`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.csv_tables import read_cells
from rocm_perf_lab.rocprof.trace import TracedAgent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.csv_tables import ProcessRows

    Texts = Mapping[str, Sequence[str]]

_OF_SYSINFO = {
    "cu_per_gpu": "cu_count",
    "num_xcd": "num_xcc",
    "se_per_gpu": "num_shader_banks",
    "simd_per_cu": "simd_per_cu",
    "wave_size": "wave_front_size",
    "max_waves_per_cu": "max_waves_per_cu",
    "max_sclk": "max_engine_clk_fcompute",
}
"""Agent property by column of sysinfo.csv."""
_OLD_SYSINFO = {
    "gpu_soc": "gpu_arch",
    "Name": "gpu_model",
    "numCU": "cu_per_gpu",
    "numSE": "se_per_gpu",
    "numSIMD": "simd_per_cu",
    "waveSize": "wave_size",
    "maxWavesPerCU": "max_waves_per_cu",
    "sclk": "max_sclk",
}
"""Columns of omniperf 1 and their later names."""


def unknown_agent(label: str) -> TracedAgent:
    """Return a GPU of which only the number is known."""
    return TracedAgent(0, _number(label), "GPU", "", "", {})


def agent_of_agent_info(label: str, file: Path, process: ProcessRows | None = None) -> TracedAgent:
    """Return the agent that rocprofv3's `agent_info.csv` describes.

    Raises:
        CsvError: The file cannot be read.
    """
    cells = read_cells(file, ("Node_Id", "Agent_Type"), process)
    described = {name: column.texts() for name, column in cells.items()}
    row = _row_of_agent(label, described)
    if row is None:
        return unknown_agent(label)
    return TracedAgent(
        process=0,
        id=_number(described["Node_Id"][row]),
        kind=described["Agent_Type"][row],
        name=described.get("Name", [""] * (row + 1))[row],
        product_name=described.get("Product_Name", [""] * (row + 1))[row],
        properties={name.lower(): _value(column[row]) for name, column in described.items()},
    )


def agent_of_sysinfo(label: str, file: Path, _process: ProcessRows | None = None) -> TracedAgent:
    """Return the GPU that rocprof-compute describes: `MI300X_A1` is an AMD Instinct MI300X.

    Raises:
        CsvError: The file cannot be read.
    """
    cells = read_cells(file, ())
    described = {_OLD_SYSINFO.get(name, name): column.texts()[0] for name, column in cells.items() if len(column)}
    model = described.get("gpu_model", "").partition("_")[0]
    model = model.upper() if model.lower().startswith("mi") else model
    properties = {ours: _value(described[theirs]) for theirs, ours in _OF_SYSINFO.items() if theirs in described}
    product = f"AMD Instinct {model}" if model.startswith("MI") else model
    return TracedAgent(0, _number(label), "GPU", described.get("gpu_arch", ""), product, properties)


def _row_of_agent(label: str, described: Texts) -> int | None:
    number = re.search(r"\d+", label)
    if number is None:
        return None
    kind = label.split()[0].upper()
    if kind in ("GPU", "CPU"):
        of_kind = [row for row, found in enumerate(described["Agent_Type"]) if found.upper() == kind]
        return of_kind[int(number[0])] if int(number[0]) < len(of_kind) else None
    # "Agent 4" counts the agents visible to the process, a bare number is the node.
    ids = described.get("Logical_Node_Id") if kind == "AGENT" else None
    for column in (ids, described["Node_Id"]):
        if column and number[0] in column:
            return column.index(number[0])
    return None


def _number(text: str) -> int:
    found = re.search(r"\d+", text)
    return int(found[0]) if found else 0


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
