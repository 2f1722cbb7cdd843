"""Source lines of instructions, from the DWARF line table of a code object (version 5 from clang, 4 from Triton).

An instruction of an inlined function of HIP, Triton or the compiler is attributed to the line of the user's source that called
the function.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from rocm_perf_lab.toolchain.code_object import CodeObject, CodeObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_TOOLCHAIN_DIRECTORIES = ("include/hip/", "lib/clang/", "libcxx/include/", "toolchain/headers/", "triton/language/")


class SourceLine(NamedTuple):
    """File as recorded by the compiler (relative to the directory of the source), and line number from 1."""

    file: str
    line: int


@dataclass(frozen=True)
class _Inlined:
    """Call that was inlined into the addresses [low, high)."""

    low: int
    high: int
    caller: SourceLine


@dataclass(frozen=True)
class _UnitLines:
    """Line rows and inlined calls of one compilation unit."""

    rows: list[tuple[int, SourceLine | None]]
    inlined: list[_Inlined]


def line_table(code_object: CodeObject) -> Callable[[int], SourceLine | None]:
    """Return a function from addresses to source lines; it returns None for code without a line or debug information.

    Raises:
        CodeObjectError: The debug information is damaged.
    """
    return _lookup(code_object.data)


def line_table_of_file(data: bytes) -> Callable[[int], SourceLine | None]:
    """Return the line table of an executable or library for any processor; see :func:`line_table`.

    Compilation units are read when an address in them is asked for: a program with the C++ library in it has many.

    Raises:
        CodeObjectError: The debug information is damaged.
    """
    return _FileLines(data).at


class _FileLines:
    """Line tables of the compilation units of one file."""

    def __init__(self, data: bytes) -> None:
        self._tables: dict[int, Callable[[int], SourceLine | None]] = {}
        with _damage_reported():
            self._dwarf, self._units = _dwarf_units(data)
            self._ranges = [tuple(_ranges(self._dwarf, unit, unit.get_top_DIE())) for unit in self._units]

    def at(self, address: int) -> SourceLine | None:
        """Return the line of an address."""
        for number, ranges in enumerate(self._ranges):
            if not ranges or any(low <= address < high for low, high in ranges):
                line = self._table(number)(address)
                if line is not None or ranges:
                    return line
        return None

    def _table(self, number: int) -> Callable[[int], SourceLine | None]:
        if number not in self._tables:
            try:
                with _damage_reported():
                    self._tables[number] = _table_of([_unit_lines(self._dwarf, self._units[number])])
            except CodeObjectError:
                self._tables[number] = lambda _: None
        return self._tables[number]


@lru_cache(maxsize=16)
def _lookup(data: bytes) -> Callable[[int], SourceLine | None]:
    """Return the line table of an object file; cached, because trials of one build request it repeatedly.

    Raises:
        CodeObjectError: The debug information is damaged.
    """
    with _damage_reported():
        dwarf, units = _dwarf_units(data)
        return _table_of([_unit_lines(dwarf, unit) for unit in units])


@contextmanager
def _damage_reported() -> Iterator[None]:
    try:
        yield
    except debug_information_errors() as error:
        raise CodeObjectError(
            f"the debug information cannot be decoded: {error}", hint="Compile again, or without line tables."
        ) from error


def _table_of(units: Sequence[_UnitLines]) -> Callable[[int], SourceLine | None]:
    """Return a function from addresses to the lines of some compilation units."""
    rows = sorted((row for unit in units for row in unit.rows), key=lambda row: row[0])
    innermost_first = sorted((call for unit in units for call in unit.inlined), key=lambda call: call.high - call.low)
    addresses = [address for address, _ in rows]

    def lookup(address: int) -> SourceLine | None:
        place = bisect_right(addresses, address) - 1
        line = rows[place][1] if place >= 0 else None
        if line is None or not _is_toolchain_file(line.file):
            return line
        callers = (call.caller for call in innermost_first if call.low <= address < call.high)
        return next((caller for caller in callers if not _is_toolchain_file(caller.file)), line)

    return lookup


def debug_information_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that pyelftools raises for damaged debug information, including those of failed lookups."""
    import zlib

    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.construct import ConstructError

    own = (ELFError, DWARFError, ConstructError, zlib.error)
    of_lookups = (LookupError, AttributeError, AssertionError, TypeError, ValueError)
    of_numbers = (ArithmeticError, MemoryError, RuntimeError)
    return *own, *of_lookups, *of_numbers


def _dwarf_units(data: bytes) -> tuple[Any, list[Any]]:
    """Return the debug information of an object file and its compilation units; none without line tables."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(data))
    if elf.get_section_by_name(".debug_line") is None or elf.get_section_by_name(".debug_info") is None:
        return None, []
    dwarf = elf.get_dwarf_info()
    return dwarf, list(dwarf.iter_CUs())


def _unit_lines(dwarf: Any, unit: Any) -> _UnitLines:
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return _UnitLines([], [])
    files = _file_names(program.header)
    return _UnitLines(list(_rows(program, files)), list(_inlined_calls(dwarf, unit, files)))


def _file_names(header: Any) -> list[str]:
    """Return file names by their number in the line table: from 0 in DWARF 5, from 1 in older versions."""
    counts_from_one = header.version < 5
    directories = [directory.decode(errors="replace") for directory in header.include_directory]
    directories = ["", *directories] if counts_from_one else directories
    names = [""] if counts_from_one else []
    for entry in header.file_entry:
        name = entry.name.decode(errors="replace")
        directory = directories[entry.dir_index] if entry.dir_index < len(directories) else ""
        names.append(str(PurePosixPath(directory) / name))
    return names


def _rows(program: Any, files: list[str]) -> Iterator[tuple[int, SourceLine | None]]:
    """Yield addresses with their line; None at the end of a sequence and for code without a line."""
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        known = not state.end_sequence and state.line and state.file < len(files)
        yield state.address, SourceLine(files[state.file], state.line) if known else None


def _inlined_calls(dwarf: Any, unit: Any, files: list[str]) -> Iterator[_Inlined]:
    for entry in unit.iter_DIEs():
        if entry.tag != "DW_TAG_inlined_subroutine" or "DW_AT_call_line" not in entry.attributes:
            continue
        file = entry.attributes["DW_AT_call_file"].value if "DW_AT_call_file" in entry.attributes else 0
        if file >= len(files):
            continue
        caller = SourceLine(files[file], entry.attributes["DW_AT_call_line"].value)
        for low, high in _ranges(dwarf, unit, entry):
            yield _Inlined(low, high, caller)


def _ranges(dwarf: Any, unit: Any, entry: Any) -> Iterator[tuple[int, int]]:
    attributes = entry.attributes
    if "DW_AT_ranges" in attributes:
        base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        start = base.value if base is not None else 0
        for part in dwarf.range_lists().get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit):
            if hasattr(part, "base_address"):
                start = part.base_address
            elif part.is_absolute:
                yield part.begin_offset, part.end_offset
            else:
                yield start + part.begin_offset, start + part.end_offset
    elif "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        yield low, high.value if high.form.startswith("DW_FORM_addr") else low + high.value


def _is_toolchain_file(file: str) -> bool:
    return any(directory in file for directory in _TOOLCHAIN_DIRECTORIES)
