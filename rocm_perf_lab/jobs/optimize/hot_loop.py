"""Instructions of the hottest loop with their cycles and source lines, from the thread trace of an evaluated source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.run_directory import ATT_DIRECTORY
from rocm_perf_lab.rocprof.att.code import read_code
from rocm_perf_lab.rocprof.att.directories import find_directories

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import InstructionRow

_MOST_ROWS = 56
_INNER_SHARE = 0.5
"""Fraction of the outer loop's time above which the inner loop is shown instead."""


@dataclass(frozen=True)
class HotLoop:
    """Hottest loop: source lines, share of the wave time, cycles per iteration, and one text per instruction or source line."""

    source: str
    share: float
    cycles_per_turn: float
    rows: tuple[str, ...]


def hot_loop(directory: Path, analysis: Mapping[str, Any], source: str) -> HotLoop | None:
    """Return the loop with the longest time; None without a thread trace or loops.

    Args:
        directory: Directory of an evaluated source.
        analysis: Content of its analysis.json.
        source: Text of the source.
    """
    traced = analysis["thread_trace"]
    if traced is None or not traced["loops"] or not (directory / ATT_DIRECTORY).is_dir():
        return None
    largest = max(loop["share"] for loop in traced["loops"])
    inner = [loop for loop in traced["loops"] if loop["share"] >= _INNER_SHARE * largest]
    chosen = min(inner, key=lambda loop: (loop["last_address"] - loop["first_address"], loop["first_address"]))
    try:
        code = read_code(find_directories(directory / ATT_DIRECTORY)[0] / "code.json")
    except (LabError, IndexError):
        return None
    rows = [row for row in code.rows if chosen["first_address"] <= row.address <= chosen["last_address"]]
    if not rows:
        return None
    return HotLoop(chosen["source"], chosen["share"], chosen["cycles_per_turn"], tuple(_texts(rows, source.splitlines())))


def _texts(rows: Sequence[InstructionRow], source: Sequence[str]) -> list[str]:
    """Return the instructions below their source lines; sequences of cheap instructions in a long loop are summarised."""
    turns = max(row.hits for row in rows) or 1
    shown = sorted(range(len(rows)), key=lambda at: (-rows[at].cycles, at))[:_MOST_ROWS]
    kept, texts, line, omitted = frozenset(shown), [], "", []
    for at, row in enumerate(rows):
        if at not in kept:
            omitted.append(row)
            continue
        if omitted:
            texts.append(f"... {len(omitted)} instructions, {sum(r.cycles for r in omitted) / turns:.0f} cycles")
            omitted = []
        if row.source_line and row.source_line != line:
            line = row.source_line
            texts.append(f"; {_source_text(line, source)}")
        texts.append(f"{row.cycles / turns:6.0f} {row.stall / turns:6.0f}  {row.text}")
    if omitted:
        texts.append(f"... {len(omitted)} instructions, {sum(r.cycles for r in omitted) / turns:.0f} cycles")
    return texts


def _source_text(place: str, source: Sequence[str]) -> str:
    """Return `line 10: text`, or file and line for another file."""
    name, _, number = place.rpartition(":")
    if number.isdecimal() and 0 < int(number) <= len(source) and not name.endswith((".h", ".hpp")):
        return f"line {number}: {source[int(number) - 1].strip()}"
    return place
