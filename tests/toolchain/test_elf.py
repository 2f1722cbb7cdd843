"""Reader of code objects: compiler output, wrong files and damaged files."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.toolchain.code_object import CodeObject, CodeObjectError
from rocm_perf_lab.toolchain.elf import read_code_object, read_code_objects
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from pathlib import Path


def bundle(*entries: tuple[str, bytes]) -> bytes:
    """Return an uncompressed clang offload bundle."""
    header_size = 24 + 8 + sum(24 + len(target) for target, _ in entries)
    table, contents = b"", b""
    for target, content in entries:
        table += struct.pack("<QQQ", header_size + len(contents), len(content), len(target)) + target.encode()
        contents += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table + contents


def host_executable(fat_binary: bytes) -> bytes:
    """Return a minimal x86-64 ELF file with a `.hip_fatbin` section."""
    names = b"\0.hip_fatbin\0.shstrtab\0"
    fat_offset, names_offset = 64, 64 + len(fat_binary)
    table_offset = names_offset + len(names)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 0, table_offset, 0, 64, 0, 0, 64, 3, 2)
    sections = [
        struct.pack("<IIQQQQIIQQ", *([0] * 10)),
        struct.pack("<IIQQQQIIQQ", 1, 1, 2, 0, fat_offset, len(fat_binary), 0, 0, 1, 0),
        struct.pack("<IIQQQQIIQQ", 13, 3, 0, 0, names_offset, len(names), 0, 0, 1, 0),
    ]
    return header + fat_binary + names + b"".join(sections)


def without_notes(data: bytes) -> bytes:
    """Return the code object with its note section changed to an unknown kind of section."""
    return with_patched_section(data, ".note", kind=0x60000000)


def with_patched_section(data: bytes, name: str, *, kind: int) -> bytes:
    elf = parse_elf(data)
    table_offset = struct.unpack_from("<Q", data, 40)[0]
    index = [section.name for section in elf.sections].index(name)
    patched = bytearray(data)
    struct.pack_into("<I", patched, table_offset + 64 * index + 4, kind)
    return bytes(patched)


def test_the_metadata_of_a_kernel_is_read(vec_copy: CodeObject) -> None:
    (kernel,) = vec_copy.kernels

    assert vec_copy.architecture == "gfx942"
    assert kernel.symbol == "_Z7vecCopyPdS_S_ii"
    assert kernel.name == "vecCopy(double*, double*, double*, int, int)"
    assert (kernel.wavefront_size, kernel.max_flat_workgroup_size, kernel.lds_bytes) == (64, 1024, 0)
    assert [(a.name, a.offset, a.size, a.value_kind) for a in kernel.arguments[:5]] == [
        ("a", 0, 8, "global_buffer"),
        ("b", 8, 8, "global_buffer"),
        ("c", 16, 8, "global_buffer"),
        ("n", 24, 4, "by_value"),
        ("stride", 28, 4, "by_value"),
    ]


def test_the_entry_address_is_that_of_the_kernels_symbol(vec_copy: CodeObject) -> None:
    (kernel,) = vec_copy.kernels
    symbols = parse_elf(vec_copy.data).symbols

    assert kernel.entry_address == symbols[kernel.symbol].address
    assert kernel.descriptor_address == symbols[kernel.symbol + ".kd"].address
    assert kernel.code_bytes == symbols[kernel.symbol].size


def test_lds_workgroup_size_and_accumulation_registers_are_read(tmp_path: Path) -> None:
    source = """
    #include <hip/hip_runtime.h>
    extern "C" __global__ __launch_bounds__(128) void staged(float* out) {
      __shared__ float tile[256];
      tile[threadIdx.x] = out[threadIdx.x];
      __syncthreads();
      asm volatile("" ::: "a7");
      out[threadIdx.x] = tile[threadIdx.x ^ 1];
    }"""

    (kernel,) = build_hip(source, tmp_path).code_object.kernels

    assert (kernel.name, kernel.lds_bytes, kernel.max_flat_workgroup_size) == ("staged", 1024, 128)
    # The total counts the architectural registers rounded up to 4, then the accumulation ones.
    assert (kernel.agpr_count, kernel.vgpr_count) == (8, 4 + 8)


def test_accumulation_registers_that_the_note_lacks_are_read_from_the_descriptor(tmp_path: Path) -> None:
    source = """
    #include <hip/hip_runtime.h>
    extern "C" __global__ __launch_bounds__(64) void full(float* out) {
      asm volatile("" ::: "v255", "a255");
      out[threadIdx.x] = 1;
    }"""
    data = build_hip(source, tmp_path).code_object.data
    lacking = data.replace(b".agpr_count", b".agpr_kount")

    (stated,), (kernel,) = read_code_object(data).kernels, read_code_object(lacking).kernels

    assert lacking != data
    assert (stated.vgpr_count, stated.agpr_count) == (512, 256)
    assert (kernel.vgpr_count, kernel.agpr_count) == (512, 256)


def test_accumulation_registers_are_not_invented(vec_copy: CodeObject) -> None:
    (kernel,) = read_code_object(vec_copy.data.replace(b".agpr_count", b".agpr_kount")).kernels

    assert kernel.agpr_count == 0


def test_without_a_note_the_descriptor_is_read(vec_copy: CodeObject) -> None:
    (described,) = read_code_object(without_notes(vec_copy.data)).kernels
    (noted,) = vec_copy.kernels

    assert (described.symbol, described.entry_address) == (noted.symbol, noted.entry_address)
    assert described.kernarg_bytes == noted.kernarg_bytes
    assert described.vgpr_count == 8  # 4 used, allocated in granules of 8
    assert described.arguments == ()


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1030"])
def test_other_processors_are_recognised(tmp_path: Path, architecture: str) -> None:
    code_object = build_hip('extern "C" __global__ void nothing() {}', tmp_path, architecture=architecture).code_object

    assert code_object.architecture == architecture
    assert code_object.kernels[0].wavefront_size == (32 if architecture == "gfx1030" else 64)


def test_the_entry_for_the_architecture_is_selected(vec_copy: CodeObject) -> None:
    packed = bundle(
        ("host-x86_64-unknown-linux--", b""),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a", b"other"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", vec_copy.data),
    )

    assert read_code_object(packed) == vec_copy


def test_the_code_objects_of_all_translation_units_of_an_executable_are_read(vec_copy: CodeObject) -> None:
    unit = bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", vec_copy.data))
    program = host_executable(unit + bytes(100) + unit)

    assert read_code_objects(program) == (vec_copy, vec_copy)
    with pytest.raises(CodeObjectError, match="2 code objects for gfx942"):
        read_code_object(program)


def test_a_missing_architecture_is_reported_with_those_present(vec_copy: CodeObject) -> None:
    packed = bundle(("hipv4-amdgcn-amd-amdhsa--gfx90a", vec_copy.data))

    with pytest.raises(CodeObjectError, match="no code object for gfx942, only for: gfx90a"):
        read_code_object(packed)


def test_a_file_that_is_no_code_object_is_an_error_with_a_reason(vec_copy: CodeObject) -> None:
    for data, reason in (
        (b"", "neither an ELF file nor an offload bundle"),
        (b"hello", "neither an ELF file nor an offload bundle"),
        (b"CCOB" + bytes(60), "compressed"),
        (host_executable(b"CCOB" + bytes(60)), "compressed"),
        (vec_copy.data[:1000], "ends inside the"),
        (vec_copy.data.replace(b"\x7fELF\x02", b"\x7fELF\x01"), "not 64-bit"),
        (host_executable(b"x").replace(b".hip_fatbin", b".hip_fatbit"), "machine 62, not AMDGPU"),
        (vec_copy.data.replace(b".vgpr_count", b".vgpr_cound"), "vgpr_count"),
        (bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", vec_copy.data))[:300], "truncated"),
    ):
        with pytest.raises(CodeObjectError, match=reason):
            read_code_object(data)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_reported(vec_copy: CodeObject, data: st.DataObject) -> None:
    damaged = bytearray(vec_copy.data)
    metadata_end = 0xB00  # headers, notes and symbols come before the code
    places = st.one_of(st.integers(0, metadata_end), st.integers(0, len(damaged) - 1))
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8)):
        damaged[place] = value
    kept = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    framed = data.draw(st.booleans())
    content = bytes(damaged[:kept])

    try:
        result = read_code_object(bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", content)) if framed else content)
    except CodeObjectError as error:
        assert error.hint
    else:
        assert isinstance(result, CodeObject)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_an_error(data: bytes) -> None:
    for prefix in (b"", b"\x7fELF\x02\x01", b"__CLANG_OFFLOAD_BUNDLE__"):
        with pytest.raises(CodeObjectError):
            read_code_object(prefix + data)
