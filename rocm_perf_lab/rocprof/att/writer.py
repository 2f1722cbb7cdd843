"""Writer for an :class:`AttTrace` in the format of rocprofv3's trace decoder, readable by `reader.py`.

`directory` corresponds to rocprofv3's `-d`: it receives the decoded directory and the table of instruction totals.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.rocprof.schema import PROVENANCE_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow, KernelLabel, State, Wave

VERSION = "3.0.0"
_HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
_SAMPLE_HEADER = ", ServiceType, Issued, Stalled, NotIssuedReasons"
_TOTALS = ("CodeObj", "Vaddr", "Instruction", "Hitcount", "Latency", "Stall", "Idle", "Source")
_FIRST_WITHOUT_VEGA = 10


def write_trace(trace: AttTrace, directory: Path) -> Path:
    """Write the decoded directory and the totals below `directory`; return the path of the decoded directory.

    Raises:
        OSError: The directory cannot be written.
    """
    source = trace.provenance
    name = f"ui_output_agent_{source.agent or 0}_dispatch_{source.dispatch or 0}"
    decoded = directory / name
    documents: dict[str, Any] = {
        "code.json": _code(trace),
        "filenames.json": _file_names(trace),
        "occupancy.json": _occupancy(trace),
        **{f"wstates{state.value}.json": _curve(trace, state) for state in trace.states},
        **{wave.key.file_name: _wave(wave) for wave in trace.waves},
        **{f"se{engine}_perfcounter.json": {"data": rows.tolist()} for engine, rows in trace.counters.items()},
    }
    if trace.clocks is not None:
        pairs = {f"SE{engine}": values.tolist() for engine, values in trace.clocks.pairs.items()}
        documents["realtime.json"] = {**pairs, "metadata": {"frequency": trace.clocks.frequency_hz}}
    if trace.snapshots:
        documents["snapshots.json"] = _tree(trace.snapshots)
    for file, content in documents.items():
        write_text(decoded / file, json.dumps(content, separators=(",", ":")) + "\n")
    write_text(directory / f"stats_{name}.csv", _totals(trace))
    return decoded


def _code(trace: AttTrace) -> dict[str, Any]:
    sampled = any(row.samples is not None for row in trace.rows)
    entries = [*(_label(label) for label in trace.kernels), *(_row(row, sampled=sampled) for row in trace.rows)]
    if sampled:
        entries = [[*entry, "", 0, 0, []] if entry[0].startswith(";") else entry for entry in entries]
    return {
        "code": sorted(entries, key=lambda entry: entry[2]) or None,
        "header": _HEADER + (_SAMPLE_HEADER if sampled else ""),
        "version": trace.provenance.version or VERSION,
    }


def _label(label: KernelLabel) -> list[Any]:
    return [f"; {label.mangled_name}", 0, label.line, label.name, label.code_object, label.address, 0, 0, 0, 0]


def _row(row: InstructionRow, *, sampled: bool) -> list[Any]:
    entry = [
        row.text, 0, row.line, row.source, row.code_object, row.address, row.hits, row.latency, row.stall, row.idle,
    ]  # fmt: skip
    if not sampled:
        return entry
    samples = row.samples
    return [*entry, *((samples.service, samples.issued, samples.stalled, list(samples.reasons)) if samples else ("", 0, 0, []))]


def _file_names(trace: AttTrace) -> dict[str, Any]:
    source = trace.provenance
    names: dict[str, Any] = {}
    for wave in trace.waves:
        slot = names
        for part in (wave.key.engine, wave.key.simd, wave.key.slot):
            slot = slot.setdefault(str(part), {})
        slot[str(wave.key.number)] = [wave.key.file_name, wave.begin, wave.end]
    content: dict[str, Any] = {
        "global_begin_time": 0,
        "version": source.version or VERSION,
        "counter_names": list(trace.counter_names),
        "wave_filenames": names,
        "thread_trace": trace.has_cycles,
    }
    if source.gfxip is not None:
        content |= {"gfxv": "vega" if source.gfxip < _FIRST_WITHOUT_VEGA else "navi", "gfxip": source.gfxip}
    if source.device != "rocprofv3":
        content[PROVENANCE_KEY] = {"device": source.device, "emulated": source.emulated}
        if source.is_partial:
            content[PROVENANCE_KEY]["partial"] = True
        if source.architecture is not None:
            content[PROVENANCE_KEY]["architecture"] = source.architecture
    return content


def _occupancy(trace: AttTrace) -> dict[str, Any]:
    return {
        **{str(engine): _events(trace, engine) for engine in trace.occupancy},
        "dispatches": {str(number): name for number, name in trace.dispatched.items()},
        "version": trace.provenance.version or VERSION,
    }


def _events(trace: AttTrace, engine: int) -> list[list[int]]:
    """Return the rows of a shader engine; with columns of newer decoders if the wavefronts have workgroups."""
    rows: list[list[int]] = trace.occupancy[engine].tolist()
    starts = {
        (wave.begin, wave.compute_unit, wave.key.simd, wave.key.slot): wave.workgroup
        for wave in trace.waves
        if wave.key.engine == engine and wave.workgroup is not None
    }
    if not starts:
        return rows
    ends = {
        (wave.end, wave.compute_unit, wave.key.simd, wave.key.slot): wave.workgroup
        for wave in trace.waves
        if wave.key.engine == engine
    }
    return [[*row[:6], 1, 0, 0, (starts if row[4] else ends).get((row[0], row[1], row[2], row[3])) or 0, 0] for row in rows]


def _curve(trace: AttTrace, state: State) -> dict[str, Any]:
    curve = trace.states[state]
    return {"name": curve.name, "time": curve.times.tolist(), "state": curve.waves.tolist()}


def _wave(wave: Wave) -> dict[str, Any]:
    instructions = wave.instructions.tolist()
    return {
        "name": f"SE{wave.key.engine}",
        "duration": wave.cycles,
        "num_insts": len(instructions),
        "num_stitched": len(instructions) if wave.stitched is None else wave.stitched,
        "wave": {
            "cu": wave.compute_unit,
            "simd": wave.key.simd,
            "slot": wave.key.slot,
            "id": wave.identifier,
            "begin": wave.begin,
            "end": wave.end,
            "instructions": instructions,
            "timeline": wave.timeline.tolist(),
            "waitcnt": [[line, [[cause, 0] for cause in causes]] for line, causes in wave.waits],
        },
    }


def _tree(snapshots: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, copy in snapshots.items():
        parts = [*(["/"] if path.startswith("/") else []), *filter(None, path.split("/"))]
        below = tree
        for part in parts[:-1]:
            below = below.setdefault(part, {})
        below[parts[-1]] = copy
    return tree


def _totals(trace: AttTrace) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    table.writerow(_TOTALS)
    for row in sorted(trace.rows, key=lambda row: (row.code_object, row.address)):
        table.writerow(
            (row.code_object, row.address, row.text, row.hits, row.latency, row.stall, row.idle, row.source)
        )  # fmt: skip
    return text.getvalue()
