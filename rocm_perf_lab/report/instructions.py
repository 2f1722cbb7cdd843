"""Rows of the instruction view: code with its cycles, waits with their causes, loops with the duration of each iteration."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.att.model import INLINED, Column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow

_LISTED = re.compile(r"\s*([0-9a-f]+)\s\s+(\S.*)$")
COLUMNS = ["address", "text", "file", "line", "frames", "hits", "latency", "stall", "idle"]
_MOST_TURNS = 400
"""Maximum number of iterations of a loop in the page; evenly spaced ones are kept."""
_MOST_ROWS = 60_000


def traced_code(trace: AttTrace, traced: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the code of a thread trace.

    Args:
        trace: Thread trace.
        traced: Its analysis, with the causes of waits and the loops; None if it was not analysed.
    """
    labels = {label.line: label.name for label in trace.kernels}
    rows = [_row(row) for row in trace.rows[:_MOST_ROWS] if row.line not in labels]
    return {
        "kind": "trace",
        "emulated": trace.provenance.emulated,
        "columns": COLUMNS,
        "rows": rows,
        "charges": _charges(traced),
        "loops": [_loop(trace, loop) for loop in (traced or {}).get("loops", ())],
    }


def counted_code(place: Path) -> dict[str, Any] | None:
    """Return the disassembly in a run's directory with execution counts; None if either is missing."""
    listing, counts = place / "kernel.s", place / "instruction_counts.json"
    if not (listing.is_file() and counts.is_file()):
        return None
    executed = {row["address"]: row["executions"] for row in json.loads(counts.read_text(encoding="utf-8"))["instructions"]}
    source_of = _source_lines(place / "kernel.hsaco")
    found = (_LISTED.match(line) for line in listing.read_text(encoding="utf-8").splitlines())
    lines = [(int(match[1], 16), match[2]) for match in found if match is not None][:_MOST_ROWS]
    rows = [[address, text, *source_of(address), "", executed.get(address, 0), 0, 0, 0] for address, text in lines]
    return {"kind": "counts", "emulated": True, "columns": COLUMNS, "rows": rows, "charges": [], "loops": []}


def _source_lines(binary: Path) -> Callable[[int], tuple[str, int]]:
    from rocm_perf_lab.toolchain.source_lines import line_table_of_file

    lookup = line_table_of_file(binary.read_bytes()) if binary.is_file() else None

    def source_of(address: int) -> tuple[str, int]:
        line = lookup(address) if lookup is not None else None
        return (line.file.rpartition("/")[2], line.line) if line is not None else ("", 0)

    return source_of


def _row(row: InstructionRow) -> list[Any]:
    file, line = _file_and_line(row.source_line)
    _, _, frames = row.source.partition(INLINED)
    return [row.address, row.text, file, line, frames, row.hits, row.latency, row.stall, row.idle]


def _file_and_line(source: str) -> tuple[str, int]:
    file, _, number = source.rpartition(":")
    return (file.rpartition("/")[2], int(number)) if number.isdigit() else (source, 0)


def _charges(traced: Mapping[str, Any] | None) -> list[list[Any]]:
    """Return waits as (address of the wait, address of its cause, cycles, counter)."""
    rows = (traced or {}).get("charges", ())
    return [[row["waiting_address"], row["cause_address"], round(row["cycles"]), row["counter"]] for row in rows]


def _loop(trace: AttTrace, loop: Mapping[str, Any]) -> dict[str, Any]:
    turns = _turns(trace, loop["first_address"])
    step = max(1, -(-len(turns) // _MOST_TURNS))
    return {**loop, "durations": turns[::step], "left_out": len(turns) - len(turns[::step])}


def _turns(trace: AttTrace, address: int) -> list[int]:
    """Return the cycles from one execution of a loop's first instruction to the next, in order, of all wavefronts.

    Intervals between separate executions of the loop are omitted: they contain an instruction before the loop.
    """
    place = next((row.line for row in trace.rows if row.address == address and row.hits), None)
    if place is None:
        return []
    found: list[int] = []
    for wave in trace.waves:
        lines = wave.instructions[:, Column.LINE]
        starts = np.flatnonzero(lines == place)
        if len(starts) < 2:
            continue
        times = wave.instructions[starts, Column.TIME]
        before = np.concatenate(([0], np.cumsum(lines < place)))
        left = before[starts[1:]] > before[starts[:-1]]
        found += [int(cycles) for cycles, has_left in zip(np.diff(times), left, strict=True) if not has_left]
    return found
