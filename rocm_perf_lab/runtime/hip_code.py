"""Code objects for the HIP runtime: selection from a fat binary, and layout of the kernels as `struct rpl_hip_code`."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from rocm_perf_lab.runtime.messages import MessageError, parse, texts
from rocm_perf_lab.toolchain.bundles import unpack_code_objects
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.metadata import read_metadata_note

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.elf_file import ElfFile
    from rocm_perf_lab.toolchain.metadata import KernelNote, MetadataNote

_PHASED_SYMBOL = "last_signal_time"
"""Variable of device libraries that use host call packets with phases."""
_HIDDEN_KINDS = (
    *("block_count_x", "block_count_y", "block_count_z", "group_size_x", "group_size_y", "group_size_z"),
    *("remainder_x", "remainder_y", "remainder_z", "global_offset_x", "global_offset_y", "global_offset_z", "grid_dims"),
    *("printf_buffer", "hostcall_buffer", "multigrid_sync_arg", "heap_v1", "default_queue", "completion_action"),
    *("dynamic_lds_size", "private_base", "shared_base", "queue_ptr", "none"),
)
"""In the order of `enum hip_hidden`, from 1."""
_HIDDEN = {f"hidden_{name}": number for number, name in enumerate(_HIDDEN_KINDS, 1)}


class HipCodeQuery(ctypes.LittleEndianStructure):
    """struct rpl_hip_code_query."""

    _fields_ = (("architecture", ctypes.c_char * 32),)


class HipCodeAnswer(ctypes.LittleEndianStructure):
    """struct rpl_hip_code."""

    _fields_ = (
        ("elf_bytes", ctypes.c_uint64),
        ("kernel_count", ctypes.c_uint32),
        ("argument_count", ctypes.c_uint32),
        ("text_bytes", ctypes.c_uint32),
        ("has_phased_calls", ctypes.c_uint32),
    )


class HipKernel(ctypes.LittleEndianStructure):
    """struct rpl_hip_kernel."""

    _fields_ = (
        ("descriptor", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("name", "kernarg_bytes", "kernarg_alignment", "lds_bytes", "private_bytes")),
        ("max_workgroup", ctypes.c_uint32),
        ("required", ctypes.c_uint32 * 3),
        *(
            (name, ctypes.c_uint32)
            for name in (
                "vgprs", "agprs", "sgprs", "sgpr_spills", "vgpr_spills", "wave_size", "uses_dynamic_stack",
                "first_argument", "argument_count", "explicit_count", "is_uniform",
            )
        ),
    )  # fmt: skip


class HipArgument(ctypes.LittleEndianStructure):
    """struct rpl_hip_argument."""

    _fields_ = (("offset", ctypes.c_uint32), ("size", ctypes.c_uint32), ("hidden", ctypes.c_uint32))


def answer_hip_code(content: bytes) -> tuple[bytes, ...]:
    """Return the parts of the answer to a request for the code object of one architecture.

    Args:
        content: `struct rpl_hip_code_query`, then an ELF file or an offload bundle.

    Raises:
        CodeObjectError: The file is damaged, or has no code for this architecture.
        MessageError: The message is too short.
    """
    query, file = parse(HipCodeQuery, content)
    architecture = query.architecture.decode("ascii", "replace")
    if not architecture:
        raise MessageError("a HIP runtime requested code without an architecture")
    code = unpack_code_objects(file, architecture)[0]
    elf = parse_elf(code)
    note = read_metadata_note(elf)
    if note is not None:
        _require_architecture(note, architecture)
    kernels = note.kernels if note is not None else ()
    return _described(elf, kernels)


def _require_architecture(note: MetadataNote, architecture: str) -> None:
    from rocm_perf_lab.arch.registry import processors_of_generic_target

    processor = note.target_id.split(":")[0]
    if processor and processor != architecture and architecture not in processors_of_generic_target(processor):
        raise CodeObjectError(
            f"the code object is for {processor}, not for {architecture}",
            hint=f"Compile with --offload-arch={architecture}.",
        )


def _described(elf: ElfFile, notes: tuple[KernelNote, ...]) -> tuple[bytes, ...]:
    names = bytearray()
    kernels: list[HipKernel] = []
    arguments: list[HipArgument] = []
    for note in notes:
        symbol = elf.symbols.get(note.symbol)
        if symbol is None:
            continue
        kernels.append(_kernel(note, symbol.address, len(names), len(arguments)))
        arguments += _arguments(note)
        names += texts(note.symbol.removesuffix(".kd"))
    names += bytes(-len(names) % 8)
    head = HipCodeAnswer(
        elf_bytes=len(elf.data),
        kernel_count=len(kernels),
        argument_count=len(arguments),
        text_bytes=len(names),
        has_phased_calls=int(any(_PHASED_SYMBOL in name for name in elf.symbols)),
    )
    table = b"".join(map(bytes, arguments))
    padding = bytes(-len(table) % 8)
    return (bytes(head), b"".join(map(bytes, kernels)), table + padding, bytes(names), elf.data)


def _kernel(note: KernelNote, descriptor: int, name: int, first_argument: int) -> HipKernel:
    required = note.required_workgroup_size or (0, 0, 0)
    agprs = note.agpr_count or 0
    return HipKernel(
        descriptor=descriptor,
        name=name,
        kernarg_bytes=note.kernarg_bytes,
        kernarg_alignment=note.kernarg_alignment,
        lds_bytes=note.lds_bytes,
        private_bytes=note.scratch_bytes,
        max_workgroup=note.max_flat_workgroup_size,
        required=(ctypes.c_uint32 * 3)(*required),
        vgprs=note.vgpr_count,
        agprs=agprs,
        sgprs=note.sgpr_count,
        sgpr_spills=note.sgpr_spill_count,
        vgpr_spills=note.vgpr_spill_count,
        wave_size=note.wavefront_size,
        uses_dynamic_stack=int(note.uses_dynamic_stack),
        first_argument=first_argument,
        argument_count=len(note.arguments),
        is_uniform=int(note.uniform_workgroups),
        explicit_count=sum(not argument.value_kind.startswith("hidden_") for argument in note.arguments),
    )


def _arguments(note: KernelNote) -> list[HipArgument]:
    """Return the arguments, explicit ones first."""
    ordered = sorted(note.arguments, key=lambda argument: argument.value_kind.startswith("hidden_"))
    unknown = _HIDDEN["hidden_none"]
    return [
        HipArgument(
            offset=argument.offset,
            size=argument.size,
            hidden=_HIDDEN.get(argument.value_kind, unknown) if argument.value_kind.startswith("hidden_") else 0,
        )
        for argument in ordered
    ]
