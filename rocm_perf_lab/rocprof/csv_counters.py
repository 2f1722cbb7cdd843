"""Counters in CSV files, one row or one column per counter, as values per dispatch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.counter_values import per_dispatch
from rocm_perf_lab.rocprof.csv_tables import NAMES, integers, read_cells, reals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.csv_tables import Cells
    from rocm_perf_lab.rocprof.trace import CounterValues

_NO_COUNTER = {
    "wave_size", "queue-index", "sig", "obj", "fbar", "dispatchns", "completens", "durationns", "iteration", "node",
}  # fmt: skip
_UNKNOWN = -1
_COUNTER = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\[\d+\])*")


def counters_by_dispatch(
    rows: Iterable[Path], columns: Iterable[Path], position_of: Mapping[int, int], guid: str | None = None
) -> tuple[list[dict[str, CounterValues]], tuple[str, ...]]:
    """Return the counters of all files by pass (at least one pass), and notes. Rows of one counter and dispatch are instances.

    Rows of one dispatch with another start belong to another execution of it: a pass of kernel replay.

    Args:
        rows: Files with a row per dispatch and counter.
        columns: Files with a row per dispatch and a column per counter.
        position_of: Position of each dispatch in the trace, by its id.
        guid: Process of the counters, if the files state it.

    Raises:
        CsvError: A file cannot be read.
    """
    tables = [(file, read_cells(file, ("Dispatch_Id", "Counter_Name", "Counter_Value"), guid)) for file in rows]
    tables += [(file, _as_rows(read_cells(file, ("Dispatch_Id",), guid))) for file in columns]
    names: dict[str, int] = {}
    name: list[int] = []
    dispatch: list[int] = []
    value: list[float] = []
    replayed: list[int] = []
    for file, cells in tables:
        ids = integers(file, "Dispatch_Id", cells["Dispatch_Id"]).tolist()
        name += [names.setdefault(counter, len(names)) for counter in cells["Counter_Name"]]
        dispatch += [position_of.get(one, _UNKNOWN) for one in ids]
        value += reals(file, "Counter_Value", cells["Counter_Value"]).tolist()
        replayed += _executions(ids, cells.get("Start_Timestamp"))
    arrays = np.array(name, np.int64), np.array(dispatch, np.int64), np.array(value, np.float64)
    passes = np.array(replayed, np.int64)
    known = arrays[1] != _UNKNOWN
    notes: list[str] = []
    if unknown := int(np.count_nonzero(~known)):
        notes.append(f"{unknown} counter values belong to dispatches missing in the kernel trace; ignored")
    counters = []
    for number in np.unique(passes[known]).tolist():
        found, more = per_dispatch(tuple(names), *(array[known & (passes == number)] for array in arrays))
        counters.append(found)
        notes.extend(more)
    return counters or [{}], tuple(notes)


def _executions(dispatches: Sequence[int], starts: Sequence[str] | None) -> list[int]:
    """Return the number of the execution of its dispatch for each row, from 0."""
    if starts is None:
        return [0] * len(dispatches)
    seen: dict[int, dict[str, int]] = {}
    executions = []
    for dispatch, start in zip(dispatches, starts, strict=True):
        of_dispatch = seen.setdefault(dispatch, {})
        executions.append(of_dispatch.setdefault(start, len(of_dispatch)))
    return executions


def _as_rows(cells: Cells) -> Cells:
    """Convert a table with one column per counter (rocprof, rocprofv2, `pmc_perf.csv`) to one row per dispatch and counter.

    `TCC_HIT[3]` is an instance of `TCC_HIT`. An empty cell was not collected.
    """
    counters = [name for name, column in cells.items() if _is_counter(name) and _holds_numbers(column)]
    rows: Cells = {"Dispatch_Id": [], "Counter_Name": [], "Counter_Value": []}
    for name in counters:
        for dispatch, value in zip(cells["Dispatch_Id"], cells[name], strict=True):
            if value.strip():
                rows["Dispatch_Id"].append(dispatch)
                rows["Counter_Name"].append(name.partition("[")[0])
                rows["Counter_Value"].append(value)
    return rows


def _holds_numbers(column: Sequence[str]) -> bool:
    """Return True if the first value is a number; a text column is not a counter, whatever its name."""
    first = next((text for text in column if text.strip()), "")
    try:
        float(first)
    except ValueError:
        return False
    return True


def _is_counter(name: str) -> bool:
    return name not in NAMES and name.lower() not in _NO_COUNTER and _COUNTER.fullmatch(name) is not None
