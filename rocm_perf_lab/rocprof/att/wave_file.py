"""Wave files of a decoded thread trace, one wavefront each: `read_waves(directory, listed)`."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.att.content import array, narrow, take_tables
from rocm_perf_lab.rocprof.att.model import Column, Wave, WaveKey

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import Integers

_WAVE_FILE = re.compile(r"se(\d+)_sm(\d+)_sl(\d+)_wv(\d+)\.json$")
_TABLES, _TIMELINE = re.compile(rb"instructions|timeline"), re.compile(rb"timeline")
_NAMED_IN_NOTES = 3


def read_waves(directory: Path, listed: Any, *, timelines: bool = True) -> tuple[tuple[Wave, ...], tuple[str, ...]]:
    """Return the wavefronts of a directory by key, and notes on missing or damaged files.

    Args:
        directory: The decoded directory. Files that follow the decoder's naming are read, listed or not.
        listed: `wave_filenames` of filenames.json: {engine: {simd: {slot: {number: [file, begin, end]}}}}.
        timelines: False leaves the timelines empty.
    """
    keys = {name: key for key, name in _listed(listed).items()}
    present = {name: key for name, key in keys.items() if _is_inside(name) and _is_file(directory / name)}
    notes = []
    if missing := sorted(keys.keys() - present.keys()):
        notes.append(f"{len(missing)} of {len(keys)} wave files are missing: {_few(missing)}")
    for path in directory.glob("se*_sm*_sl*_wv*.json"):
        if match := _WAVE_FILE.search(path.name):
            present.setdefault(path.name, WaveKey(*(int(part) for part in match.groups())))
    waves, damaged = [], []
    for name, key in sorted(present.items(), key=lambda item: item[1]):
        try:
            waves.append(_wave((directory / name).read_bytes(), key, timelines))
        except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            damaged.append(name)
    if damaged:
        notes.append(f"{len(damaged)} wave files are damaged and were ignored: {_few(damaged)}")
    return tuple(waves), tuple(notes)


def _wave(content: bytes, key: WaveKey, has_timeline: bool) -> Wave:
    content, tables = take_tables(content, _TABLES, unused=None if has_timeline else _TIMELINE)
    document = json.loads(content)
    wave = document["wave"]
    instructions, timeline = tables.get("instructions"), tables.get("timeline")
    if instructions is None:
        instructions = array([row[: len(Column)] for row in wave.get("instructions") or ()])
    if timeline is None:
        timeline = array(wave.get("timeline") or ())
    total, stitched = document.get("num_insts"), document.get("num_stitched")
    return Wave(
        key=key,
        compute_unit=int(wave.get("cu", 0)),
        identifier=int(wave.get("id", 0)),
        begin=int(wave["begin"]),
        end=int(wave["end"]),
        instructions=_rows(instructions, len(Column)),
        timeline=_rows(timeline if has_timeline else timeline[:0], 2),
        waits=tuple((int(line), tuple(int(cause[0]) for cause in causes)) for line, causes in wave.get("waitcnt") or ()),
        stitched=int(stitched) if stitched is not None and stitched != total else None,
    )


def _rows(table: Integers, width: int) -> Integers:
    """Return the first columns of a table, shape (n, width)."""
    if table.size and (table.ndim != 2 or table.shape[1] < width):
        raise ValueError(f"rows with fewer than {width} numbers")
    return np.ascontiguousarray(narrow(table[:, :width] if table.size else table.reshape(0, width)))


def _is_inside(name: str) -> bool:
    path = PurePath(name)
    return not path.is_absolute() and ".." not in path.parts


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a damaged name, for example one that is too long
        return False


def _listed(engines: Any) -> dict[WaveKey, str]:
    """Return file names by wavefront."""
    found: dict[WaveKey, str] = {}
    for place, entry in _leaves(engines):
        if len(place) == len(WaveKey._fields) and all(part.isdecimal() for part in place) and isinstance(entry[0], str):
            found[WaveKey(*(int(part) for part in place))] = entry[0]
    return found


def _leaves(tree: Any, place: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], list[Any]]]:
    if isinstance(tree, dict) and len(place) < len(WaveKey._fields):
        return [leaf for name, below in tree.items() for leaf in _leaves(below, (*place, str(name)))]
    return [(place, tree)] if isinstance(tree, list) and tree else []


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED_IN_NOTES]) + (", ..." if len(names) > _NAMED_IN_NOTES else "")
