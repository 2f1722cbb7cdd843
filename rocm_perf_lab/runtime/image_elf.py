"""ELF structures of a code object whose segments were copied to memory: there are no section headers, only program headers.

All values are from an application's memory, so that every size is checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC, ElfFile, Section

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[int, int], bytes]
    """Returns bytes at a device address, or raises a `LabError`."""

ELF_HEADER_BYTES = 64

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<QQ")
_HASH = struct.Struct("<II")
_GNU_HASH = struct.Struct("<IIII")
_CLASS_64_LITTLE_ENDIAN = (2, 1)
_MACHINE = 224
_MOST_SEGMENTS, _MOST_DYNAMIC, _MOST_SYMBOLS = 64, 4096, 1 << 20
_LARGEST_IMAGE_BYTES = 1 << 32
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_PF_X, _PF_W = 1, 2
_SHT_PROGBITS, _SHT_STRTAB, _SHT_RELA, _SHT_NOTE, _SHT_DYNSYM = 1, 3, 4, 7, 11
_SHF_ALLOC, _SHF_EXECINSTR = 2, 4
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_STRSZ = 0, 4, 5, 6, 7, 8, 10
_DT_GNU_HASH = 0x6FFF_FEF5
_SYMBOL_BYTES = 24


@dataclass(frozen=True)
class Segment:
    """Program header; addresses are those of the code object."""

    kind: int
    flags: int
    address: int
    size: int
    """Number of bytes from the file."""
    memory_size: int


@dataclass(frozen=True)
class ImageHeader:
    """ELF header in memory."""

    address: int
    """Device address: the load address of the code object."""
    kind: int
    flags: int
    abi_version: int
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        """Number of bytes from the header to the end of the last segment."""
        return max((s.address + s.memory_size for s in self.segments if s.kind == _PT_LOAD), default=0)


def header_of_image(read: Read, address: int) -> ImageHeader:
    """Read the ELF header and the program headers at a device address.

    Raises:
        CodeObjectError: They are not those of a code object.
        LabError: `read` failed.
    """
    identity, kind, machine, _, _, table, _, flags, _, entry_bytes, count, *_ = _HEADER.unpack(read(address, _HEADER.size))
    is_known = identity.startswith(ELF_MAGIC) and (identity[4], identity[5]) == _CLASS_64_LITTLE_ENDIAN and machine == _MACHINE
    if not is_known or entry_bytes != _SEGMENT.size or not 0 < count <= _MOST_SEGMENTS or table >= _LARGEST_IMAGE_BYTES:
        raise CodeObjectError("no header of a code object")
    segments = tuple(
        Segment(kind, flags, place, size, memory_size)
        for kind, flags, _, place, _, size, memory_size, _ in _SEGMENT.iter_unpack(read(address + table, count * _SEGMENT.size))
    )
    header = ImageHeader(address, kind, flags, identity[8], segments)
    if not 0 < header.size <= _LARGEST_IMAGE_BYTES or any(s.size > s.memory_size for s in segments if s.kind == _PT_LOAD):
        raise CodeObjectError("the segments of a code object in memory are damaged")
    return header


def elf_of_image(read: Read, header: ImageHeader) -> ElfFile:
    """Return code, constants, dynamic symbols, relocations and notes of a code object in memory as sections.

    Data that the application may change is omitted.

    Raises:
        CodeObjectError: Headers or tables are damaged.
        LabError: `read` failed.
    """
    return _Packer(read, header).pack()


class _Packer:
    """Concatenation of an image's parts, with a section for each."""

    def __init__(self, read: Read, header: ImageHeader) -> None:
        self._read = read
        self._header = header
        self._data = bytearray()
        self._sections = [Section("", 0, 0, 0, 0, 0, 0)]

    def pack(self) -> ElfFile:
        for segment in self._header.segments:
            if segment.kind == _PT_LOAD and not segment.flags & _PF_W:
                flags = _SHF_ALLOC | (_SHF_EXECINSTR if segment.flags & _PF_X else 0)
                self._add("text" if segment.flags & _PF_X else "constants", _SHT_PROGBITS, flags, segment.address, segment.size)
        for segment in self._header.segments:
            if segment.kind == _PT_NOTE:
                self._add("notes", _SHT_NOTE, _SHF_ALLOC, segment.address, segment.size)
            elif segment.kind == _PT_DYNAMIC:
                self._add_dynamic(self._dynamic(segment))
        header = self._header
        return ElfFile(bytes(self._data), header.kind, _MACHINE, header.flags, header.abi_version, tuple(self._sections))

    def _add(self, name: str, kind: int, flags: int, address: int, size: int, link: int = 0) -> None:
        self._sections.append(Section(name, kind, flags, address, len(self._data), size, link))
        self._data += self._at(address, size)

    def _at(self, address: int, size: int) -> bytes:
        if address + size > self._header.size:
            raise CodeObjectError(f"a table at {address:#x} is outside of the code object in memory")
        return self._read(self._header.address + address, size)

    def _dynamic(self, segment: Segment) -> dict[int, int]:
        size = min(segment.memory_size, _MOST_DYNAMIC * _DYNAMIC.size) // _DYNAMIC.size * _DYNAMIC.size
        found: dict[int, int] = {}
        for tag, value in _DYNAMIC.iter_unpack(self._at(segment.address, size)):
            if tag == _DT_NULL:
                break
            found.setdefault(tag, value)
        return found

    def _add_dynamic(self, dynamic: dict[int, int]) -> None:
        if _DT_STRTAB in dynamic and _DT_SYMTAB in dynamic:
            self._add("names", _SHT_STRTAB, _SHF_ALLOC, dynamic[_DT_STRTAB], dynamic.get(_DT_STRSZ, 0))
            size = _SYMBOL_BYTES * self._symbol_count(dynamic)
            self._add("symbols", _SHT_DYNSYM, _SHF_ALLOC, dynamic[_DT_SYMTAB], size, len(self._sections) - 1)
        if dynamic.get(_DT_RELASZ):
            self._add("relocations", _SHT_RELA, _SHF_ALLOC, dynamic.get(_DT_RELA, 0), dynamic[_DT_RELASZ])

    def _symbol_count(self, dynamic: dict[int, int]) -> int:
        """Return the number of dynamic symbols, which is only known from their hash tables."""
        if _DT_HASH in dynamic:
            count: int = _HASH.unpack(self._at(dynamic[_DT_HASH], _HASH.size))[1]
        elif _DT_GNU_HASH in dynamic:
            count = self._count_of_gnu_hash(dynamic[_DT_GNU_HASH])
        else:
            count = max(0, dynamic[_DT_STRTAB] - dynamic[_DT_SYMTAB]) // _SYMBOL_BYTES
        if count > _MOST_SYMBOLS:
            raise CodeObjectError(f"the code object in memory has too many symbols ({count:,})")
        return count

    def _count_of_gnu_hash(self, table: int) -> int:
        buckets, first, bloom_words, _ = _GNU_HASH.unpack(self._at(table, _GNU_HASH.size))
        at_buckets = table + _GNU_HASH.size + 8 * bloom_words
        numbers = struct.unpack(f"<{buckets}I", self._at(at_buckets, 4 * buckets)) if buckets <= _MOST_SYMBOLS else (0,)
        last = max(numbers, default=0)
        if last < first:
            return int(first)
        while last < _MOST_SYMBOLS:
            (chain,) = struct.unpack("<I", self._at(at_buckets + 4 * buckets + 4 * (last - first), 4))
            last += 1
            if chain & 1:
                break
        return int(last)
