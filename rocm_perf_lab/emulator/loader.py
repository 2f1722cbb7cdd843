"""Loads a code object into device memory: `load_code_object(memory, code_object) -> LoadedCodeObject`.

PT_LOAD segments are copied to one allocation and dynamic relocations are applied. Source: System V gABI and LLVM "User Guide
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
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

ALLOCATION_NAME = "code object"
_STT_OBJECT = 1

_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD = 1
_LARGEST_IMAGE_BYTES = 1 << 32
"""Code addresses its data by 32-bit offsets."""
_SHT_RELA, _SHT_REL, _SHT_DYNSYM, _SHT_RELR = 4, 9, 11, 19
_STB_WEAK = 2
_NO_RELOCATION, _RELATIVE64 = 0, 13
_ENCODINGS = {1: "low", 2: "high", 3: "64", 4: "low", 5: "64", 6: "low", 10: "low", 11: "high", _RELATIVE64: "64"}
"""R_AMDGPU_*: ABS32_LO, ABS32_HI, ABS64, REL32, REL64, ABS32, REL32_LO, REL32_HI, RELATIVE64."""
_RELATIVE_KINDS = frozenset({4, 5, 10, 11})
"""Relative to the relocated address."""


@dataclass(frozen=True)
class LoadedCodeObject:
    """Code object in device memory."""

    code_object: CodeObject
    allocation: Allocation
    memory: DeviceMemory

    @property
    def load_address(self) -> int:
        """Device address of address 0 of the code object."""
        return self.allocation.address

    @cached_property
    def elf(self) -> ElfFile:
        """Sections and symbols of the file."""
        return parse_elf(self.code_object.data)

    @cached_property
    def stored_addresses(self) -> tuple[int, ...]:
        """Addresses of the code object that its data contain: function pointers, jump tables."""
        return stored_addresses(self.elf)

    def kernel(self, symbol: str) -> KernelMetadata:
        """Return the kernel with a symbol.

        Raises:
            CodeObjectError: The code object has no such kernel.
        """
        for kernel in self.code_object.kernels:
            if kernel.symbol == symbol:
                return kernel
        known = ", ".join(kernel.symbol for kernel in self.code_object.kernels)
        raise CodeObjectError(f"no kernel {symbol!r} in the code object", hint=f"Its kernels are {known}.")

    def device_global(self, symbol: str) -> NDArray[np.uint8]:
        """Return the bytes of a device global variable, for reading and writing.

        Raises:
            CodeObjectError: The code object has no such variable.
        """
        found = self.elf.symbols.get(symbol)
        if found is None:
            raise CodeObjectError(
                f"no device global {symbol!r} in the code object", hint=f"Its variables: {', '.join(self.variables) or 'none'}."
            )
        return self.memory.view(self.allocation)[found.address : found.address + found.size]

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Symbols of the device globals, in order of their addresses."""
        found = [s for s in self.elf.symbols.values() if s.kind == _STT_OBJECT and s.size and not s.name.endswith(".kd")]
        return tuple(s.name for s in sorted(found, key=lambda s: s.address))

    def fill_global(self, symbol: str, content: bytes) -> None:
        """Set the initial value of a device global, as a host program does.

        Raises:
            CodeObjectError: The variable does not exist or has another size.
        """
        place = self.device_global(symbol)
        if len(content) != len(place):
            raise CodeObjectError(
                f"device global {symbol!r} has {len(place):,} bytes, but {len(content):,} were passed",
                where=f"kernel.variables.{symbol}",
                hint="Set its type and shape as declared in the source.",
            )
        place[:] = np.frombuffer(content, np.uint8)


def stored_addresses(elf: ElfFile) -> tuple[int, ...]:
    """Return the addresses of a code object that its data contain: function pointers, jump tables.

    Raises:
        CodeObjectError: The relocations are damaged or have an unknown form.
    """
    return tuple(sorted({r.target + r.addend for r in _relocations(elf) if r.target is not None}))


def load_code_object(memory: DeviceMemory, code_object: CodeObject, address: int | None = None) -> LoadedCodeObject:
    """Copy and relocate a code object, at load address `address` if given.

    Raises:
        CodeObjectError: Damaged headers, or an unknown relocation type.
        DeviceMemoryError: The address range is in use.
    """
    segments = _load_segments(code_object.data)
    if not segments:
        raise CodeObjectError("the code object has no segment to load", hint="Link it with lld.")
    allocation = memory.allocate(ALLOCATION_NAME, max(start + size for start, _, size in segments), address)
    image = memory.view(allocation)
    for start, content, _ in segments:
        image[start : start + len(content)] = np.frombuffer(content, dtype=np.uint8)
    loaded = LoadedCodeObject(code_object, allocation, memory)
    _relocate(loaded, image)
    return loaded


def _load_segments(data: bytes) -> list[tuple[int, bytes, int]]:
    """Return (address, content in the file, size in memory) of every PT_LOAD segment."""
    (table,) = struct.unpack_from("<Q", data, 32)
    entry_size, count = struct.unpack_from("<HH", data, 54)
    if count and (entry_size != _PROGRAM_HEADER.size or table + count * entry_size > len(data)):
        raise CodeObjectError("damaged program headers", hint="Compile or copy the code object again.")
    segments = []
    for start in range(table, table + count * entry_size, entry_size):
        kind, _, offset, address, _, file_bytes, memory_bytes, _ = _PROGRAM_HEADER.unpack_from(data, start)
        if kind != _PT_LOAD:
            continue
        if offset + file_bytes > len(data) or file_bytes > memory_bytes:
            raise CodeObjectError("a segment ends beyond the file", hint="Compile or copy the code object again.")
        if address + memory_bytes > _LARGEST_IMAGE_BYTES:
            raise CodeObjectError(
                f"a segment of {memory_bytes:,} bytes at {address:#x} exceeds the address range of a code object",
                hint="Compile or copy the code object again.",
            )
        segments.append((address, data[offset : offset + file_bytes], memory_bytes))
    return segments


def _relocate(loaded: LoadedCodeObject, image: NDArray[np.uint8]) -> None:
    for relocation in _relocations(loaded.elf):
        content = relocation.content(loaded.load_address)
        if relocation.place + len(content) > image.size:
            raise CodeObjectError(f"a relocation at {relocation.place:#x} is outside the code object")
        image[relocation.place : relocation.place + len(content)] = np.frombuffer(content, dtype=np.uint8)


@dataclass(frozen=True)
class _Relocation:
    """Relocation; `target` is an address of the code object, or None for an undefined weak symbol."""

    place: int
    kind: int
    target: int | None
    addend: int

    def content(self, load_address: int) -> bytes:
        value = self.addend + (load_address + self.target if self.target is not None else 0)
        if self.kind in _RELATIVE_KINDS:
            value -= load_address + self.place
        match _ENCODINGS.get(self.kind):
            case "64":
                return struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)
            case "low":
                return struct.pack("<I", value & 0xFFFF_FFFF)
            case "high":
                return struct.pack("<I", value >> 32 & 0xFFFF_FFFF)
        raise CodeObjectError(
            f"unknown relocation type {self.kind}", hint="Supported are ABS32, ABS64, REL32, REL64 and RELATIVE64."
        )


def _relocations(elf: ElfFile) -> Iterator[_Relocation]:
    dynamic_symbols = next((s for s in elf.sections if s.kind == _SHT_DYNSYM), None)
    symbols = elf.content(dynamic_symbols) if dynamic_symbols is not None else b""
    for section in elf.sections:
        if not section.is_loaded or section.kind not in (_SHT_RELA, _SHT_REL, _SHT_RELR):
            continue
        if section.kind != _SHT_RELA:
            raise CodeObjectError(
                f"the relocations of {section.name!r} have a form that AMD GPUs do not use",
                hint="Link the code object without packed relocations.",
            )
        content = elf.content(section)
        if len(content) % _RELOCATION.size:
            raise CodeObjectError(f"relocation table {section.name!r} is truncated", hint="Compile the code object again.")
        for place, info, addend in _RELOCATION.iter_unpack(content):
            kind, index = info & 0xFFFF_FFFF, info >> 32
            if kind != _NO_RELOCATION:
                yield _Relocation(place, kind, 0 if kind == _RELATIVE64 else _symbol_address(symbols, index), addend)


def _symbol_address(symbols: bytes, index: int) -> int | None:
    if (index + 1) * _SYMBOL.size > len(symbols):
        raise CodeObjectError(f"a relocation names symbol {index}, which does not exist")
    _, info, _, section, address, _ = _SYMBOL.unpack_from(symbols, index * _SYMBOL.size)
    if section != 0:
        return int(address)
    if info >> 4 == _STB_WEAK:
        return None
    raise CodeObjectError(
        "the code object uses an undefined symbol",
        hint="Define the variable or function in the same compilation; external device symbols are not linked.",
    )
