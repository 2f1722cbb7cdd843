"""AMDGPU metadata note: a MessagePack map with the properties of each kernel, as validated records.

Keys and defaults: LLVM "User Guide for AMDGPU Backend", code object
V3 to V6 metadata.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from rocm_perf_lab.toolchain.code_object import CodeObjectError, KernelArgument

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.elf_file import ElfFile, Note

_OWNER, _KIND = "AMDGPU", 32
_KERNELS = "amdhsa.kernels"
_REBUILD = "The file is damaged: compile or copy it again."


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class ArgumentNote(_Record):
    """One entry of `.args`."""

    name: str = Field("", alias=".name")
    offset: NonNegativeInt = Field(alias=".offset")
    size: NonNegativeInt = Field(alias=".size")
    value_kind: str = Field(alias=".value_kind")
    type_name: str = Field("", alias=".type_name")
    address_space: str = Field("", alias=".address_space")
    access: str = Field("", alias=".access")

    def as_argument(self) -> KernelArgument:
        """Return the argument as a :class:`KernelArgument`."""
        return KernelArgument(
            name=self.name,
            offset=self.offset,
            size=self.size,
            value_kind=self.value_kind,
            type_name=self.type_name,
            address_space=self.address_space,
            access=self.access,
        )


class KernelNote(_Record):
    """One entry of `amdhsa.kernels`."""

    symbol: str = Field(alias=".symbol")
    language: str = Field("", alias=".language")
    vgpr_count: NonNegativeInt = Field(alias=".vgpr_count")
    agpr_count: NonNegativeInt | None = Field(None, alias=".agpr_count")
    sgpr_count: NonNegativeInt = Field(alias=".sgpr_count")
    vgpr_spill_count: NonNegativeInt = Field(0, alias=".vgpr_spill_count")
    sgpr_spill_count: NonNegativeInt = Field(0, alias=".sgpr_spill_count")
    lds_bytes: NonNegativeInt = Field(alias=".group_segment_fixed_size")
    scratch_bytes: NonNegativeInt = Field(alias=".private_segment_fixed_size")
    kernarg_bytes: NonNegativeInt = Field(alias=".kernarg_segment_size")
    kernarg_alignment: NonNegativeInt = Field(alias=".kernarg_segment_align")
    wavefront_size: NonNegativeInt = Field(alias=".wavefront_size")
    max_flat_workgroup_size: NonNegativeInt = Field(alias=".max_flat_workgroup_size")
    required_workgroup_size: tuple[int, int, int] | None = Field(None, alias=".reqd_workgroup_size")
    uniform_workgroups: bool = Field(False, alias=".uniform_work_group_size")
    uses_dynamic_stack: bool = Field(False, alias=".uses_dynamic_stack")
    arguments: tuple[ArgumentNote, ...] = Field((), alias=".args")


class MetadataNote(_Record):
    """Content of the note. `target` exists in code object V4 and later."""

    version: tuple[int, int] = Field(alias="amdhsa.version")
    target: str = Field("", alias="amdhsa.target")
    kernels: tuple[KernelNote, ...] = Field((), alias="amdhsa.kernels")
    printf_formats: tuple[str, ...] = Field((), alias="amdhsa.printf")

    @property
    def target_id(self) -> str:
        """Target id without triple: `gfx942:sramecc+` of `amdgcn-amd-amdhsa--gfx942:sramecc+` or `...-unknown-gfx942:...`."""
        return re.sub(r"^[^-]*-[^-]*-[^-]*-[^-]*-", "", self.target)


def read_metadata_note(elf: ElfFile) -> MetadataNote | None:
    """Return the metadata of a code object; None if it has no note, or one of version 2.

    A code object that was linked from several objects has the note of each, one after the other; Tensile's libraries have
    thousands.

    Raises:
        CodeObjectError: A note cannot be decoded.
    """
    notes = [_decode(note) for note in elf.notes if (note.owner, note.kind) == (_OWNER, _KIND)]
    if not notes:
        return None
    return notes[0].model_copy(
        update={
            "kernels": tuple(kernel for note in notes for kernel in note.kernels),
            "printf_formats": tuple(text for note in notes for text in note.printf_formats),
        }
    )


def raw_kernel_metadata(elf: ElfFile, symbol: str) -> dict[str, Any]:
    """Return the metadata of one kernel as it is in the note, with the keys of the whole code object; empty without a note.

    Raises:
        CodeObjectError: A note cannot be decoded.
    """
    for content in (_unpacked(note) for note in elf.notes if (note.owner, note.kind) == (_OWNER, _KIND)):
        kernels = [kernel for kernel in content.get(_KERNELS, ()) if kernel.get(".symbol") == f"{symbol}.kd"]
        if kernels:
            return {**{key: value for key, value in content.items() if key != _KERNELS}, _KERNELS: kernels}
    return {}


def _unpacked(note: Note) -> Any:
    import msgpack

    try:
        return msgpack.unpackb(note.content, strict_map_key=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise CodeObjectError(f"the AMDGPU metadata note is not MessagePack: {error}", hint=_REBUILD) from error


def _decode(note: Note) -> MetadataNote:
    content = _unpacked(note)
    try:
        return MetadataNote.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = " ".join(str(part) for part in first["loc"])
        raise CodeObjectError(
            f"the AMDGPU metadata note is invalid at {key or 'the top level'}: {first['msg']}", hint=_REBUILD
        ) from error
