"""Kernels found in device memory: from the file, from an image without sections, and from a descriptor with code."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.runtime.code_image import CodeImage, CodeImageError, DeviceBlock, find_code
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

BASE, PAGE = 0x7000_0000_0000, 4096
# Functions that are called directly, through a table in memory, and through a pointer that the code computes.
SOURCE = r"""
#include <hip/hip_runtime.h>
static __device__ __attribute__((noinline)) int direct(int x) { return x * x + 3; }
static __device__ __attribute__((noinline)) int first(int x) { return 5 * x; }
static __device__ __attribute__((noinline)) int second(int x) { return direct(x) - 9; }
typedef int (*function)(int);
static __device__ function table[2] = {first, second};
extern "C" __global__ void calls(int* y, int which) { y[threadIdx.x] = direct(table[which](y[threadIdx.x])); }
extern "C" __global__ void plain(float* y, float a) { __shared__ float t[32]; t[threadIdx.x] = a; y[threadIdx.x] = t[0]; }
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("image")).code_object


@pytest.fixture(scope="module")
def image(code_object: CodeObject) -> bytes:
    with EmulatedGpu(mi300x(), max_instructions=1) as machine:
        return machine.read(machine.load(code_object, 0x2345_0000_0000).allocation)


def block_of(content: bytes, address: int = BASE) -> DeviceBlock:
    return DeviceBlock(address, len(content), lambda start, size: content[start : start + size])


def kernel_of(code_object: CodeObject, symbol: str) -> KernelMetadata:
    return next(kernel for kernel in code_object.kernels if kernel.symbol == symbol)


def find(content: bytes, kernel: KernelMetadata, file: bytes = b"", *, before: int = 0) -> CodeImage:
    block = block_of(bytes(before) + content)
    return find_code(block, BASE + before + kernel.descriptor_address, file)


def instructions(found: CodeImage) -> list[tuple[int, str]]:
    return [(i.address, i.text) for i in found.describe("gfx942").decode().instructions]


def test_file_and_image_have_the_same_kernels(code_object: CodeObject, image: bytes) -> None:
    for kernel in code_object.kernels:
        from_file, from_image = find(image, kernel, code_object.data), find(image, kernel)

        assert (from_file.is_file, from_image.is_file) == (True, False)
        assert from_file.describe("gfx942").kernel == kernel
        assert from_image.describe("gfx942").kernel == kernel  # the metadata note is part of the image


def test_functions_without_symbols_are_found(code_object: CodeObject, image: bytes) -> None:
    kernel = kernel_of(code_object, "calls")
    from_file, from_image = find(image, kernel, code_object.data), find(image, kernel)
    functions = [s for s in parse_elf(code_object.data).symbols.values() if s.name.startswith("_ZL")]

    assert {s.name for s in functions} >= {"_ZL6directi", "_ZL5firsti", "_ZL6secondi"}
    assert not any(s in from_image.elf.symbols for s in ("_ZL6directi", "_ZL5firsti"))
    assert instructions(from_image) == instructions(from_file)
    decoded = {address for address, _ in instructions(from_image)}
    assert {s.address for s in functions if s.name in ("_ZL6directi", "_ZL5firsti", "_ZL6secondi")} <= decoded


def test_the_image_may_begin_within_the_block(code_object: CodeObject, image: bytes) -> None:
    found = find(image, kernel_of(code_object, "plain"), before=3 * PAGE)

    assert found.load_address == BASE + 3 * PAGE
    assert found.describe("gfx942").kernel.symbol == "plain"


def test_the_key_depends_on_the_code_but_neither_on_its_place_nor_on_data(code_object: CodeObject, image: bytes) -> None:
    kernel = kernel_of(code_object, "plain")
    text = kernel.entry_address
    changed = image[:text] + bytes([image[text] ^ 1]) + image[text + 1 :]
    data = next(s for s in parse_elf(code_object.data).symbols.values() if s.name == "_ZL5table")
    written = image[: data.address] + bytes(data.size) + image[data.address + data.size :]

    key = find(image, kernel).key("gfx942")
    assert find(image, kernel, before=PAGE).key("gfx942") == key
    assert find(written, kernel).key("gfx942") == key
    assert find(changed, kernel).key("gfx942") != key
    assert find(image, kernel).key("gfx90a") != key
    assert find(image, kernel_of(code_object, "calls")).key("gfx942") != key


def test_a_file_with_other_code_is_not_used(code_object: CodeObject, image: bytes) -> None:
    kernel = kernel_of(code_object, "plain")
    section = next(s for s in parse_elf(code_object.data).sections if s.is_code)
    other = bytearray(code_object.data)
    other[section.offset + section.size - 4] ^= 1

    for file in (bytes(other), b"\x7fELF", code_object.data[:300], b"no file"):
        found = find(image, kernel, file)
        assert (found.is_file, found.describe("gfx942").kernel) == (False, kernel)


def test_a_descriptor_with_code_is_a_kernel(code_object: CodeObject, image: bytes) -> None:
    kernel = kernel_of(code_object, "plain")
    distance = 512
    descriptor = bytearray(image[kernel.descriptor_address : kernel.descriptor_address + 64])
    struct.pack_into("<q", descriptor, 16, distance)
    code = image[kernel.entry_address : kernel.entry_address + kernel.code_bytes]
    page = (bytes(256) + descriptor).ljust(256 + distance, b"\0") + code

    found = find_code(block_of(page.ljust(PAGE, b"\0")), BASE + 256)

    described = found.describe("gfx942")
    program = described.decode()
    assert (found.is_raw, found.load_address) == (True, BASE + 256)
    assert described.kernel.lds_bytes == 128
    assert described.kernel.descriptor.compute_pgm_rsrc1 == kernel.descriptor.compute_pgm_rsrc1
    assert [i.raw for i in program.instructions] == [i.raw for i in find(image, kernel).describe("gfx942").decode().instructions]


@pytest.mark.parametrize("version", [0, 1])
def test_kernels_of_the_runtime_have_an_amd_kernel_code(version: int) -> None:
    """ROCr writes the fields that hardware reads, at the offsets of a descriptor, and may leave the version zero."""
    header = bytearray(256)
    struct.pack_into("<IIHHHH", header, 0, version, version, version, 9 * version, 4 * version, 2 * version)
    struct.pack_into("<q", header, 16, 256)
    struct.pack_into("<III", header, 48, 0x00AC_0042, 0x84, 8)
    code = bytes.fromhex("000080bf 000081bf")  # s_nop 0, s_endpgm

    found = find_code(block_of((bytes(header) + code).ljust(PAGE, b"\0")), BASE)

    described = found.describe("gfx942")
    assert [i.mnemonic for i in described.decode().instructions] == ["S_NOP", "S_ENDPGM"]
    assert described.kernel.descriptor.compute_pgm_rsrc2 == 0x84
    assert described.kernel.descriptor.kernel_code_properties == 8
    assert described.kernel.descriptor.entry_offset == 256
    assert len(found.descriptor) == (256 if version else 64)


@pytest.mark.parametrize("content", [bytes(PAGE), b"\xff" * PAGE, b"\x7fELF" + bytes(PAGE - 4)])
def test_memory_without_a_kernel_is_an_error(content: bytes) -> None:
    with pytest.raises(CodeImageError, match="there is no kernel descriptor at 0x700000000200"):
        find_code(block_of(content), BASE + 512)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_images_are_read_or_are_errors(code_object: CodeObject, image: bytes, data: st.DataObject) -> None:
    content = bytearray(image)
    headers = 0x1000  # ELF header, program headers, notes, dynamic symbols, hash tables, constants
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, min(headers, len(image)) - 8))
        content[place : place + 8] = data.draw(st.binary(min_size=8, max_size=8))
    kernel = kernel_of(code_object, "calls")

    try:
        found = find(bytes(content), kernel)
        found.key("gfx942")
        found.describe("gfx942").decode()
    except LabError as error:
        assert error.what


@given(st.binary(min_size=64, max_size=700), st.integers(0, 800))
@settings(max_examples=100, deadline=None)
def test_any_memory_is_read_or_is_an_error(content: bytes, offset: int) -> None:
    try:
        find_code(block_of(content), BASE + offset).describe("gfx942").decode()
    except LabError as error:
        assert error.what


def test_images_have_the_dynamic_symbols(code_object: CodeObject, image: bytes) -> None:
    assert read_code_object(code_object.data).kernels == code_object.kernels
    elf = find(image, code_object.kernels[0]).elf
    kernels = [name for name in elf.symbols if name.endswith(".kd")]
    assert sorted(kernels) == ["calls.kd", "plain.kd"]
