"""Code objects of version 2 (ROCm 3 and older): notes of owner `AMD`, metadata in YAML, and amd_kernel_code_t before the code.

Notes, processor and kernel descriptors are converted to the form of later versions. Sources: LLVM "User Guide for AMDGPU
Backend", Code Object V2 Note Records and Code Object V2 Metadata; AMDKernelCodeT.h of LLVM 16 and amd_hsa_kernel_code.h of ROCr
for the 256 bytes of amd_kernel_code_t, which begin at the kernel's symbol (of type STT_AMDGPU_HSA_KERNEL).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from rocm_perf_lab.arch.registry import architecture_name, nearest_processor, processor_alias
from rocm_perf_lab.toolchain.code_object import CodeObjectError, KernelArgument, KernelDescriptor, KernelMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.toolchain.elf_file import ElfFile

KERNEL_CODE_BYTES = 256
STT_AMDGPU_HSA_KERNEL = 10

_OWNER = "AMD"
_CODE_OBJECT_VERSION, _ISA_VERSION, _METADATA, _ISA_NAME = 1, 3, 10, 11
_ISA = struct.Struct("<HHIII")
"""Sizes of the vendor and architecture names, then major, minor and stepping; the names follow."""
_KERNEL_CODE = struct.Struct("<I12xq24xIIIIIIQ4xHH12xB2xB24x128x")
_SUPPORTED_KERNEL_CODE = 1
_NEWEST_KERNEL_CODE_MINOR = 2
_MACHINE_KIND = 1
"""AMD GPU."""
_GENERATIONS = range(7, 13)
"""Major numbers of processors."""
_SAME_PROPERTIES = 0x7FF
"""Bits 0 to 10: user SGPRs, workgroup counts (reserved in later versions) and wave32."""
_DYNAMIC_STACK, _DYNAMIC_STACK_V2 = 1 << 11, 1 << 20
_WAVEFRONT_SIZE_32 = 1 << 10
_LARGEST_ALIGNMENT = 12
_REBUILD = "The file is damaged: compile or copy it again."


@dataclass(frozen=True)
class KernelCode:
    """An amd_kernel_code_t: the fields of a descriptor, and register counts that later versions keep in the metadata.

    A count is 0 if hand-written assembly omits it.
    """

    descriptor: KernelDescriptor
    sgpr_count: int
    vgpr_count: int
    kernarg_alignment: int


def _snake_case(name: object) -> object:
    """Return `HiddenGlobalOffsetX` in the spelling of version 3."""
    if not isinstance(name, str):
        return name
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().replace("multi_grid", "multigrid")


_SnakeCase = Annotated[str, BeforeValidator(_snake_case)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _ArgumentV2(_Record):
    name: str = Field("", alias="Name")
    size: NonNegativeInt = Field(alias="Size")
    alignment: PositiveInt = Field(alias="Align")
    value_kind: _SnakeCase = Field(alias="ValueKind")
    type_name: str = Field("", alias="TypeName")
    address_space: _SnakeCase = Field("", alias="AddrSpaceQual")
    access: _SnakeCase = Field("", alias="AccQual")


class _AttributesV2(_Record):
    required_workgroup_size: tuple[int, int, int] | None = Field(None, alias="ReqdWorkGroupSize")


class _CodePropertiesV2(_Record):
    """Properties of a kernel; 0 if the note omits a value."""

    kernarg_bytes: NonNegativeInt = Field(0, alias="KernargSegmentSize")
    kernarg_alignment: NonNegativeInt = Field(0, alias="KernargSegmentAlign")
    lds_bytes: NonNegativeInt = Field(0, alias="GroupSegmentFixedSize")
    scratch_bytes: NonNegativeInt = Field(0, alias="PrivateSegmentFixedSize")
    wavefront_size: NonNegativeInt = Field(0, alias="WavefrontSize")
    sgpr_count: NonNegativeInt = Field(0, alias="NumSGPRs")
    vgpr_count: NonNegativeInt = Field(0, alias="NumVGPRs")
    sgpr_spill_count: NonNegativeInt = Field(0, alias="NumSpilledSGPRs")
    vgpr_spill_count: NonNegativeInt = Field(0, alias="NumSpilledVGPRs")
    max_flat_workgroup_size: NonNegativeInt = Field(0, alias="MaxFlatWorkGroupSize")
    uses_dynamic_stack: bool = Field(False, alias="IsDynamicCallStack")


class KernelNoteV2(_Record):
    """One entry of `Kernels`."""

    name: str = Field(alias="Name")
    symbol_name: str = Field("", alias="SymbolName")
    attributes: _AttributesV2 = Field(_AttributesV2.model_validate({}), alias="Attrs")
    properties: _CodePropertiesV2 = Field(_CodePropertiesV2.model_validate({}), alias="CodeProps")
    argument_notes: tuple[_ArgumentV2, ...] = Field((), alias="Args")

    @property
    def symbol(self) -> str:
        """Name of the ELF symbol: `SymbolName` is `NAME@kd`."""
        return (self.symbol_name or self.name).removesuffix("@kd")

    def over(self, kernel: KernelMetadata) -> KernelMetadata:
        """Return `kernel`, which comes from the amd_kernel_code_t, with its values replaced by those of the note."""
        noted = self.properties
        return replace(
            kernel,
            sgpr_count=noted.sgpr_count or kernel.sgpr_count,
            vgpr_count=noted.vgpr_count or kernel.vgpr_count,
            sgpr_spill_count=noted.sgpr_spill_count,
            vgpr_spill_count=noted.vgpr_spill_count,
            lds_bytes=noted.lds_bytes or kernel.lds_bytes,
            scratch_bytes=noted.scratch_bytes or kernel.scratch_bytes,
            kernarg_bytes=noted.kernarg_bytes or kernel.kernarg_bytes,
            kernarg_alignment=noted.kernarg_alignment or kernel.kernarg_alignment,
            wavefront_size=noted.wavefront_size or kernel.wavefront_size,
            max_flat_workgroup_size=noted.max_flat_workgroup_size or kernel.max_flat_workgroup_size,
            required_workgroup_size=self.attributes.required_workgroup_size,
            uses_dynamic_stack=noted.uses_dynamic_stack or kernel.uses_dynamic_stack,
            arguments=self.arguments,
            has_metadata=True,
        )

    @property
    def arguments(self) -> tuple[KernelArgument, ...]:
        """Arguments with their offsets, which the note omits: each follows the previous one at its alignment."""
        return tuple(self._placed_arguments())

    def _placed_arguments(self) -> Iterator[KernelArgument]:
        end = 0
        for note in self.argument_notes:
            offset = -(-end // note.alignment) * note.alignment
            end = offset + note.size
            yield KernelArgument(
                name=note.name,
                offset=offset,
                size=note.size,
                value_kind=note.value_kind,
                type_name=note.type_name,
                address_space=note.address_space,
                access="" if note.access == "default" else note.access,
            )


class _MetadataV2(_Record):
    kernels: tuple[KernelNoteV2, ...] = Field((), alias="Kernels")


def is_version_2(elf: ElfFile) -> bool:
    """Return whether an object without a note of owner `AMDGPU` has version 2, by its content: old linkers write ABI 0."""
    kinds = {note.kind for note in elf.notes if note.owner == _OWNER}
    return bool(kinds & {_CODE_OBJECT_VERSION, _ISA_VERSION, _METADATA}) or bool(kernel_symbols(elf))


def kernel_symbols(elf: ElfFile) -> list[str]:
    """Return the symbols of all kernels, including those without metadata."""
    return [symbol.name for symbol in elf.symbols.values() if symbol.kind == STT_AMDGPU_HSA_KERNEL]


def isa_of_notes(elf: ElfFile) -> str | None:
    """Return the processor in the notes, for objects without it in the ELF flags (before LLVM 7): `gfx900`, `gfx900:xnack+`."""
    notes = {note.kind: note.content for note in elf.notes if note.owner == _OWNER}
    named = re.search(rb"(gfx[0-9a-f]+)((?:\+[a-z-]+)*)", notes.get(_ISA_NAME, b""))
    if named is not None:
        return named[1].decode() + (":xnack+" if b"+xnack" in named[2] else "")
    isa = notes.get(_ISA_VERSION, b"")
    if len(isa) < _ISA.size:
        return None
    _, _, major, minor, stepping = _ISA.unpack_from(isa)
    name = architecture_name(major * 10000 + minor * 100 + stepping)
    processor = processor_alias(name)
    return f"{processor}:xnack+" if processor else name


def read_kernel_notes(elf: ElfFile) -> tuple[KernelNoteV2, ...]:
    """Return the metadata of all kernels; empty if the object has no such note.

    Raises:
        CodeObjectError: The note cannot be decoded.
    """
    import yaml

    content = next((note.content for note in elf.notes if (note.owner, note.kind) == (_OWNER, _METADATA)), None)
    if content is None:
        return ()
    try:
        # BaseLoader keeps scalars as text: an argument may be called `no` or `1e3`.
        document = yaml.load(content.rstrip(b"\0").decode(), Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise CodeObjectError(f"the metadata note of version 2 is not YAML: {reason}", hint=_REBUILD) from error
    try:
        return _MetadataV2.model_validate(document).kernels
    except ValidationError as error:
        first = error.errors()[0]
        key = " ".join(str(part) for part in first["loc"])
        raise CodeObjectError(
            f"the metadata note of version 2 is invalid at {key or 'the top level'}: {first['msg']}", hint=_REBUILD
        ) from error


def read_kernel_code(elf: ElfFile, symbol: str, architecture: str) -> KernelCode:
    """Return the amd_kernel_code_t at the symbol of a kernel.

    Raises:
        CodeObjectError: The symbol does not exist, or there is no complete amd_kernel_code_t of version 1 at its address.
    """
    place = elf.symbols.get(symbol)
    if place is None:
        raise CodeObjectError(
            f"kernel {symbol} of the metadata has no symbol",
            hint="Do not strip the dynamic symbol table of a code object.",
        )
    try:
        content = elf.read(place.address, KERNEL_CODE_BYTES)
    except CodeObjectError as error:
        raise CodeObjectError(
            f"the amd_kernel_code_t of kernel {symbol} is truncated", where=error.what, hint=_REBUILD
        ) from error
    return kernel_code_of(content, symbol, architecture)


def is_kernel_code(content: bytes) -> bool:
    """Return whether bytes in memory are an amd_kernel_code_t rather than a descriptor of later versions.

    Descriptors have the sizes of LDS, scratch and arguments at these places: one byte of LDS is not possible with them.
    """
    if len(content) < KERNEL_CODE_BYTES:
        return False
    major, minor, machine, processor = struct.unpack_from("<IIHH", content)
    is_gpu = (major, machine) == (_SUPPORTED_KERNEL_CODE, _MACHINE_KIND) and minor <= _NEWEST_KERNEL_CODE_MINOR
    return is_gpu and processor in _GENERATIONS


def kernel_code_of(content: bytes, symbol: str, architecture: str) -> KernelCode:
    """Decode the 256 bytes of an amd_kernel_code_t.

    Args:
        content: The bytes.
        symbol: Name of the kernel, for messages.
        architecture: Processor that executes it.

    Raises:
        CodeObjectError: Its version is not supported.
    """
    (version, entry, rsrc1, rsrc2, properties, scratch, lds, _, kernarg, sgprs, vgprs, alignment, lanes) = _KERNEL_CODE.unpack(
        content
    )
    if version != _SUPPORTED_KERNEL_CODE:
        raise CodeObjectError(
            f"kernel {symbol} has no amd_kernel_code_t of version {_SUPPORTED_KERNEL_CODE} (found version {version})",
            hint=_REBUILD,
        )
    same = properties & _SAME_PROPERTIES | (_WAVEFRONT_SIZE_32 if lanes == 5 else 0)
    descriptor = KernelDescriptor(
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        entry_offset=entry,
        compute_pgm_rsrc1=rsrc1,
        compute_pgm_rsrc2=rsrc2,
        compute_pgm_rsrc3=_all_architectural(rsrc1) if nearest_processor(architecture).registers.agprs == "unified" else 0,
        kernel_code_properties=same | (_DYNAMIC_STACK if properties & _DYNAMIC_STACK_V2 else 0),
        kernarg_preload=0,
    )
    return KernelCode(descriptor, sgprs, vgprs, kernarg_alignment=1 << min(alignment, _LARGEST_ALIGNMENT))


def _all_architectural(rsrc1: int) -> int:
    """Return COMPUTE_PGM_RSRC3 without AGPRs, which version 2 does not support: ACCUM_OFFSET is in units of 4, minus one."""
    return (2 * (rsrc1 & 0x3F) + 1) & 0x3F
