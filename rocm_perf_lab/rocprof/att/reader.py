"""Reader for one decoded thread trace directory of rocprofv3 (`ui_output_agent_<a>_dispatch_<d>`).

Only the code is required. Other missing or damaged files are ignored and reported in `notes`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof.att.code import Code, read_code
from rocm_perf_lab.rocprof.att.content import AttError, array, load_tables, narrow
from rocm_perf_lab.rocprof.att.model import AttProvenance, AttTrace, Clocks, State, StateCurve, Wave
from rocm_perf_lab.rocprof.att.timeline import summed
from rocm_perf_lab.rocprof.att.wave_file import read_waves
from rocm_perf_lab.rocprof.schema import PROVENANCE_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import Integers

DIRECTORY = re.compile(r"ui_output_agent_(?P<agent>\d+)_dispatch_(?P<dispatch>\d+)")
_ENGINES, _STATES, _CLOCKS, _DATA = (re.compile(keys) for keys in (rb"\d+", rb"time|state", rb"SE\d+", rb"data"))
"""Keys of the tables in the other files."""
_CODE_OBJECT_FILE = re.compile(r"_(gfx[0-9a-f]+)_code_object_id_\d+\.out$")
_WORKGROUP_COLUMN = 9
"""Column of the workgroup in occupancy rows of newer decoders."""
_COUNTER_FILE = re.compile(r"se(\d+)_perfcounter\.json$")


def read_directory(directory: Path, *, curves: bool = True) -> AttTrace:
    """Read one decoded directory.

    Args:
        directory: Directory with a code.json.
        curves: False skips timelines of wavefronts, curves of states and counters over time: a third of the memory, not
            needed to attribute the cycles of instructions.

    Raises:
        AttError: The directory does not exist, or its code is missing or unreadable.
    """
    if not directory.is_dir():
        raise AttError("no such directory", where=str(directory))
    return _Reader(directory, curves).read()


class _Reader:
    """One pass over the files of a directory."""

    def __init__(self, directory: Path, curves: bool) -> None:
        self._directory = directory
        self._curves = curves
        self._notes: list[str] = []

    def read(self) -> AttTrace:
        """Return the trace."""
        code = read_code(self._directory / "code.json")
        self._notes.extend(code.notes)
        names = self._optional("filenames.json", expected=True)
        occupancy, dispatched, workgroups = self._occupancy()
        waves = tuple(_with_workgroup(wave, workgroups) for wave in self._waves(names))
        if code.lacks and waves:
            code = replace(code, rows=summed(code.rows, waves, code.lacks), has_cycles=True)
            self._notes.append(f"{', '.join(code.lacks)} of the code are summed from the wave files")
        return AttTrace(
            provenance=self._provenance(names, code),
            rows=code.rows,
            kernels=code.kernels,
            waves=waves,
            occupancy=occupancy,
            dispatched=dispatched,
            states=self._states() if self._curves else {},
            clocks=self._clocks(),
            counter_names=_texts(names.get("counter_names")),
            counters=self._counters() if self._curves else {},
            snapshots=_flat(self._optional("snapshots.json")),
            has_cycles=code.has_cycles and names.get("thread_trace", True) is not False,
            notes=tuple(self._notes),
        )

    def _optional(self, name: str, tables: re.Pattern[bytes] | None = None, *, expected: bool = False) -> dict[str, Any]:
        """Return an optional JSON object with its tables as arrays; empty if it is missing or damaged."""
        path = self._directory / name
        if not path.exists():
            if expected:
                self._notes.append(f"{name} is missing")
            return {}
        try:
            content, arrays = load_tables(path, tables)
        except AttError as error:
            self._notes.append(error.what)
            return {}
        if isinstance(content, dict):
            return {**content, **arrays}
        if content is not None:
            self._notes.append(f"{name} is not a JSON object and was ignored")
        return {}

    def _provenance(self, names: Mapping[str, Any], code: Code) -> AttProvenance:
        match = DIRECTORY.search(self._directory.name)
        own = names.get(PROVENANCE_KEY)
        lab: Mapping[str, Any] = own if isinstance(own, dict) else {}
        return AttProvenance(
            directory=self._directory.name,
            agent=int(match["agent"]) if match else None,
            dispatch=int(match["dispatch"]) if match else None,
            version=code.version,
            gfxip=_generation(names, code),
            device=str(lab.get("device", "rocprofv3")),
            emulated=own is not None and lab.get("emulated") is not False,
            architecture=str(lab["architecture"]) if "architecture" in lab else _architecture_beside(self._directory),
            is_partial=lab.get("partial") is True,
        )

    def _waves(self, names: Mapping[str, Any]) -> tuple[Wave, ...]:
        waves, notes = read_waves(self._directory, names.get("wave_filenames"), timelines=self._curves)
        self._notes.extend(notes)
        if not waves and not notes and names.get("thread_trace") is not False:
            self._notes.append(
                "no wavefront was traced in detail: choose another --att-target-cu or more shader engines, "
                "or launch more workgroups"
            )
        return waves

    def _occupancy(self) -> tuple[dict[int, Integers], dict[int, str], dict[tuple[int, ...], int]]:
        """Return events, kernel names, and workgroups by (engine, compute unit, SIMD, slot, start)."""
        content = self._optional("occupancy.json", _ENGINES, expected=True)
        engines = {}
        workgroups: dict[tuple[int, ...], int] = {}
        for name, events in content.items():
            if name.isdecimal() and (table := self._table("occupancy.json", events, 6)) is not None:
                engines[int(name)] = table
                workgroups |= _workgroups(int(name), events)
        dispatches = content.get("dispatches")
        kernels = dispatches.items() if isinstance(dispatches, dict) else ()
        return engines, {int(number): str(name) for number, name in kernels if str(number).isdecimal()}, workgroups

    def _states(self) -> dict[State, StateCurve]:
        curves = {}
        for state in (State.IDLE, State.EXEC, State.WAIT, State.STALL):
            content = self._optional(f"wstates{state.value}.json", _STATES)
            try:
                times, waves = (narrow(array(_or_nothing(content.get(name))).reshape(-1)) for name in ("time", "state"))
                if len(times) != len(waves):
                    raise ValueError("as many times as states")
            except (TypeError, ValueError, OverflowError):
                self._notes.append(f"wstates{state.value}.json is damaged and was ignored")
                continue
            if len(times):
                curves[state] = StateCurve(str(content.get("name", "")), times, waves)
        return curves

    def _clocks(self) -> Clocks | None:
        content = self._optional("realtime.json", _CLOCKS)
        metadata = content.get("metadata")
        frequency = metadata.get("frequency") if isinstance(metadata, dict) else None
        if not isinstance(frequency, int):
            return None
        pairs = {}
        for name, values in content.items():
            if name.startswith("SE") and name[2:].isdecimal() and (table := self._table("realtime.json", values, 2)) is not None:
                pairs[int(name[2:])] = table
        return Clocks(frequency, pairs)

    def _counters(self) -> dict[int, Integers]:
        engines = {}
        for path in sorted(self._directory.glob("se*_perfcounter.json")):
            match = _COUNTER_FILE.search(path.name)
            table = self._table(path.name, _or_nothing(self._optional(path.name, _DATA).get("data")), 7)
            if match and table is not None:
                engines[int(match[1])] = table
        return engines

    def _table(self, file: str, rows: Any, width: int) -> Integers | None:
        """Return the first `width` columns; None, with a note, if rows are shorter."""
        try:
            return narrow(array([row[:width] for row in rows] if isinstance(rows, list) else rows[:, :width]).reshape(-1, width))
        except (TypeError, ValueError, LookupError, OverflowError):  # a slice of an object: KeyError since Python 3.12
            self._notes.append(f"{file} has rows with fewer than {width} numbers and was ignored")
            return None


def _generation(names: Mapping[str, Any], code: Code) -> int | None:
    """Return the GFX generation of filenames.json, or that implied by instructions of one generation or later."""
    stated = str(names.get("gfxip", ""))
    if stated.isdecimal():
        return int(stated)
    mnemonics = {row.mnemonic for row in code.rows}
    for generation, only in (
        (12, "s_wait_kmcnt"),
        (12, "s_wait_loadcnt"),
        (11, "s_delay_alu"),
        (10, "s_waitcnt_vscnt"),
        (10, "s_clause"),
    ):
        if only in mnemonics:
            return generation
    return {"vega": 9, "navi": 10}.get(str(names.get("gfxv")))


def _workgroups(engine: int, events: Any) -> dict[tuple[int, ...], int]:
    """Return the workgroup of each start event; empty for rows without it."""
    found: dict[tuple[int, ...], int] = {}
    for row in events if isinstance(events, list) else events.tolist():
        if len(row) > _WORKGROUP_COLUMN and row[4] == 1 and isinstance(row[_WORKGROUP_COLUMN], int):
            time, unit, simd, slot = row[:4]
            found[engine, unit, simd, slot, time] = row[_WORKGROUP_COLUMN]
    return found


def _with_workgroup(wave: Wave, workgroups: Mapping[tuple[int, ...], int]) -> Wave:
    found = workgroups.get((wave.key.engine, wave.compute_unit, wave.key.simd, wave.key.slot, wave.begin))
    return wave if found is None else replace(wave, workgroup=found)


def _architecture_beside(directory: Path) -> str | None:
    """Return the architecture in the names of code objects next to a decoded directory, if they agree."""
    names = {
        match[1] for path in directory.parent.glob("*_code_object_id_*.out") if (match := _CODE_OBJECT_FILE.search(path.name))
    }
    return names.pop() if len(names) == 1 else None


def _flat(tree: Mapping[str, Any], directory: str = "") -> dict[str, str]:
    """Return the name of each stored source file by its path."""
    files: dict[str, str] = {}
    for name, below in tree.items():
        path = "/" if name == "/" else f"{directory}/{name}" if directory not in ("", "/") else f"{directory}{name}"
        files |= _flat(below, path) if isinstance(below, dict) else {path: str(below)}
    return files


def _or_nothing(values: Any) -> Any:
    return [] if values is None else values


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, list) else ()
