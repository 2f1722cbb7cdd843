"""Code objects of version 2: notes and amd_kernel_code_t in the form of later versions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.code_object import CodeObject, CodeObjectError, KernelMetadata
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from tests.builders.assembly import assemble_code_object
from tests.builders.version2 import ISA_NAME, isa_note_text, kernel_text_v2, metadata_yaml, note_text, notes_text
from tests.toolchain.test_elf import bundle

BODY = "s_movk_i32 s10, 5\ns_endpgm"
TEXT = kernel_text_v2("k", BODY) + notes_text(metadata_yaml("k"))
FLAGS_OFFSET = 48


def read(text: str, cpu: str = "gfx942") -> CodeObject:
    return read_code_object(assemble_code_object(text, version=2, cpu=cpu))


def kernel_of(text: str, cpu: str = "gfx942") -> KernelMetadata:
    (kernel,) = read(text, cpu).kernels
    return kernel


def with_flags(text: str, flags: int) -> bytes:
    data = bytearray(assemble_code_object(text, version=2, cpu="gfx906"))
    struct.pack_into("<I", data, FLAGS_OFFSET, flags)
    return bytes(data)


def test_the_metadata_is_read() -> None:
    kernel = kernel_of(TEXT)

    assert (kernel.symbol, kernel.name, kernel.has_metadata) == ("k", "k", True)
    assert (kernel.vgpr_count, kernel.agpr_count, kernel.sgpr_count) == (9, 0, 22)
    assert (kernel.vgpr_spill_count, kernel.sgpr_spill_count) == (0, 3)
    assert (kernel.kernarg_bytes, kernel.kernarg_alignment) == (32, 16)
    assert (kernel.wavefront_size, kernel.max_flat_workgroup_size, kernel.required_workgroup_size) == (64, 256, None)


def test_arguments_follow_each_other_at_their_alignment_with_the_names_of_later_versions() -> None:
    kernel = kernel_of(TEXT)

    assert [(a.name, a.offset, a.size, a.value_kind) for a in kernel.arguments] == [
        ("out", 0, 8, "global_buffer"),
        ("no", 8, 1, "by_value"),
        ("factor", 12, 4, "by_value"),
        ("", 16, 8, "hidden_global_offset_x"),
        ("", 24, 8, "hidden_multigrid_sync_arg"),
    ]
    assert [(a.type_name, a.address_space, a.access) for a in kernel.arguments[:3]] == [
        ("int*", "global", ""),
        ("char", "", ""),
        ("int", "", "read_only"),
    ]


def test_without_metadata_amd_kernel_code_t_is_read() -> None:
    more = "workgroup_group_segment_byte_size = 512\nworkitem_private_segment_byte_size = 16\nis_dynamic_callstack = 1"
    kernel = kernel_of(kernel_text_v2("k", BODY, more=more) + notes_text(None))

    assert (kernel.vgpr_count, kernel.agpr_count, kernel.sgpr_count) == (11, 0, 24)
    assert (kernel.lds_bytes, kernel.scratch_bytes, kernel.kernarg_bytes, kernel.kernarg_alignment) == (512, 16, 64, 16)
    assert (kernel.wavefront_size, kernel.uses_dynamic_stack, kernel.has_metadata) == (64, True, False)


def test_counts_that_assembly_omits_are_those_of_the_allocation() -> None:
    kernel = kernel_of(kernel_text_v2("k", BODY, more="workitem_vgpr_count = 0\nwavefront_sgpr_count = 0"))

    assert (kernel.vgpr_count, kernel.sgpr_count) == (32, 64)


def test_a_required_workgroup_size_is_an_attribute() -> None:
    yaml = metadata_yaml("k").replace("    Args:", "    Attrs:\n      ReqdWorkGroupSize: [ 8, 4, 2 ]\n    Args:")

    assert kernel_of(kernel_text_v2("k", BODY) + notes_text(yaml)).required_workgroup_size == (8, 4, 2)


def test_kernels_with_and_without_metadata_are_found() -> None:
    text = kernel_text_v2("first", BODY) + kernel_text_v2("second", "s_endpgm") + notes_text(metadata_yaml("second"))

    kernels = read(text).kernels

    assert [(kernel.symbol, kernel.has_metadata, kernel.code_bytes) for kernel in kernels] == [
        ("first", False, 8),
        ("second", True, 4),
    ]


def test_the_code_follows_amd_kernel_code_t() -> None:
    code_object = read(TEXT)
    (kernel,) = code_object.kernels

    assert kernel.entry_address == kernel.descriptor_address + 256
    assert [line.text for line in disassemble(code_object, "k")] == ["s_movk_i32 s10, 0x5", "s_endpgm"]


def test_the_size_of_code_without_size_ends_at_the_section() -> None:
    assert kernel_of(TEXT.replace(".size k, .-k", "")).code_bytes == 8


def test_registers_and_bounds_decide_the_occupancy() -> None:
    request = occupancy_request(kernel_of(TEXT))

    assert (request.vgprs, request.agprs, request.workgroup_size) == (9, 0, (1, 256))


@pytest.mark.parametrize(
    ("notes", "architecture", "target_id"),
    [
        (isa_note_text(9, 0, 0), "gfx900", "gfx900"),
        (isa_note_text(9, 0, 8), "gfx908", "gfx908"),
        (isa_note_text(9, 0, 7), "gfx906", "gfx906:xnack+"),
        (note_text(ISA_NAME, b"amdgcn-amd-amdhsa--gfx906+xnack+sram-ecc"), "gfx906", "gfx906:xnack+"),
    ],
)
def test_the_processor_is_read_from_notes_if_the_flags_have_none(notes: str, architecture: str, target_id: str) -> None:
    code_object = read_code_object(with_flags(TEXT + notes, 1))  # EF_AMDGPU_FEATURE_XNACK_V2

    assert (code_object.architecture, code_object.target_id) == (architecture, target_id)


def test_flags_take_precedence_over_notes() -> None:
    assert read(TEXT + isa_note_text(9, 0, 0), "gfx906").target_id == "gfx906"


def test_wavefronts_of_32_lanes() -> None:
    text = kernel_text_v2("k", BODY, more="enable_wavefront_size32 = 1\nwavefront_size = 5") + notes_text(None)

    assert kernel_of(text, "gfx1010").wavefront_size == 32


def test_a_bundle_of_rocm_3_names_the_processor_after_one_dash() -> None:
    data = assemble_code_object(TEXT, version=2, cpu="gfx906")
    packed = bundle(("host-x86_64-unknown-linux", b""), ("hip-amdgcn-amd-amdhsa-gfx906", data))

    assert read_code_object(packed, bundle_architecture="gfx906").kernels[0].symbol == "k"


def test_damaged_or_missing_parts_are_an_error_with_a_reason() -> None:
    short = TEXT.replace("k:\n", "unused:\n", 1).replace(BODY, f"{BODY}\nk:\n.fill 50,4,0")
    for text, reason in (
        (f".text\nk:\n{BODY}\n" + notes_text(None), "version 2 has neither metadata"),
        (short, "amd_kernel_code_t of kernel k is truncated"),
        (TEXT.replace("is_ptr64", "amd_code_version_major = 7\nis_ptr64"), "found version 7"),
        (kernel_text_v2("k", BODY) + notes_text(metadata_yaml("absent")), "kernel absent of the metadata has no symbol"),
        (kernel_text_v2("k", BODY) + notes_text("Kernels: ["), "is not YAML"),
        (kernel_text_v2("k", BODY) + notes_text(metadata_yaml("k").replace("Align:  ", "Wrong:  ")), "Kernels 0 Args 0 Align"),
        (kernel_text_v2("k", BODY) + notes_text(metadata_yaml("k").replace("Align:           8", "Align: 0")), "greater than 0"),
        (TEXT.replace("is_ptr64", "kernel_code_entry_byte_offset = 4096\nis_ptr64"), "lies outside the code"),
    ):
        with pytest.raises(CodeObjectError, match=reason) as caught:
            read(text)
        assert caught.value.hint


def test_an_unknown_processor_is_reported() -> None:
    with pytest.raises(CodeObjectError, match="unknown processor gfx803 in the notes"):
        read_code_object(with_flags(TEXT + isa_note_text(8, 0, 3), 0))


@given(st.lists(st.tuples(st.integers(0, 0x1600), st.integers(0, 255)), max_size=8), st.integers(0, 0x1800))
@example([], 0)
def test_a_damaged_file_is_read_or_reported(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(assemble_code_object(TEXT, version=2))
    for place, value in changes:
        data[place % len(data)] = value
    try:
        assert read_code_object(bytes(data[: len(data) - cut // 8])).kernels
    except LabError as refusal:
        assert refusal.hint
