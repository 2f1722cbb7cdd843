"""Source lines of traced instructions from code objects, for decoded traces without them: `with_source_lines(trace, files)`.

Rows are joined by code object id and address. A code object that was saved under another name or id is found by the name of the
traced kernel. Its instructions must be the traced ones: ids count per process, and a file may be of another build.
"""

from __future__ import annotations

import mmap
import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow, KernelLabel
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_SAVED = re.compile(r"code_object_id_(\d+)\.(?:out|hsaco|co)$")
_DESCRIPTOR = ".kd"
_LINES = b".debug_line"
_ENCODING = re.compile(r"(?:_(?:e32|e64|dpp|sdwa|vi|gfx9))+$")
_LEAST_EQUAL = 0.9
"""Share of the traced instructions that a code object of the same build has at the same addresses; decoders differ in aliases."""


@dataclass(frozen=True)
class _Traced:
    """Rows of one code object id, and the kernels among them."""

    number: int
    rows: tuple[InstructionRow, ...]
    labels: tuple[KernelLabel, ...]


def with_source_lines(trace: AttTrace, files: Iterable[Path]) -> AttTrace:
    """Return the trace with the source lines of the code objects whose rows have none.

    Rows of a code object with any source line stay as they are: the decoder knew its debug information.

    Args:
        trace: Decoded thread trace, or PC samples in its form.
        files: Code objects, the most likely ones first.
    """
    lacking = _without_sources(trace)
    if not lacking:
        return trace
    candidates = list(dict.fromkeys(files))
    sources: dict[int, str] = {}
    notes: list[str] = []
    for traced in lacking:
        told: list[str] = []
        for path in _of_code_object(candidates, traced):
            found, note = _sources_from(path, traced, trace)
            sources |= found
            told = [*([] if found else told), *([note] if note else [])]
            if found:
                break
        notes += told
    if not sources and not notes:
        return trace
    rows = tuple(replace(row, source=sources[row.line]) if row.line in sources else row for row in trace.rows)
    return replace(trace, rows=rows, notes=(*trace.notes, *notes))


def _without_sources(trace: AttTrace) -> list[_Traced]:
    by_number: dict[int, list[InstructionRow]] = {}
    for row in trace.rows:
        by_number.setdefault(row.code_object, []).append(row)
    return [
        _Traced(number, tuple(rows), tuple(label for label in trace.kernels if label.code_object == number))
        for number, rows in by_number.items()
        if not any(row.source for row in rows)
    ]


def _of_code_object(files: Sequence[Path], traced: _Traced) -> Iterator[Path]:
    """Yield the files that were saved under the id, then the others that contain the name of a traced kernel."""
    own = [path for path in files if (match := _SAVED.search(path.name)) and int(match[1]) == traced.number]
    names = [label.mangled_name.removesuffix(_DESCRIPTOR).encode() for label in traced.labels if label.mangled_name]
    yield from (path for path in own if _may_have_lines(path, names))
    yield from (path for path in files if names and path not in own and _may_have_lines(path, names))


def _may_have_lines(path: Path, names: Sequence[bytes]) -> bool:
    """Return True if a file has line tables and the name of a kernel, or is compressed; without parsing large libraries."""
    try:
        with path.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content[:4] != b"\x7fELF":
                return True
            return content.rfind(_LINES) >= 0 and (not names or any(content.find(name) >= 0 for name in names))
    except (OSError, ValueError):
        return False


def _sources_from(path: Path, traced: _Traced, trace: AttTrace) -> tuple[dict[int, str], str | None]:
    """Return the source by row number, empty if the file has no lines for them, and a note on the file."""
    from rocm_perf_lab.toolchain.kernel_file import read_kernel_file
    from rocm_perf_lab.toolchain.source_lines import line_table

    architecture = trace.provenance.architecture
    try:
        code_objects = read_kernel_file(path, architecture=architecture) if architecture else read_kernel_file(path)
        for code_object in code_objects:
            moved = _moved(code_object, traced)
            if moved is None:
                continue
            source_of = line_table(code_object)
            found = {row.line: source for row in traced.rows if (source := source_of(row.address + moved)) is not None}
            if not found:
                continue
            if not _is_same_code(code_object, {row.address + moved: row for row in traced.rows}):
                return {}, f"{path.name} is of another build of the traced kernel: its source lines are not used"
            texts = {line: f"{source.file}:{source.line}" for line, source in found.items()}
            return texts, f"the decoded trace has no source lines: those of {path.name} are used"
    except LabError as error:
        return {}, f"{path.name} was ignored: {error.what}"
    return {}, None


def _moved(code_object: CodeObject, traced: _Traced) -> int | None:
    """Return the offset from traced addresses to those in the ELF file; None if the kernels are not those of the file.

    Decoders write addresses of the ELF file, but memory addresses if they did not know the code object.
    """
    entries = {kernel.symbol.removesuffix(_DESCRIPTOR): kernel.entry_address for kernel in code_object.kernels}
    moves = {
        entries[name] - label.address
        for label in traced.labels
        if (name := label.mangled_name.removesuffix(_DESCRIPTOR)) in entries
    }
    if len(moves) == 1:
        return moves.pop()
    return 0 if not traced.labels and traced.number else None


def _is_same_code(code_object: CodeObject, rows: Mapping[int, InstructionRow]) -> bool:
    """Return whether the kernel with most of the rows has their instructions; True if it cannot be disassembled."""
    from rocm_perf_lab.toolchain.disassembly import DisassemblyError, disassemble

    kernel = _kernel_with_most(code_object.kernels, rows)
    if kernel is None:
        return False
    try:
        listed = {line.address: _base(line.mnemonic) for line in disassemble(code_object, kernel.symbol)}
    except DisassemblyError:
        return True
    own = [(address, row) for address, row in rows.items() if _has(kernel, address)]
    equal = sum(listed.get(address) == _base(row.mnemonic) for address, row in own)
    return equal >= _LEAST_EQUAL * len(own)


def _kernel_with_most(kernels: Sequence[KernelMetadata], rows: Iterable[int]) -> KernelMetadata | None:
    """Return the kernel that contains most of the addresses; None if no kernel contains any."""
    ordered = sorted(kernels, key=lambda kernel: kernel.entry_address)
    entries = [kernel.entry_address for kernel in ordered]
    counts = [0] * len(ordered)
    for address in rows:
        place = bisect_right(entries, address) - 1
        if place >= 0 and _has(ordered[place], address):
            counts[place] += 1
    best = max(range(len(ordered)), key=lambda place: counts[place], default=None)
    return ordered[best] if best is not None and counts[best] else None


def _has(kernel: KernelMetadata, address: int) -> bool:
    return kernel.entry_address <= address < kernel.entry_address + kernel.code_bytes


def _base(mnemonic: str) -> str:
    return _ENCODING.sub("", mnemonic.lower())
