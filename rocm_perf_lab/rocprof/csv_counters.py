"""Counters in CSV files, one row or one column per counter, as values per dispatch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.counter_values import CHANNEL_TRAFFIC, channels_by_name, per_dispatch
from rocm_perf_lab.rocprof.csv_tables import NAMES, canonical, read_cells

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.csv_columns import CsvColumn
    from rocm_perf_lab.rocprof.csv_tables import Cells, ProcessRows
    from rocm_perf_lab.rocprof.trace import CounterValues

    Integers = NDArray[np.int64]

_NO_COUNTER = frozenset({
    "wave_size", "queue-index", "sig", "obj", "fbar", "dispatchns", "completens", "durationns", "iteration", "node", "xcc_index",
    "marker",
})  # fmt: skip
_UNKNOWN = -1
_COUNTER = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\[\d+\])*")
_REPEATED = re.compile(r"_\d+$")
"""Suffix of a column that a join repeats: `Kernel_ID_3`, `Wave_Size_12`."""
_IDENTIFIERS = frozenset(name.lower() for name in NAMES) | _NO_COUNTER


def counters_by_dispatch(
    rows: Iterable[Path],
    columns: Iterable[Path],
    positions: tuple[Integers, Integers],
    process: ProcessRows | None = None,
) -> tuple[list[dict[str, CounterValues]], tuple[str, ...]]:
    """Return the counters of all files by pass (at least one pass), and notes. Rows of one counter and dispatch are instances.

    Rows of one dispatch with another start belong to another execution of it: a pass of kernel replay.

    Args:
        rows: Files with a row per dispatch and counter.
        columns: Files with a row per dispatch and a column per counter.
        positions: Ids of the dispatches, sorted, and the position of each in the trace.
        process: Process of the counters, if the files state it.

    Raises:
        CsvError: A file cannot be read.
    """
    names: dict[str, int] = {}
    parts = [
        _of_rows(read_cells(file, ("Dispatch_Id", "Counter_Name", "Counter_Value"), process), names, positions) for file in rows
    ]
    parts += [
        _of_columns(_without_repeated_rows(read_cells(file, ("Dispatch_Id",), process)), names, positions) for file in columns
    ]
    if not parts:
        return [{}], ()
    name, dispatch, value, execution = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    known = dispatch != _UNKNOWN
    notes: list[str] = []
    if unknown := int(np.count_nonzero(~known)):
        notes.append(f"{unknown} counter values belong to dispatches missing in the kernel trace; ignored")
    counters = []
    for number in np.unique(execution[known]).tolist():
        of_pass = known & (execution == number)
        found, more = per_dispatch(tuple(names), name[of_pass], dispatch[of_pass], value[of_pass])
        counters.append({**found, **channels_by_name(found)})
        notes.extend(more)
    return counters or [{}], tuple(notes)


Part = tuple[Any, Any, Any, Any]
"""Number of the counter, position of the dispatch, value and number of the execution, one entry per value."""


def _of_rows(cells: Cells, names: dict[str, int], positions: tuple[Integers, Integers]) -> Part:
    ids = cells["Dispatch_Id"].integers()
    codes, texts = cells["Counter_Name"].codes()
    numbers = np.array([names.setdefault(text, len(names)) for text in texts] or [0], np.int64)
    return numbers[codes], _looked_up(ids, positions), cells["Counter_Value"].reals(), _executions(ids, cells)


def _without_repeated_rows(cells: Cells) -> Cells:
    """Return the rows without equal copies, which a table that was written twice has."""
    key, texts = cells["Dispatch_Id"].codes()
    if len(texts) == len(key):
        return cells
    for column in cells.values():
        codes, texts = column.codes()
        _, key = np.unique(key.ravel() * max(len(texts), 1) + codes, return_inverse=True)
    _, first = np.unique(key.ravel(), return_index=True)
    if len(first) == len(key.ravel()):
        return cells
    return {name: column.take(np.sort(first)) for name, column in cells.items()}


def _of_columns(cells: Cells, names: dict[str, int], positions: tuple[Integers, Integers]) -> Part:
    """Convert a table with one column per counter (rocprof, rocprofv2, `pmc_perf.csv`).

    `TCC_HIT[3]` is an instance of `TCC_HIT`; for L2 channels, the busiest and the mean one are added as
    `TCC_REQ_max` and `TCC_REQ_avr`. An empty cell was not collected.
    """
    dispatch = _looked_up(cells["Dispatch_Id"].integers(), positions)
    name: list[Integers] = []
    place: list[Integers] = []
    value: list[NDArray[np.float64]] = []
    channels: dict[str, dict[str, NDArray[np.float64]]] = {}
    for counter, column in cells.items():
        if not _is_counter(counter) or not _holds_numbers(column):
            continue
        found = column.reals()
        total, instance, _ = counter.partition("[")
        if instance and total in CHANNEL_TRAFFIC:
            channels.setdefault(total, {})[instance.rstrip("]")] = found
        _append(found, dispatch, names.setdefault(total, len(names)), (name, place, value))
    for counter, instances in channels.items():
        if instances.keys() != {str(number) for number in range(len(instances))}:
            continue  # rocprof-compute adds channels with equal numbers
        busiest, mean = np.max(list(instances.values()), axis=0), np.mean(list(instances.values()), axis=0)
        for suffix, found in (("max", busiest), ("avr", mean)):
            _append(found, dispatch, names.setdefault(f"{counter}_{suffix}", len(names)), (name, place, value))
    if not name:
        none = np.empty(0, np.int64)
        return none, none, np.empty(0), none
    executions = np.zeros(sum(map(len, name)), np.int64)
    return np.concatenate(name), np.concatenate(place), np.concatenate(value), executions


def _append(found: NDArray[np.float64], dispatch: Integers, number: int, columns: tuple[list[Any], list[Any], list[Any]]) -> None:
    """Append the collected values of one counter to the columns of numbers, positions and values."""
    (collected,) = np.nonzero(~np.isnan(found))
    name, place, value = columns
    name.append(np.full(len(collected), number, np.int64))
    place.append(dispatch[collected])
    value.append(found[collected])


def _looked_up(ids: Integers, positions: tuple[Integers, Integers]) -> Integers:
    known, position = positions
    if not len(known):
        return np.full(len(ids), _UNKNOWN, np.int64)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, position[at], _UNKNOWN)


def _executions(ids: Integers, cells: Cells) -> Integers:
    """Return the number of the execution of its dispatch for each row, from 0."""
    if "Start_Timestamp" not in cells or not len(ids):
        return np.zeros(len(ids), np.int64)
    starts, _ = cells["Start_Timestamp"].codes()
    _, dispatch = np.unique(ids, return_inverse=True)
    pairs = dispatch.ravel() * (int(starts.max()) + 1) + starts
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    # The executions of a dispatch are numbered in order of their first row.
    order = np.lexsort((first, dispatch.ravel()[first]))
    owner = dispatch.ravel()[first][order]
    begins = np.flatnonzero(np.diff(owner, prepend=-1))
    lengths = np.diff(begins, append=len(owner))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(begins, lengths)
    executions: Integers = rank[which.ravel()]
    return executions


def _holds_numbers(column: CsvColumn) -> bool:
    """Return True if the first value is a number; a text column is not a counter, whatever its name."""
    first = next((text for text in column.codes()[1] if text.strip()), "")
    try:
        float(first)
    except ValueError:
        return False
    return True


def _is_counter(name: str) -> bool:
    plain = _REPEATED.sub("", name)
    if {canonical(plain).lower(), plain.lower(), name.lower()} & _IDENTIFIERS:
        return False
    return _COUNTER.fullmatch(name) is not None
