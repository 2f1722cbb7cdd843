"""Numbers next to the instructions of a listing: executions of an emulated run, cycles of a thread trace, or PC samples.

`read_count_table(path, code_objects, kernel)` recognises the source by its content, and checks that it is of the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.device.instruction_counts import COUNTS_NAME, CountsError, read_counts
from rocm_perf_lab.rocprof.att.code import read_code
from rocm_perf_lab.rocprof.att.directories import find_directories
from rocm_perf_lab.rocprof.att.reader import read_directory
from rocm_perf_lab.rocprof.pc_samples import StallReason
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.kernel_lookup import KernelNotFound, find_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.code import Code
    from rocm_perf_lab.rocprof.att.model import InstructionRow, KernelLabel, PcSamples
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_LEAST_EQUAL = 0.9
"""Minimum fraction of equal mnemonics in two listings of the same code; disassemblers print some differently."""
_ENCODINGS = ("_e32", "_e64", "_sdwa", "_dpp", "_vi", "_gfx9")
_NO_RUN_COUNTS: dict[str, Any] = {"executions": None, "active_lanes": None}


@dataclass(frozen=True)
class InstructionNumbers:
    """Numbers of one instruction: cells of the listing, and keys of the document."""

    cells: tuple[str, ...]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class CountTable:
    """Numbers by address in the code object, for one kernel."""

    symbol: str
    titles: tuple[str, ...]
    rows: Mapping[int, InstructionNumbers]
    executions: Mapping[int, int] = field(default_factory=dict)
    """Executions by address, including those of called functions; empty unless an emulated run counted them."""

    def line(self, address: int) -> str:
        """Return the cells of one instruction, aligned below the titles."""
        found = self.rows.get(address)
        cells = found.cells if found else ("-",) * len(self.titles)
        return "".join(f"{cell:>{len(title)}}  " for cell, title in zip(cells, self.titles, strict=True))

    def values(self, address: int) -> dict[str, Any]:
        """Return the keys of one instruction in the document."""
        found = self.rows.get(address)
        return {**_NO_RUN_COUNTS, **(found.values if found else {})}


def read_count_table(path: Path, code_objects: Sequence[CodeObject], kernel: str | None) -> CountTable:
    """Return the numbers for one kernel of the code objects.

    Args:
        path: Directory of an emulated run or its counts file, or directory of a thread trace or of PC samples.
        code_objects: Code objects of the listed file.
        kernel: Name of the kernel. Default: the kernel of the counts.

    Raises:
        LabError: The numbers cannot be read, or were recorded from different code.
    """
    if path.is_dir() and not (path / COUNTS_NAME).exists() and any(path.rglob("code.json")):
        return _of_trace(path, code_objects, kernel)
    return _of_run(path, code_objects, kernel)


def _of_run(path: Path, code_objects: Sequence[CodeObject], kernel: str | None) -> CountTable:
    counts = read_counts(path)
    name = kernel or counts.symbol
    found = _find(code_objects, name)
    if found is None or (counts.code_object_sha256, counts.symbol) != (found[0].sha256, found[1].symbol):
        same_file = any(one.sha256 == counts.code_object_sha256 for one in code_objects)
        raise CountsError(
            f"the counts are of {f'kernel {counts.symbol}' if same_file else 'another code object'}",
            where=f"--counts {path}",
            hint=f"add --kernel {counts.symbol}" if same_file else "pass the emulated file, or emulate this one",
        )
    rows = {
        row.address: InstructionNumbers(
            (str(row.executions), f"{row.active_lanes:.1f}" if row.active_lanes is not None else "-"),
            {"executions": row.executions, "active_lanes": row.active_lanes},
        )
        for row in counts.instructions
    }
    executions = {row.address: row.executions for row in counts.instructions}
    return CountTable(counts.symbol, ("     runs", "lanes"), rows, executions)


def _of_trace(path: Path, code_objects: Sequence[CodeObject], kernel: str | None) -> CountTable:
    """Return the numbers of the first directory whose code has the kernel, or any kernel of the file."""
    seen: list[str] = []
    for directory in find_directories(path):
        code = read_code(directory / "code.json")
        if code.lacks and any(name in code.lacks for name in ("Latency", "Stall")):
            code = _summed(code, directory)
        for label in sorted(code.kernels, key=lambda label: (-_weight(code, label), label.line)):
            name = label.mangled_name.removesuffix(".kd")
            found = _find(code_objects, name)
            if found is None or (kernel is not None and _find(code_objects, kernel) != found):
                seen.append(label.name or name)
                continue
            return _matched(path, found, _rows_below(code, label), label)
    raise CountsError(
        f"the thread trace is of {', '.join(dict.fromkeys(seen)) or 'no named kernel'}",
        where=f"--counts {path}",
        hint="pass the code object of that kernel, for example the .out file next to the trace",
    )


def _summed(code: Code, directory: Path) -> Code:
    """Return the code with missing cycles computed as sums over the wavefronts."""
    from dataclasses import replace

    trace = read_directory(directory, curves=False)
    return replace(code, rows=trace.rows)


def _find(code_objects: Sequence[CodeObject], name: str) -> tuple[CodeObject, KernelMetadata] | None:
    for code_object in code_objects:
        try:
            return code_object, find_kernel(code_object, name)
        except KernelNotFound:
            continue
    return None


def _rows_below(code: Code, label: KernelLabel) -> list[InstructionRow]:
    end = min((other.line for other in code.kernels if other.line > label.line), default=None)
    return [row for row in code.rows if row.line >= label.line and (end is None or row.line < end)]


def _weight(code: Code, label: KernelLabel) -> int:
    return sum(
        row.latency + row.idle + row.hits + (row.samples.issued + row.samples.stalled if row.samples else 0)
        for row in _rows_below(code, label)
    )


def _matched(
    path: Path, found: tuple[CodeObject, KernelMetadata], rows: Sequence[InstructionRow], label: KernelLabel
) -> CountTable:
    code_object, kernel = found
    moved = kernel.entry_address - label.address
    listed = {line.address: line.mnemonic for line in disassemble(code_object, kernel.symbol)}
    shared = [row for row in rows if row.address + moved in listed]
    equal = sum(_base(row.mnemonic) == _base(listed[row.address + moved]) for row in shared)
    if not shared or equal < _LEAST_EQUAL * max(len(shared), min(len(rows), len(listed))):
        raise CountsError(
            f"the thread trace is of another version of {kernel.symbol}: {equal} of {len(listed)} instructions are equal",
            where=f"--counts {path}",
            hint="pass the code object that was traced, for example the .out file next to the trace",
        )
    if any(row.samples is not None for row in shared) and not any(row.hits for row in shared):
        sampled = {row.address + moved: _sampled(row.samples) for row in shared if row.samples is not None}
        return CountTable(kernel.symbol, ("  samples", "  issued", " stalled", f"{'mostly':<24}"), sampled)
    traced = {row.address + moved: _traced(row) for row in shared}
    return CountTable(kernel.symbol, ("     hits", "   latency", "     stall", "      idle"), traced)


def _traced(row: InstructionRow) -> InstructionNumbers:
    numbers = {"hits": row.hits, "latency": row.latency, "stall": row.stall, "idle": row.idle}
    return InstructionNumbers(tuple(str(number) for number in numbers.values()), numbers)


def _sampled(samples: PcSamples) -> InstructionNumbers:
    names = list(StallReason.__members__)
    reasons = {names[n].lower(): count for n, count in enumerate(samples.reasons) if count and n < len(names)}
    most = max(reasons, key=lambda name: reasons[name], default="-")
    total = samples.issued + samples.stalled
    values = {"samples": total, "issued": samples.issued, "stalled": samples.stalled, "stall_reasons": reasons}
    return InstructionNumbers((str(total), str(samples.issued), str(samples.stalled), f"{most:<24}"), values)


def _base(mnemonic: str) -> str:
    name = mnemonic.lower()
    for ending in _ENCODINGS:
        name = name.removesuffix(ending)
    return name
