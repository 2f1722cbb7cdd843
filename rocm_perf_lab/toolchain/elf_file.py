"""Reader of the ELF64 structures that a code object needs, with bounds checks for untrusted files.

Every damaged file raises a :class:`CodeObjectError`; general ELF libraries raise arbitrary exceptions. Layout: System V
gABI, ELF-64.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.code_object import CodeObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator

ELF_MAGIC = b"\x7fELF"

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_CLASS_64_LITTLE_ENDIAN = (2, 1)
_SHT_SYMTAB, _SHT_NOTE, _SHT_NOBITS, _SHT_DYNSYM = 2, 7, 8, 11
_SHF_ALLOC, _SHF_EXECINSTR = 2, 4
_SHN_UNDEF = 0
_STT_NOTYPE = 0


@dataclass(frozen=True)
class Section:
    """One section header; `address` is its virtual address, `offset` its position in the file."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int

    @property
    def is_code(self) -> bool:
        """True if the section contains instructions."""
        return bool(self.flags & _SHF_EXECINSTR)

    @property
    def is_loaded(self) -> bool:
        """True if the section has bytes in the file that are mapped at its address."""
        return bool(self.flags & _SHF_ALLOC) and self.kind != _SHT_NOBITS


@dataclass(frozen=True)
class Symbol:
    """One defined symbol; `kind` is its STT_* type."""

    name: str
    kind: int
    address: int
    size: int


@dataclass(frozen=True)
class Note:
    """One note record; `kind` is a number defined by the vendor `owner`."""

    owner: str
    kind: int
    content: bytes


@dataclass(frozen=True)
class ElfFile:
    """A 64-bit little-endian ELF file."""

    data: bytes
    kind: int
    machine: int
    flags: int
    abi_version: int
    sections: tuple[Section, ...]

    @cached_property
    def symbols(self) -> dict[str, Symbol]:
        """Defined symbols by name; the full symbol table takes precedence over the dynamic one."""
        tables = sorted(
            (section for section in self.sections if section.kind in (_SHT_SYMTAB, _SHT_DYNSYM)),
            key=lambda section: section.kind == _SHT_SYMTAB,
        )
        return {symbol.name: symbol for table in tables for symbol in self._symbols_of(table)}

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Sorted addresses of functions, kernels and objects; not of labels of assembly, which have neither type nor size."""
        return tuple(
            sorted(
                symbol.address
                for symbol in self.symbols.values()
                if symbol.kind != _STT_NOTYPE or symbol.size or f"{symbol.name}.kd" in self.symbols
            )
        )

    @property
    def notes(self) -> Iterator[Note]:
        """The records of all note sections."""
        for section in self.sections:
            if section.kind == _SHT_NOTE:
                yield from _notes_in(self.content(section))

    def section(self, name: str) -> Section | None:
        """Return the first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section in the file."""
        return _slice(self.data, section.offset, section.size, f"section {section.name!r}")

    def view(self, section: Section) -> memoryview:
        """Return the bytes of a section without a copy.

        Raises:
            CodeObjectError: The file ends inside the section.
        """
        _require_bytes(self.data, section.offset, section.size, f"section {section.name!r}")
        return memoryview(self.data)[section.offset : section.offset + section.size]

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at a virtual address.

        Raises:
            CodeObjectError: No section contains these bytes.
        """
        for section in self.sections:
            start = address - section.address
            if section.is_loaded and start >= 0 and start + size <= section.size:
                return _slice(self.data, section.offset + start, size, f"address {address:#x}")
        raise CodeObjectError(f"no section contains the {size} bytes at address {address:#x}", hint=_REBUILD)

    def _symbols_of(self, table: Section) -> Iterator[Symbol]:
        if table.link >= len(self.sections):
            raise CodeObjectError(f"symbol table {table.name!r} names no string table", hint=_REBUILD)
        names = self.content(self.sections[table.link])
        content = self.content(table)
        for start in range(0, len(content) - _SYMBOL.size + 1, _SYMBOL.size):
            name, info, _, section_index, address, size = _SYMBOL.unpack_from(content, start)
            if name and section_index != _SHN_UNDEF:
                yield Symbol(_string(names, name), info & 0xF, address, size)


def parse_elf(data: bytes) -> ElfFile:
    """Read the ELF header and the section headers.

    Raises:
        CodeObjectError: The file is not ELF64 little-endian, or is truncated.
    """
    if not data.startswith(ELF_MAGIC):
        raise CodeObjectError("these bytes are not an ELF file", hint="Pass a code object (.hsaco) or a bundle.")
    header = _HEADER.unpack(_slice(data, 0, _HEADER.size, "ELF header"))
    identity, kind, machine, section_offset, flags = header[0], header[1], header[2], header[6], header[7]
    section_entry_size, section_count, names_index = header[11:14]
    if (identity[4], identity[5]) != _CLASS_64_LITTLE_ENDIAN:
        raise CodeObjectError("the ELF file is not 64-bit little-endian", hint=_REBUILD)
    if section_count and section_entry_size != _SECTION.size:
        raise CodeObjectError(f"section headers have {section_entry_size} bytes, not {_SECTION.size}", hint=_REBUILD)
    table = _slice(data, section_offset, section_count * _SECTION.size, "section header table")
    raw = list(_SECTION.iter_unpack(table))
    if raw and names_index >= len(raw):
        raise CodeObjectError("the ELF header names no section name table", hint=_REBUILD)
    names = _slice(data, raw[names_index][4], raw[names_index][5], "section name table") if raw else b""
    sections = tuple(
        Section(_string(names, name), kind, section_flags, address, offset, size, link)
        for name, kind, section_flags, address, offset, size, link, *_ in raw
    )
    return ElfFile(data, kind, machine, flags, abi_version=identity[8], sections=sections)


_REBUILD = "The file is damaged or truncated: compile or copy it again."


def _notes_in(content: bytes) -> Iterator[Note]:
    start = 0
    while start + _NOTE.size <= len(content):
        name_size, content_size, kind = _NOTE.unpack_from(content, start)
        name_start = start + _NOTE.size
        content_start = name_start + _aligned(name_size)
        owner = _slice(content, name_start, name_size, "note name").rstrip(b"\0").decode("latin-1")
        yield Note(owner, kind, _slice(content, content_start, content_size, f"note of {owner}"))
        start = content_start + _aligned(content_size)


def _aligned(size: int) -> int:
    return (size + 3) & ~3


def _slice(data: bytes, offset: int, size: int, what: str) -> bytes:
    _require_bytes(data, offset, size, what)
    return data[offset : offset + size]


def _require_bytes(data: bytes, offset: int, size: int, what: str) -> None:
    if offset + size > len(data):
        raise CodeObjectError(
            f"the file ends inside the {what}: {offset + size} bytes needed, {len(data)} present", hint=_REBUILD
        )


def _string(table: bytes, start: int) -> str:
    end = table.find(b"\0", start)
    if end < 0:
        raise CodeObjectError(f"a name is outside its string table (offset {start})", hint=_REBUILD)
    return table[start:end].decode("utf-8", errors="replace")
