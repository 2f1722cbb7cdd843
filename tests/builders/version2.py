"""Code objects of version 2 from assembly: the compiler writes amd_kernel_code_t, this module the notes."""

from __future__ import annotations

import struct

CODE_OBJECT_VERSION, ISA_VERSION, METADATA, ISA_NAME = 1, 3, 10, 11
_KERNEL_CODE = """.amd_kernel_code_t
enable_sgpr_kernarg_segment_ptr = 1
is_ptr64 = 1
compute_pgm_rsrc1_vgprs = 3
compute_pgm_rsrc1_sgprs = 7
compute_pgm_rsrc2_user_sgpr = 2
enable_sgpr_workgroup_id_x = 1
kernarg_segment_byte_size = 64
wavefront_sgpr_count = 24
workitem_vgpr_count = 11
{more}
.end_amd_kernel_code_t
"""
KERNEL_METADATA = """
  - Name:            {name}
    SymbolName:      '{name}@kd'
    Language:        OpenCL C
    LanguageVersion: [ 2, 0 ]
    Args:
      - Name:            out
        TypeName:        'int*'
        Size:            8
        Align:           8
        ValueKind:       GlobalBuffer
        ValueType:       I32
        AddrSpaceQual:   Global
        AccQual:         Default
      - Name:            no
        TypeName:        char
        Size:            1
        Align:           1
        ValueKind:       ByValue
        ValueType:       I8
        AccQual:         Default
      - Name:            factor
        TypeName:        int
        Size:            4
        Align:           4
        ValueKind:       ByValue
        ValueType:       I32
        AccQual:         ReadOnly
      - Size:            8
        Align:           8
        ValueKind:       HiddenGlobalOffsetX
        ValueType:       I64
      - Size:            8
        Align:           8
        ValueKind:       HiddenMultiGridSyncArg
        ValueType:       I8
        AddrSpaceQual:   Global
    CodeProps:
      KernargSegmentSize: 32
      GroupSegmentFixedSize: 0
      PrivateSegmentFixedSize: 0
      KernargSegmentAlign: 16
      WavefrontSize:   64
      NumSGPRs:        22
      NumVGPRs:        9
      MaxFlatWorkGroupSize: 256
      NumSpilledSGPRs: 3
"""


def kernel_text_v2(name: str, body: str, *, more: str = "") -> str:
    """Return one kernel: s[0:1] is the kernarg segment, s2 the workgroup, v0 the work-item; `more` goes to amd_kernel_code_t."""
    head = f".text\n.p2align 8\n.globl {name}\n.type {name},@function\n.amdgpu_hsa_kernel {name}\n{name}:\n"
    return f"{head}{_KERNEL_CODE.format(more=more)}{body}\n.size {name}, .-{name}\n"


def metadata_yaml(*names: str) -> str:
    """Return metadata in the format of the ROCm 3 compiler."""
    return f"---\nVersion: [ 1, 0 ]\nKernels:{''.join(KERNEL_METADATA.format(name=name) for name in names)}...\n"


def note_text(kind: int, content: bytes) -> str:
    """Return one note of `AMD`."""
    words = struct.pack("<III4s", 4, len(content), kind, b"AMD\0") + content + bytes(-len(content) % 4)
    return f'.section .note,"a",@note\n.p2align 2\n.byte {",".join(map(str, words))}\n'


def notes_text(yaml: str | None) -> str:
    """Return the notes of an object: its version, and metadata if given."""
    version = note_text(CODE_OBJECT_VERSION, struct.pack("<II", 2, 1))
    return version + (note_text(METADATA, yaml.encode() + b"\0") if yaml is not None else "")


def isa_note_text(major: int, minor: int, stepping: int) -> str:
    """Return the processor in the format before it was part of ELF flags."""
    return note_text(ISA_VERSION, struct.pack("<HHIII4s7s", 4, 7, major, minor, stepping, b"AMD\0", b"AMDGPU\0"))
