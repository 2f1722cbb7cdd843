"""Code of a kernel that an application launched: `find_code(block, descriptor, file) -> CodeImage`.

The runtime copies the segments of a code object to device memory, with headers, dynamic symbols and notes. The file also contains
all symbols and source lines; it is used if the driver observed its loading. Kernels of the runtime consist of a descriptor and
code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.image_elf import ELF_HEADER_BYTES, elf_of_image, header_of_image
from rocm_perf_lab.toolchain.code_object import CodeObjectError, KernelMetadata
from rocm_perf_lab.toolchain.descriptor import (
    DESCRIPTOR_BYTES,
    allocated_registers,
    parse_descriptor,
    uses_dynamic_stack,
    wavefront_size,
)
from rocm_perf_lab.toolchain.elf import code_object_of
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC, ElfFile, Section, parse_elf
from rocm_perf_lab.toolchain.version2 import KERNEL_CODE_BYTES, is_kernel_code, kernel_code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.runtime.image_elf import ImageHeader
    from rocm_perf_lab.toolchain.code_object import KernelDescriptor

_PAGE = 4096
_SEARCHED_BYTES = 256 << 20
"""Maximum distance in bytes from the descriptor at which the beginning of a code object is searched."""
_MOST_RAW_BYTES = 1 << 20
_PROGBITS, _CODE_FLAGS = 1, 6
_DESCRIPTOR_SUFFIX = ".kd"
_INSTRUCTION_BYTES = 4


class CodeImageError(LabError):
    """Memory that contains no kernel."""


@dataclass(frozen=True)
class DeviceBlock:
    """Block of device memory; `load(offset, size)` reads it, and returns fewer bytes at its end."""

    address: int
    size: int
    load: Callable[[int, int], bytes]

    @property
    def end(self) -> int:
        """First address after the block."""
        return self.address + self.size

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of the block.

        Raises:
            CodeImageError: They are not in the block, or cannot be read.
        """
        if not self.address <= address <= address + size <= self.end:
            raise CodeImageError(f"{size:,} bytes at {address:#x} are outside of the memory around a kernel")
        content = self.load(address - self.address, size)
        if len(content) != size:
            raise CodeImageError(f"{size:,} bytes at {address:#x} of device memory cannot be read")
        return content


@dataclass(frozen=True)
class CodeImage:
    """Code object in memory, or a descriptor with code; sections and symbols as in an ELF file."""

    elf: ElfFile
    load_address: int
    """Device address of address 0 of the code object."""
    descriptor_address: int
    """Address in the code object."""
    descriptor: bytes
    """Descriptor in memory: 64 bytes, or 256 of version 2."""
    is_file: bool = False
    """Whether the image is the file, with all its sections."""
    is_raw: bool = False
    """Whether the image is only a descriptor and code, without a code object."""

    def key(self, architecture: str) -> str:
        """Return a hash of everything on which the code of the kernel depends, except its address."""
        digest = hashlib.sha256(f"{architecture} {self.is_file} {self.is_raw} {self.descriptor_address}\0".encode())
        digest.update(self.descriptor)
        digest.update(self.elf.data)
        return digest.hexdigest()

    def describe(self, architecture: str) -> DescribedKernel:
        """Return the kernel with its metadata.

        Args:
            architecture: Processor that executes it.

        Raises:
            CodeObjectError: The code object is damaged.
        """
        kernels: tuple[KernelMetadata, ...] = ()
        if not self.is_raw:
            kernels = _kernels_of(self.elf, architecture)
        found = next((k for k in kernels if k.descriptor_address == self.descriptor_address), None)
        if found is None:
            found = _unnamed_kernel(self, architecture)
            kernels = (*kernels, found)
        return DescribedKernel(self, found, kernels, architecture)


@dataclass(frozen=True)
class DescribedKernel:
    """Kernel with its metadata, and the others of its code object."""

    image: CodeImage
    kernel: KernelMetadata
    kernels: tuple[KernelMetadata, ...]
    architecture: str

    def decode(self) -> Program:
        """Return the instructions of the kernel.

        Raises:
            EmulationError: Bytes that are certainly reached do not encode an instruction.
            CodeObjectError: Relocations are damaged.
        """
        from rocm_perf_lab.emulator.loader import stored_addresses
        from rocm_perf_lab.emulator.translation import decode_kernel

        elf = self.image.elf
        return decode_kernel(elf, stored_addresses(elf), self.kernels, self.kernel, self.architecture)


def find_code(block: DeviceBlock, descriptor: int, file: bytes = b"") -> CodeImage:
    """Return the code around a kernel descriptor in memory.

    Args:
        block: Device memory that contains the descriptor.
        descriptor: Device address of the descriptor.
        file: ELF file of the code object if known; ignored unless its code is the code in memory.

    Raises:
        CodeImageError: There is no kernel.
    """
    size = min(KERNEL_CODE_BYTES, block.end - descriptor)
    content = block.read(descriptor, max(size, DESCRIPTOR_BYTES))
    if not is_kernel_code(content):
        content = content[:DESCRIPTOR_BYTES]
    header = _header_before(block, descriptor)
    elf = _file_of(block, descriptor, header, file) if file else None
    if elf is not None:
        return CodeImage(elf[0], elf[1], descriptor - elf[1], content, is_file=True)
    if header is not None:
        try:
            return CodeImage(elf_of_image(block.read, header), header.address, descriptor - header.address, content)
        except (CodeImageError, CodeObjectError):
            pass  # Data that resembles a header: only the descriptor describes the kernel.
    return _raw(block, descriptor, content)


def _header_before(block: DeviceBlock, descriptor: int) -> ImageHeader | None:
    """Return the ELF header in memory whose segments contain the descriptor."""
    for address in _places_of_header(block, descriptor):
        if address + ELF_HEADER_BYTES > block.end or block.read(address, len(ELF_MAGIC)) != ELF_MAGIC:
            continue
        try:
            header = header_of_image(block.read, address)
        except (CodeImageError, CodeObjectError):
            continue
        if address <= descriptor < address + header.size and address + header.size <= block.end:
            return header
    return None


def _places_of_header(block: DeviceBlock, descriptor: int) -> Iterator[int]:
    yield block.address
    lowest = max(block.address, descriptor - _SEARCHED_BYTES)
    yield from range(descriptor - descriptor % _PAGE, lowest, -_PAGE)


def _file_of(block: DeviceBlock, descriptor: int, header: ImageHeader | None, file: bytes) -> tuple[ElfFile, int] | None:
    """Return the file and its load address if memory contains its code."""
    try:
        elf = parse_elf(file)
        places = [header.address] if header is not None else []
        ends = (_DESCRIPTOR_SUFFIX,)
        places += [descriptor - s.address for s in elf.symbols.values() if s.name.endswith(ends) or not header]
        for load_address in dict.fromkeys(places):
            if load_address % _PAGE == 0 and _is_loaded_at(block, elf, load_address):
                return elf, load_address
    except CodeObjectError:
        pass  # The file is damaged; memory contains all necessary data.
    return None


def _is_loaded_at(block: DeviceBlock, elf: ElfFile, load_address: int) -> bool:
    code = [s for s in elf.sections if s.is_code and s.is_loaded]
    for section in code:
        begin = load_address + section.address
        if not block.address <= begin <= begin + section.size <= block.end:
            return False
        if block.read(begin, section.size) != elf.content(section):
            return False
    return bool(code)


def _raw(block: DeviceBlock, descriptor: int, content: bytes) -> CodeImage:
    """Return an image of a descriptor and the code at its entry."""
    offset = _descriptor_of(content, "").entry_offset
    entry = descriptor + offset
    if entry % _INSTRUCTION_BYTES or not block.address <= entry < block.end or not offset:
        raise CodeImageError(
            f"there is no kernel descriptor at {descriptor:#x}: its entry would be at {entry:#x}",
            hint="The kernel object of the dispatch packet is wrong, or its memory was freed.",
        )
    base = min(descriptor, entry)
    code = block.read(entry, min(block.end - entry, _MOST_RAW_BYTES) // _INSTRUCTION_BYTES * _INSTRUCTION_BYTES)
    section = Section("code", _PROGBITS, _CODE_FLAGS, entry - base, 0, len(code), 0)
    elf = ElfFile(code, kind=3, machine=0, flags=0, abi_version=0, sections=(section,))
    return CodeImage(elf, base, descriptor - base, content, is_raw=True)


def _descriptor_of(content: bytes, architecture: str) -> KernelDescriptor:
    """Return the descriptor in memory; without an architecture, only its entry is valid."""
    if len(content) < KERNEL_CODE_BYTES:
        return parse_descriptor(content)
    described = kernel_code_of(content, "without a name", architecture).descriptor if architecture else None
    return described or parse_descriptor(content[:DESCRIPTOR_BYTES])


@lru_cache(maxsize=4)
def _kernels_of(elf: ElfFile, architecture: str) -> tuple[KernelMetadata, ...]:
    """Return the kernels of a code object; cached, because a code object may have hundreds that are requested in sequence."""
    return code_object_of(elf, architecture).kernels


def _unnamed_kernel(image: CodeImage, architecture: str) -> KernelMetadata:
    """Return a kernel without symbol and metadata, like those of runtimes for copying and filling memory."""
    descriptor = _descriptor_of(image.descriptor, architecture)
    registers = allocated_registers(descriptor, architecture)
    entry = image.descriptor_address + descriptor.entry_offset
    if not any(s.is_code and s.address <= entry < s.address + s.size for s in image.elf.sections):
        raise CodeImageError(f"the entry of a kernel ({entry:#x}) is outside of its code object")
    name = "kernel of the runtime" if image.is_raw else f"kernel at {image.descriptor_address:#x}"
    kernel = KernelMetadata(
        symbol=name,
        name=name,
        entry_address=entry,
        code_bytes=0,
        descriptor_address=image.descriptor_address,
        descriptor=descriptor,
        vgpr_count=registers.vgprs,
        agpr_count=registers.agprs,
        sgpr_count=registers.sgprs,
        vgpr_spill_count=0,
        sgpr_spill_count=0,
        lds_bytes=descriptor.lds_bytes,
        scratch_bytes=descriptor.scratch_bytes,
        kernarg_bytes=descriptor.kernarg_bytes,
        kernarg_alignment=8,
        wavefront_size=wavefront_size(descriptor),
        max_flat_workgroup_size=0,
        required_workgroup_size=None,
        uses_dynamic_stack=uses_dynamic_stack(descriptor),
        arguments=(),
        has_metadata=False,
    )
    code = image.elf.sections[0].size if image.is_raw else 0
    return replace(kernel, name=f"{name} with {code:,} bytes of code") if code else kernel
