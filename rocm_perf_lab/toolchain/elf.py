"""Reader of compiled code objects: the bytes of an HSACO, or of a bundle with one, become a :class:`CodeObject`.

The kernels come from the AMDGPU metadata note (code object versions 3 to 6: MessagePack); a hand-written object without
that note is read from its `.kd` kernel descriptors. Version 2 has other notes and descriptors, read by
:mod:`rocm_perf_lab.toolchain.version2`. Source: LLVM "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import (
    find_processor,
    generic_target_of_machine,
    processor_of_machine,
    processors,
    processors_of_generic_target,
    settings_of_target,
)
from rocm_perf_lab.toolchain.bundles import unpack_code_objects
from rocm_perf_lab.toolchain.code_object import CodeObject, CodeObjectError, KernelMetadata
from rocm_perf_lab.toolchain.demangle import demangle
from rocm_perf_lab.toolchain.descriptor import (
    DESCRIPTOR_BYTES,
    allocated_registers,
    parse_descriptor,
    uses_dynamic_stack,
    wavefront_size,
)
from rocm_perf_lab.toolchain.elf_file import ElfFile, parse_elf
from rocm_perf_lab.toolchain.metadata import KernelNote, read_metadata_note
from rocm_perf_lab.toolchain.target_id import OLDEST_GENERIC_VERSION, generic_version, target_id_of_flags
from rocm_perf_lab.toolchain.version2 import (
    KernelNoteV2,
    is_version_2,
    isa_of_notes,
    kernel_symbols,
    read_kernel_code,
    read_kernel_notes,
)

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import KernelDescriptor

_DESCRIPTOR_SUFFIX = ".kd"
_DEFAULT_MAX_WORKGROUP_SIZE = 1024
_MACH_MASK = 0xFF
_ARCHITECTURAL_VGPRS = 256
"""Most VGPRs that an instruction can name, AGPRs not included."""
_ET_REL = 1


def read_code_object(data: bytes, *, bundle_architecture: str = "gfx942") -> CodeObject:
    """Parse an HSACO, or the one code object for `bundle_architecture` in an offload bundle or HIP executable.

    Raises:
        CodeObjectError: The file is damaged, for another machine or without kernel descriptors, or has several code objects.
    """
    code_objects = unpack_code_objects(data, bundle_architecture)
    if len(code_objects) > 1:
        raise CodeObjectError(
            f"{len(code_objects)} code objects for {bundle_architecture}: one per translation unit",
            hint="Read them all with read_code_objects().",
        )
    return _parse(code_objects[0], bundle_architecture)


def read_code_objects(data: bytes, *, bundle_architecture: str = "gfx942") -> tuple[CodeObject, ...]:
    """Return all code objects for one architecture in a bundle or executable, in file order.

    Raises:
        CodeObjectError: The file is damaged, for another machine or without kernel descriptors.
    """
    return tuple(_parse(content, bundle_architecture) for content in unpack_code_objects(data, bundle_architecture))


def _parse(data: bytes, wanted_architecture: str) -> CodeObject:
    return code_object_of(parse_elf(data), wanted_architecture)


def code_object_of(elf: ElfFile, wanted_architecture: str) -> CodeObject:
    """Return the code object in an ELF file.

    Args:
        elf: Sections and symbols.
        wanted_architecture: Processor to select if the target is generic.

    Raises:
        CodeObjectError: The file is damaged, not linked, for another machine or without kernel descriptors.
    """
    if elf.kind == _ET_REL:
        raise CodeObjectError(
            "the code object is not linked: a relocatable object file",
            hint="Link it: ld.lld -shared -o kernel.hsaco kernel.o (or compile without -c).",
        )
    note = read_metadata_note(elf)
    of_version_2 = note is None and is_version_2(elf)
    isa = isa_of_notes(elf) if of_version_2 else None
    generic = _generic_target(elf)
    members = processors_of_generic_target(generic) if generic is not None else ()
    architecture = _member(members, wanted_architecture) or _architecture(elf, isa)
    named = generic or architecture
    target_id = str(target_id_of_flags(named, elf.flags, elf.abi_version, settings_of_target(named)))
    if of_version_2:
        target_id = isa if isa is not None and isa.startswith(f"{architecture}:") else architecture
        kernels = _kernels_of_version_2(elf, architecture)
    elif note is None:
        kernels = [_kernel_of_descriptor(elf, name, architecture) for name in _descriptor_symbols(elf)]
        if not kernels:
            raise CodeObjectError(
                "the code object has neither an AMDGPU metadata note nor a kernel descriptor (`.kd` symbol)",
                hint="Compile for amdgcn-amd-amdhsa; hand-written assembly needs an .amdhsa_kernel block.",
            )
    else:
        kernels = [_kernel_of_note(elf, kernel, architecture) for kernel in note.kernels]
        noted = {kernel.symbol for kernel in kernels}
        kernels += [_kernel_of_descriptor(elf, name, architecture) for name in _descriptor_symbols(elf) if name not in noted]
    return CodeObject(elf.data, architecture, target_id, tuple(sorted(kernels, key=lambda kernel: kernel.symbol)), members)


def _generic_target(elf: ElfFile) -> str | None:
    """Return the generic target that the ELF flags name, or None for a processor."""
    generic = generic_target_of_machine(elf.flags & _MACH_MASK)
    version = generic_version(elf.flags, elf.abi_version)
    if generic is not None and version < OLDEST_GENERIC_VERSION:
        raise CodeObjectError(
            f"code for {generic} of version {version}: GPUs run it from version {OLDEST_GENERIC_VERSION} on",
            hint="Compile it with -mcode-object-version=6.",
        )
    return generic


def _member(members: tuple[str, ...], wanted: str) -> str | None:
    """Return the wanted member of a generic target, or the first; None without members."""
    return wanted if wanted in members else next(iter(members), None)


def _architecture(elf: ElfFile, isa: str | None) -> str:
    """Return the processor that the ELF flags name, or the one of the notes (`isa`) if the flags name none."""
    machine = elf.flags & _MACH_MASK
    processor = processor_of_machine(machine)
    noted = isa.partition(":")[0] if isa is not None else ""
    if processor is None and noted:
        processor = find_processor(noted)
    if processor is None:
        raise CodeObjectError(
            f"unknown processor {noted} in the notes" if noted else f"unknown processor {machine:#x} in the ELF flags",
            hint=f"Known processors: {', '.join(processors())}.",
        )
    return processor.name


def _descriptor_symbols(elf: ElfFile) -> list[str]:
    return [name.removesuffix(_DESCRIPTOR_SUFFIX) for name in elf.symbols if name.endswith(_DESCRIPTOR_SUFFIX)]


def _kernel_of_note(elf: ElfFile, note: KernelNote, architecture: str) -> KernelMetadata:
    """Return the kernel of a metadata note; address and code size are read from the file."""
    kernel = _kernel_of_descriptor(elf, note.symbol.removesuffix(_DESCRIPTOR_SUFFIX), architecture)
    return replace(
        kernel,
        vgpr_count=note.vgpr_count,
        agpr_count=_agpr_count(note, kernel),
        sgpr_count=note.sgpr_count,
        vgpr_spill_count=note.vgpr_spill_count,
        sgpr_spill_count=note.sgpr_spill_count,
        lds_bytes=note.lds_bytes,
        scratch_bytes=note.scratch_bytes,
        kernarg_bytes=note.kernarg_bytes,
        kernarg_alignment=note.kernarg_alignment,
        wavefront_size=note.wavefront_size,
        max_flat_workgroup_size=note.max_flat_workgroup_size,
        required_workgroup_size=note.required_workgroup_size,
        uses_dynamic_stack=note.uses_dynamic_stack,
        arguments=tuple(argument.as_argument() for argument in note.arguments),
        language=note.language,
        has_metadata=True,
    )


def _agpr_count(note: KernelNote, described: KernelMetadata) -> int:
    """Return the AGPRs of a kernel. If the note lacks them, the descriptor divides a unified register file."""
    stated = note.agpr_count or 0
    architectural = described.vgpr_count - described.agpr_count
    if not described.agpr_count or (note.agpr_count is not None and note.vgpr_count - stated <= _ARCHITECTURAL_VGPRS):
        return stated
    return max(0, note.vgpr_count - architectural)


def _kernel_of_descriptor(elf: ElfFile, symbol: str, architecture: str) -> KernelMetadata:
    descriptor_address = _descriptor_address(elf, symbol)
    descriptor = parse_descriptor(elf.read(descriptor_address, DESCRIPTOR_BYTES))
    return _described_kernel(elf, symbol, descriptor_address, descriptor, architecture)


def _kernels_of_version_2(elf: ElfFile, architecture: str) -> list[KernelMetadata]:
    notes = {note.symbol: note for note in read_kernel_notes(elf)}
    symbols = dict.fromkeys([*notes, *kernel_symbols(elf)])
    if not symbols:
        raise CodeObjectError(
            "the code object of version 2 has neither metadata (a note of `AMD`, type 10) nor a kernel symbol",
            hint="Hand-written assembly needs .amdgpu_hsa_kernel and .amd_kernel_code_t.",
        )
    return [_kernel_of_version_2(elf, symbol, notes.get(symbol), architecture) for symbol in symbols]


def _kernel_of_version_2(elf: ElfFile, symbol: str, note: KernelNoteV2 | None, architecture: str) -> KernelMetadata:
    """Return a kernel from its amd_kernel_code_t; values of the note take precedence."""
    code = read_kernel_code(elf, symbol, architecture)
    kernel = _described_kernel(elf, symbol, elf.symbols[symbol].address, code.descriptor, architecture)
    kernel = replace(
        kernel,
        sgpr_count=code.sgpr_count or kernel.sgpr_count,
        vgpr_count=code.vgpr_count or kernel.vgpr_count,
        kernarg_alignment=code.kernarg_alignment,
    )
    return note.over(kernel) if note is not None else kernel


def _described_kernel(
    elf: ElfFile, symbol: str, descriptor_address: int, descriptor: KernelDescriptor, architecture: str
) -> KernelMetadata:
    """Return a kernel from its descriptor alone: allocated registers, without arguments and spill counts."""
    registers = allocated_registers(descriptor, architecture)
    entry_address = descriptor_address + descriptor.entry_offset
    return KernelMetadata(
        symbol=symbol,
        name=demangle(symbol),
        entry_address=entry_address,
        code_bytes=_code_bytes(elf, symbol, entry_address),
        descriptor_address=descriptor_address,
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
        max_flat_workgroup_size=_DEFAULT_MAX_WORKGROUP_SIZE,
        required_workgroup_size=None,
        uses_dynamic_stack=uses_dynamic_stack(descriptor),
        arguments=(),
        has_metadata=False,
    )


def _descriptor_address(elf: ElfFile, symbol: str) -> int:
    descriptor = elf.symbols.get(symbol + _DESCRIPTOR_SUFFIX)
    if descriptor is None:
        raise CodeObjectError(
            f"kernel {symbol} has no descriptor symbol {symbol}{_DESCRIPTOR_SUFFIX}",
            hint="Do not strip the dynamic symbol table of a code object.",
        )
    return descriptor.address


def _code_bytes(elf: ElfFile, symbol: str, entry_address: int) -> int:
    """Return the code size: that of the symbol, or for assembly without `.size` up to the next function, kernel or the end."""
    section = next(
        (s for s in elf.sections if s.is_code and s.is_loaded and s.address <= entry_address < s.address + s.size), None
    )
    if section is None:
        raise CodeObjectError(
            f"the entry of kernel {symbol} ({entry_address:#x}) lies outside the code",
            hint="The file is damaged: compile or copy it again.",
        )
    section_end = section.address + section.size
    code = elf.symbols.get(symbol)
    if code is not None and code.address <= entry_address < code.address + code.size:
        return min(code.address + code.size, section_end) - entry_address
    following = bisect_right(elf.starts, entry_address)
    later = elf.starts[following] if following < len(elf.starts) else section_end
    return min(later, section_end) - entry_address
