"""Source files that a code object records in its debug information: `recorded_unit(code_object, kernel)`.

Clang's `-gembed-source` stores whole files in the line table (DWARF 5), `-grecord-command-line` the command of the compiler.
"""

from __future__ import annotations

import io
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.source_lines import debug_information_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_PRODUCER_WORDS = 3
"""Words before the command in DW_AT_producer: `clang version 22.1.8`."""
_OLDEST_WITH_SOURCES = 5


@dataclass(frozen=True)
class RecordedUnit:
    """Translation unit of a kernel: absolute paths, command of the compiler if recorded, and embedded files by path."""

    source: Path
    directory: Path
    command: tuple[str, ...]
    embedded: Mapping[Path, str]


def recorded_unit(code_object: CodeObject, kernel: KernelMetadata) -> RecordedUnit | None:
    """Return the translation unit with the entry of a kernel; None without debug information.

    Raises:
        CodeObjectError: The debug information is damaged.
    """
    try:
        return next(_units(code_object.data, kernel.entry_address, kernel.entry_address + kernel.code_bytes), None)
    except debug_information_errors() as error:
        raise CodeObjectError(f"the debug information cannot be decoded: {error}", hint="Compile again.") from error


def _units(data: bytes, low: int, high: int) -> Iterator[RecordedUnit]:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(data))
    if elf.get_section_by_name(".debug_line") is None or elf.get_section_by_name(".debug_info") is None:
        return
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        states = (entry.state for entry in program.get_entries())
        if not any(state is not None and low <= state.address < high for state in states):
            continue
        top = unit.get_top_DIE().attributes
        directory = Path(_text(top, "DW_AT_comp_dir") or ".")
        name = _text(top, "DW_AT_name")
        producer = _text(top, "DW_AT_producer")
        yield RecordedUnit(
            source=_normal(directory / name),
            directory=directory,
            command=tuple(_words(producer)[_PRODUCER_WORDS:]),
            embedded=_embedded(program.header, directory) if program.header.version >= _OLDEST_WITH_SOURCES else {},
        )


def _text(attributes: Any, name: str) -> str:
    value = attributes[name].value if name in attributes else b""
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _embedded(header: Any, directory: Path) -> dict[Path, str]:
    """Return the files whose content is in the line table. The entries of the first file name are those of the whole table."""
    found = {}
    for entry in header.get("file_names", ()):
        content = entry.get("DW_LNCT_LLVM_source")
        if content:
            place = header.include_directory[entry.get("DW_LNCT_directory_index", 0)].decode(errors="replace")
            name = entry["DW_LNCT_path"].decode(errors="replace")
            found[_normal(directory / place / name)] = content.decode(errors="replace")
    return found


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
