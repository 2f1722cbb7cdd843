"""Reads the folders that rocprofv3's trace decoder leaves (`ui_output_agent_<a>_dispatch_<d>`) into :class:`AttTrace`.

`find_folders(path)` lists them, `read_folder(path)` reads one. Columns of the code are taken by the names of its header.
Only the code itself is needed: what else is missing or damaged is left out and said in `notes`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.errors import LabError
from rocm_perf_lab.rocprof.att.model import (
    AttProvenance,
    AttTrace,
    Clocks,
    Column,
    InstructionRow,
    KernelLabel,
    PcSamples,
    State,
    StateCurve,
    Wave,
    WaveKey,
)
from rocm_perf_lab.rocprof.schema import PROVENANCE_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.rocprof.att.model import Integers

_FOLDER = re.compile(r"ui_output_agent_(?P<agent>\d+)_dispatch_(?P<dispatch>\d+)")
_WAVE_FILE = re.compile(r"se(\d+)_sm(\d+)_sl(\d+)_wv(\d+)\.json$")
_COUNTER_FILE = re.compile(r"se(\d+)_perfcounter\.json$")
_INSTRUCTIONS = re.compile(rb'"instructions"\s*:\s*')
_COLUMNS = (
    "ISA", "_", "LineNumber", "Source", "Codeobj", "Vaddr", "Hit", "Latency", "Stall", "Idle",
)  # fmt: skip
"""Their order where the file has no header, as in version 2."""
_OTHER_NAMES = {"PC_Issued": "Issued", "PC_Stalled": "Stalled", "Stall_Reasons": "NotIssuedReasons"}
"""What the columns of PC samples are called too."""
_NAMED_IN_NOTES = 3


class AttError(LabError):
    """A folder that is no decoded thread trace, or a damaged one."""


def find_folders(path: Path) -> tuple[Path, ...]:
    """Decoded folders at or below `path`, by dispatch and name.

    Raises:
        AttError: There is none.
    """
    if not path.is_dir():
        raise AttError("no such folder", where=str(path), remedy="give the folder that rocprofv3 --att -d wrote")
    if (path / "code.json").exists():
        return (path,)
    if found := {code.parent for code in path.rglob("code.json")}:
        return tuple(sorted(found, key=_order))
    if any(path.rglob("*.att")):
        raise AttError(
            "the folder holds raw traces (*.att) that were not decoded",
            where=str(path),
            remedy="install rocprof-trace-decoder and trace again, or decode them with the trace viewer",
        )
    raise AttError(
        "the folder holds no decoded thread trace (no code.json)",
        where=str(path),
        remedy="give a folder ui_output_agent_<agent>_dispatch_<dispatch>, or the one that holds them",
    )


def read_kernel_trace(path: Path, symbol: str) -> AttTrace:
    """The trace of one kernel among the decoded folders at or below `path`.

    The name may be mangled, or demangled as CSV has it, with or without its parameters. Of several folders the first that has
    wavefronts of the kernel; where none names it, the first with any wavefronts.

    Raises:
        AttError: No decoded folder, or one that cannot be read.
    """
    traces = [read_folder(folder) for folder in find_folders(path)]
    kernel = symbol.removesuffix(".kd")
    of_kernel = [t for t in traces if any(label.mangled_name.removesuffix(".kd") == kernel for label in t.kernels)]
    short = kernel.partition("(")[0]
    of_name = [t for t in traces if any(label.name.partition("(")[0] == short for label in t.kernels)]
    candidates = of_kernel or of_name or traces
    return next((trace for trace in candidates if trace.waves), candidates[0])


def read_folder(folder: Path) -> AttTrace:
    """Everything of one decoded folder.

    Raises:
        AttError: No folder, no code, or code that cannot be read.
    """
    if not folder.is_dir():
        raise AttError("no such folder", where=str(folder))
    return _Reader(folder).read()


def _order(folder: Path) -> tuple[int, str]:
    match = _FOLDER.search(folder.name)
    return (int(match["dispatch"]) if match else -1), folder.name


@dataclass(frozen=True)
class _Code:
    rows: tuple[InstructionRow, ...]
    kernels: tuple[KernelLabel, ...]
    has_cycles: bool
    version: str


class _Reader:
    """One pass over the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes: list[str] = []

    def read(self) -> AttTrace:
        """The trace."""
        code = self._code()
        names = self._optional("filenames.json", expected=True)
        occupancy, dispatched = self._occupancy()
        waves = self._waves(names)
        return AttTrace(
            provenance=self._provenance(names, code.version),
            rows=code.rows,
            kernels=code.kernels,
            waves=waves,
            occupancy=occupancy,
            dispatched=dispatched,
            states=self._states(),
            clocks=self._clocks(),
            counter_names=_texts(names.get("counter_names")),
            counters=self._counters(),
            snapshots=_flat(self._optional("snapshots.json")),
            has_cycles=code.has_cycles and names.get("thread_trace", True) is not False,
            notes=tuple(self._notes),
        )

    def _load(self, path: Path) -> Any:
        """Its JSON.

        Raises:
            AttError: Missing or damaged.
        """
        try:
            return json.loads(path.read_bytes())
        except OSError as error:
            raise AttError(f"cannot read {path.name}: {error.strerror}", where=str(self._folder)) from error
        except ValueError as error:
            raise AttError(
                f"{path.name} is damaged or cut off: {error}", where=str(self._folder), remedy="decode the trace again"
            ) from error

    def _optional(self, name: str, *, expected: bool = False) -> dict[str, Any]:
        """A JSON object that a trace can do without; empty where it is missing or damaged."""
        path = self._folder / name
        if not path.exists():
            if expected:
                self._notes.append(f"{name} is missing")
            return {}
        try:
            content = self._load(path)
        except AttError as error:
            self._notes.append(error.what)
            return {}
        if isinstance(content, dict):
            return content
        if content is not None:
            self._notes.append(f"{name} is not a JSON object and was left out")
        return {}

    def _code(self) -> _Code:
        path = self._folder / "code.json"
        content = self._load(path)
        if not isinstance(content, dict) or "code" not in content:
            raise AttError("code.json has no key `code`", where=str(self._folder))
        if content["code"] is None or content["code"] == []:
            self._notes.append("the decoder found no code: the code object was not captured, or no wavefront was traced")
        version = str(content.get("version", ""))
        header = content.get("header")
        names = header.split(",") if isinstance(header, str) else header if isinstance(header, list) else _COLUMNS
        names = [_OTHER_NAMES.get(name, name) for name in (str(one).strip().strip("[]") for one in names)]
        try:
            return self._rows(names, content["code"] or (), version)
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise AttError(
                f"code.json has a row that does not fit its header: {error!r}",
                where=str(self._folder),
                remedy="a newer format, or a damaged file: decode the trace again",
            ) from error

    def _rows(self, names: Sequence[str], entries: Sequence[Sequence[Any]], version: str) -> _Code:
        width = min((len(entry) for entry in entries), default=len(names))
        at = {name: place for place, name in enumerate(names) if place < width}
        if missing := [name for name in ("ISA", "LineNumber", "Hit") if name not in at]:
            raise KeyError(*missing)
        absent = [name for name in ("Latency", "Stall", "Idle") if name not in at]
        if absent:
            self._notes.append(f"code.json (version {version or 'unknown'}) has no column {', '.join(absent)}")
        sampled = "Issued" in at and "Stalled" in at

        def number(entry: Sequence[Any], name: str) -> int:
            return int(entry[at[name]] or 0) if name in at else 0

        rows: list[InstructionRow] = []
        kernels: list[KernelLabel] = []
        for entry in entries:
            text = str(entry[at["ISA"]] or "")
            source = str(entry[at["Source"]] or "") if "Source" in at else ""
            line, code_object, address = (number(entry, name) for name in ("LineNumber", "Codeobj", "Vaddr"))
            if text.startswith(";"):
                kernels.append(KernelLabel(line, text[1:].strip(), source, code_object, address))
                continue
            rows.append(
                InstructionRow(
                    line=line,
                    text=text,
                    source=source,
                    code_object=code_object,
                    address=address,
                    hits=number(entry, "Hit"),
                    latency=number(entry, "Latency"),
                    stall=number(entry, "Stall"),
                    idle=number(entry, "Idle"),
                    samples=_samples(entry, at) if sampled else None,
                )
            )
        rows.sort(key=lambda row: row.line)
        kernels.sort(key=lambda label: label.line)
        return _Code(tuple(rows), tuple(kernels), "Latency" in at, version)

    def _provenance(self, names: Mapping[str, Any], version: str) -> AttProvenance:
        match = _FOLDER.search(self._folder.name)
        own = names.get(PROVENANCE_KEY)
        lab: Mapping[str, Any] = own if isinstance(own, dict) else {}
        gfxip = names.get("gfxip")
        return AttProvenance(
            folder=self._folder.name,
            agent=int(match["agent"]) if match else None,
            dispatch=int(match["dispatch"]) if match else None,
            version=version,
            gfxip=gfxip if isinstance(gfxip, int) else None,
            device=str(lab.get("device", "rocprofv3")),
            emulated=own is not None and lab.get("emulated") is not False,
        )

    def _waves(self, names: Mapping[str, Any]) -> tuple[Wave, ...]:
        listed = {self._folder / name for name in _listed(names.get("wave_filenames"))}
        present = {path for path in self._folder.glob("se*_sm*_sl*_wv*.json") if _WAVE_FILE.search(path.name)}
        if missing := sorted(path.name for path in listed - present):
            self._notes.append(f"{len(missing)} of {len(listed)} wave files are missing: {_few(missing)}")
        waves, damaged = [], []
        for path in present:
            try:
                waves.append(_wave(path))
            except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError):
                damaged.append(path.name)
        if damaged:
            self._notes.append(f"{len(damaged)} wave files are damaged and were left out: {_few(sorted(damaged))}")
        if not present and names.get("thread_trace") is not False:
            self._notes.append(
                "no wavefront was traced in detail: choose another --att-target-cu or more shader engines, "
                "or launch more workgroups"
            )
        return tuple(sorted(waves, key=lambda wave: wave.key))

    def _occupancy(self) -> tuple[dict[int, Integers], dict[int, str]]:
        content = self._optional("occupancy.json", expected=True)
        engines = {}
        for name, events in content.items():
            if name.isdecimal() and (table := self._table("occupancy.json", events, 6)) is not None:
                engines[int(name)] = table
        dispatches = content.get("dispatches")
        kernels = dispatches.items() if isinstance(dispatches, dict) else ()
        return engines, {int(number): str(name) for number, name in kernels if str(number).isdecimal()}

    def _states(self) -> dict[State, StateCurve]:
        curves = {}
        for state in (State.IDLE, State.EXEC, State.WAIT, State.STALL):
            content = self._optional(f"wstates{state.value}.json")
            times, waves = content.get("time") or [], content.get("state") or []
            try:
                table = _array([times, waves]).reshape(2, -1)
            except (TypeError, ValueError, OverflowError):
                self._notes.append(f"wstates{state.value}.json is damaged and was left out")
                continue
            if table.size:
                curves[state] = StateCurve(str(content.get("name", "")), table[0], table[1])
        return curves

    def _clocks(self) -> Clocks | None:
        content = self._optional("realtime.json")
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
        for path in sorted(self._folder.glob("se*_perfcounter.json")):
            match = _COUNTER_FILE.search(path.name)
            table = self._table(path.name, self._optional(path.name).get("data") or (), 7)
            if match and table is not None:
                engines[int(match[1])] = table
        return engines

    def _table(self, file: str, rows: Sequence[Sequence[int]], width: int) -> Integers | None:
        """The first `width` columns; None, with a note, where rows are shorter."""
        try:
            return _array([row[:width] for row in rows]).reshape(-1, width)
        except (TypeError, ValueError, OverflowError):
            self._notes.append(f"{file} has rows of less than {width} numbers and was left out")
            return None


def _samples(entry: Sequence[Any], at: Mapping[str, int]) -> PcSamples:
    reasons = entry[at["NotIssuedReasons"]] if "NotIssuedReasons" in at else None
    return PcSamples(
        service=str(entry[at["ServiceType"]]) if "ServiceType" in at else "",
        issued=int(entry[at["Issued"]] or 0),
        stalled=int(entry[at["Stalled"]] or 0),
        reasons=tuple(int(count) for count in reasons) if isinstance(reasons, list) else (),
    )


def _wave(path: Path) -> Wave:
    """One wave file. Its instructions are nearly all of it, so they are not taken through JSON objects."""
    match = _WAVE_FILE.search(path.name)
    assert match is not None
    content = path.read_bytes()
    found = _INSTRUCTIONS.search(content)
    start, end = (found.end(), content.find(b"]]", found.end()) + 2) if found else (0, 0)
    instructions = _numbers(content[start:end])
    if instructions is not None:
        content = content[:start] + b"[]" + content[end:]
    document = json.loads(content)
    wave = document["wave"]
    if instructions is None:
        instructions = _array([row[: len(Column)] for row in wave.get("instructions") or ()]).reshape(-1, len(Column))
    total, stitched = document.get("num_insts"), document.get("num_stitched")
    return Wave(
        key=WaveKey(*(int(part) for part in match.groups())),
        compute_unit=int(wave["cu"]),
        identifier=int(wave.get("id", 0)),
        begin=int(wave["begin"]),
        end=int(wave["end"]),
        instructions=instructions,
        timeline=_array(wave.get("timeline") or ()).reshape(-1, 2),
        waits=tuple((int(line), tuple(int(cause[0]) for cause in causes)) for line, causes in wave.get("waitcnt") or ()),
        stitched=int(stitched) if stitched is not None and stitched != total else None,
    )


def _numbers(text: bytes) -> Integers | None:
    """A list of lists of equally many whole numbers; None where it is something else."""
    if not text.startswith(b"[[") or text.translate(None, b"0123456789,-[] \n"):
        return None
    rows = text.count(b"[") - 1
    count = text.count(b",") + 1
    if rows < 1 or count % rows or count // rows < len(Column):
        return None
    values = np.fromstring(text.translate(None, b"[]").decode(), dtype=np.int64, sep=",")
    if len(values) != count:
        return None
    return np.ascontiguousarray(values.reshape(rows, -1)[:, : len(Column)])


def _array(values: Any) -> Integers:
    return np.array(values, dtype=np.int64)


def _listed(engines: Any) -> list[str]:
    """File names out of the nested wave_filenames: {engine: {simd: {slot: {number: [file, begin, end]}}}}."""
    if isinstance(engines, dict):
        return [name for inner in engines.values() for name in _listed(inner)]
    return [Path(str(engines[0])).name] if isinstance(engines, list) and engines else []


def _flat(tree: Mapping[str, Any], folder: str = "") -> dict[str, str]:
    """Path of a source file -> name of its copy."""
    files: dict[str, str] = {}
    for name, below in tree.items():
        path = "/" if name == "/" else f"{folder}/{name}" if folder not in ("", "/") else f"{folder}{name}"
        files |= _flat(below, path) if isinstance(below, dict) else {path: str(below)}
    return files


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, list) else ()


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED_IN_NOTES]) + (", ..." if len(names) > _NAMED_IN_NOTES else "")
