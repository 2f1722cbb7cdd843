"""Puts a code object into device memory: `load_code_object(memory, code_object) -> LoadedCodeObject`.

PT_LOAD segments are copied to one allocation, dynamic relocations applied. Source: System V gABI and LLVM "User Guide
for AMDGPU Backend", section Relocation Records.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf_file import ElfFile, parse_elf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

ALLOCATION_NAME = "code object"

_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD = 1
_LARGEST_IMAGE_BYTES = 1 << 32
"""Code reaches its data by offsets of 32 bits."""
_SHT_RELA, _SHT_DYNSYM = 4, 11
_ABS32_LO, _ABS32_HI, _ABS64, _ABS32, _RELATIVE64 = 1, 2, 3, 6, 13
_LOW_WORD_KINDS, _ADDRESS_KINDS = (_ABS32_LO, _ABS32), (_ABS64, _RELATIVE64)


@dataclass(frozen=True)
class LoadedCodeObject:
    """A code object in device memory. `load_address` is where its address 0 lies."""

    code_object: CodeObject
    allocation: Allocation
    memory: DeviceMemory

    @property
    def load_address(self) -> int:
        """What to add to an address of the code object to get a device address."""
        return self.allocation.address

    @cached_property
    def elf(self) -> ElfFile:
        """Sections and symbols of the file."""
        return parse_elf(self.code_object.data)

    def kernel(self, symbol: str) -> KernelMetadata:
        """The kernel of that symbol.

        Raises:
            CodeObjectError: There is none.
        """
        for kernel in self.code_object.kernels:
            if kernel.symbol == symbol:
                return kernel
        known = ", ".join(kernel.symbol for kernel in self.code_object.kernels)
        raise CodeObjectError(f"no kernel {symbol!r} in the code object", remedy=f"It has: {known}.")

    def device_global(self, symbol: str) -> NDArray[np.uint8]:
        """The bytes of a device global variable, for reading and writing.

        Raises:
            CodeObjectError: No such symbol.
        """
        found = self.elf.symbols.get(symbol)
        if found is None:
            raise CodeObjectError(f"no device global {symbol!r} in the code object")
        return self.memory.view(self.allocation)[found.address : found.address + found.size]


def load_code_object(memory: DeviceMemory, code_object: CodeObject) -> LoadedCodeObject:
    """Copy and relocate.

    Raises:
        CodeObjectError: Damaged headers, or a relocation that the lab does not know.
    """
    segments = _load_segments(code_object.data)
    if not segments:
        raise CodeObjectError("the code object has nothing to load", remedy="Link it with lld.")
    allocation = memory.allocate(ALLOCATION_NAME, max(address + size for address, _, size in segments))
    image = memory.view(allocation)
    for address, content, _ in segments:
        image[address : address + len(content)] = np.frombuffer(content, dtype=np.uint8)
    loaded = LoadedCodeObject(code_object, allocation, memory)
    _relocate(loaded, image)
    return loaded


def _load_segments(data: bytes) -> list[tuple[int, bytes, int]]:
    """(address, content in the file, size in memory) of every PT_LOAD segment."""
    (table,) = struct.unpack_from("<Q", data, 32)
    entry_size, count = struct.unpack_from("<HH", data, 54)
    if count and (entry_size != _PROGRAM_HEADER.size or table + count * entry_size > len(data)):
        raise CodeObjectError("damaged program headers", remedy="Compile or copy the code object again.")
    segments = []
    for start in range(table, table + count * entry_size, entry_size):
        kind, _, offset, address, _, file_bytes, memory_bytes, _ = _PROGRAM_HEADER.unpack_from(data, start)
        if kind != _PT_LOAD:
            continue
        if offset + file_bytes > len(data) or file_bytes > memory_bytes:
            raise CodeObjectError("a segment ends beyond the file", remedy="Compile or copy the code object again.")
        if address + memory_bytes > _LARGEST_IMAGE_BYTES:
            raise CodeObjectError(
                f"a segment of {memory_bytes:,} bytes at {address:#x} is more than a code object can address",
                remedy="Compile or copy the code object again.",
            )
        segments.append((address, data[offset : offset + file_bytes], memory_bytes))
    return segments


def _relocate(loaded: LoadedCodeObject, image: NDArray[np.uint8]) -> None:
    dynamic_symbols = next((s for s in loaded.elf.sections if s.kind == _SHT_DYNSYM), None)
    symbols = loaded.elf.content(dynamic_symbols) if dynamic_symbols is not None else b""
    for section in loaded.elf.sections:
        if section.kind != _SHT_RELA or not section.is_loaded:
            continue
        content = loaded.elf.content(section)
        if len(content) % _RELOCATION.size:
            raise CodeObjectError(f"relocation table {section.name!r} is cut short", remedy="Compile the code object again.")
        for offset, info, addend in _RELOCATION.iter_unpack(content):
            kind, index = info & 0xFFFF_FFFF, info >> 32
            value = loaded.load_address + addend + (_symbol_address(symbols, index) if kind != _RELATIVE64 else 0)
            encoded = _encoded(kind, value)
            if offset + len(encoded) > image.size:
                raise CodeObjectError(f"a relocation at {offset:#x} lies outside the code object")
            image[offset : offset + len(encoded)] = np.frombuffer(encoded, dtype=np.uint8)


def _symbol_address(symbols: bytes, index: int) -> int:
    if (index + 1) * _SYMBOL.size > len(symbols):
        raise CodeObjectError(f"a relocation names symbol {index}, which does not exist")
    _, _, _, section, address, _ = _SYMBOL.unpack_from(symbols, index * _SYMBOL.size)
    if section == 0:
        raise CodeObjectError(
            "the code object uses a symbol that it does not define",
            remedy="Define the variable or function in the same compilation; external device symbols are not linked.",
        )
    return int(address)


def _encoded(kind: int, value: int) -> bytes:
    if kind in _ADDRESS_KINDS:
        return struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)
    if kind in _LOW_WORD_KINDS:
        return struct.pack("<I", value & 0xFFFF_FFFF)
    if kind == _ABS32_HI:
        return struct.pack("<I", value >> 32 & 0xFFFF_FFFF)
    raise CodeObjectError(f"unknown relocation type {kind}", remedy="The lab knows ABS32, ABS64 and RELATIVE64.")
