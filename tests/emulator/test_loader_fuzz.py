"""Damaged code objects raise a LabError or run to their end, without other exceptions, crashes or hangs.

ROCM_PERF_LAB_FUZZ_EXAMPLES sets how many are tried (default 200); inputs of past failures are kept as examples.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.toolchain.assembly_text import decode_instruction
from rocm_perf_lab.toolchain.elf import read_code_objects
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.source_lines import line_table
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x
from tests.toolchain.test_elf import bundle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

SOURCE = r"""
#include <hip/hip_runtime.h>
__device__ int counter = 40;
__constant__ int table[4] = {10, 20, 30, 40};
__device__ int* pointer_to_counter = &counter;
extern "C" __global__ void kernel(int* out) {
  __shared__ int part[64];
  volatile int local[4] = {1, 2, 3, 4};
  part[threadIdx.x] = table[threadIdx.x & 3] + local[threadIdx.x & 3];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = part[63 - threadIdx.x] + *pointer_to_counter;
}
"""
EXAMPLES = int(os.environ.get("ROCM_PERF_LAB_FUZZ_EXAMPLES", "200"))
LARGEST_IMAGE_BYTES = 1 << 32
# The deadlines, in ms, stop loops without end; on a busy machine with empty caches one example may take a minute.
SLOW = settings(max_examples=EXAMPLES, deadline=100_000, suppress_health_check=list(HealthCheck))
LAUNCHED = settings(max_examples=max(10, EXAMPLES // 4), deadline=400_000, suppress_health_check=list(HealthCheck))
EXTREMES = [0, 1, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**63 - 1, 2**63, 2**64 - 1]
HEADER_BYTES = 64


@dataclass(frozen=True)
class Damage:
    """Bytes to write at an offset."""

    offset: int
    content: bytes


@cache
def original() -> bytes:
    """A kernel with arguments, LDS, scratch, relocations, globals and line tables."""
    with TemporaryDirectory() as directory:
        return build_hip(SOURCE, Path(directory)).code_object.data


@cache
def regions() -> dict[str, range]:
    """Return file ranges by content."""
    data = original()
    program_headers, section_headers = struct.unpack_from("<QQ", data, 32)
    program_count, section_count = struct.unpack_from("<H", data, 56)[0], struct.unpack_from("<H", data, 60)[0]
    sections = {s.name: range(s.offset, s.offset + s.size) for s in parse_elf(data).sections if s.size and s.kind != 8}
    return sections | {
        "header": range(HEADER_BYTES),
        "program headers": range(program_headers, program_headers + 56 * program_count),
        "section headers": range(section_headers, section_headers + 64 * section_count),
    }


def damage_in(names: Iterable[str]) -> st.SearchStrategy[list[Damage]]:
    """Overwrite a few fields of regions with arbitrary or extreme numbers."""
    offsets = st.sampled_from(sorted(names)).flatmap(lambda name: st.sampled_from(regions()[name]))
    extremes = st.builds(
        lambda value, size: (value & (2 ** (8 * size) - 1)).to_bytes(size, "little"),
        st.sampled_from(EXTREMES),
        st.sampled_from([1, 2, 4, 8]),
    )
    content = st.one_of(st.binary(min_size=1, max_size=1), extremes)
    # Fields are aligned; unaligned damage would overlap two of them.
    aligned = st.builds(lambda offset, bytes_: Damage(offset - offset % len(bytes_), bytes_), offsets, content)
    return st.lists(aligned, min_size=1, max_size=6)


def damaged(damages: Iterable[Damage], length: int | None = None) -> bytes:
    data = bytearray(original())
    for damage in damages:
        end = min(len(data), damage.offset + len(damage.content))
        data[damage.offset : end] = damage.content[: end - damage.offset]
    return bytes(data[:length])


def load(data: bytes) -> None:
    """Parse, load and look up lines."""
    for code_object in read_code_objects(data):
        with EmulatedGpu(mi300x(), max_instructions=10_000) as machine:
            loaded = machine.load(code_object)
            assert loaded.allocation.nbytes <= LARGEST_IMAGE_BYTES


STRUCTURES = ("header", "program headers", "section headers", ".note", ".rodata", ".dynsym", ".symtab", ".rela.dyn", ".dynamic")


@given(st.deferred(lambda: damage_in(set(STRUCTURES) & regions().keys())))
@SLOW
def test_a_code_object_with_damaged_structures_loads_or_is_refused(damages: list[Damage]) -> None:
    try:
        load(damaged(damages))
    except LabError as error:
        assert error.what


@given(st.deferred(lambda: st.integers(0, len(original()))))
@SLOW
def test_a_truncated_code_object_is_refused(length: int) -> None:
    try:
        load(original()[:length])
    except LabError:
        return
    assert length == len(original())


@given(st.deferred(lambda: damage_in(name for name in regions() if name.startswith(".debug_") or name == "section headers")))
@example([Damage(4528, bytes(8))])  # no operation fits in an instruction, which caused a division by zero
@example([Damage(4564, b"%")])  # a form of string that pyelftools does not implement
@SLOW
def test_damaged_debug_information_names_lines_or_is_refused(damages: list[Damage]) -> None:
    try:
        for code_object in read_code_objects(damaged(damages)):
            find = line_table(code_object)
            for kernel in code_object.kernels:
                find(kernel.entry_address)
    except LabError as error:
        assert error.what


@given(st.lists(st.tuples(st.integers(0, 120), st.sampled_from(EXTREMES)), min_size=1, max_size=4), st.binary(max_size=64))
@SLOW
def test_a_damaged_bundle_is_read_or_refused(changes: list[tuple[int, int]], tail: bytes) -> None:
    data = bytearray(bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", original()), ("host-x86_64", tail)))
    for offset, value in changes:
        struct.pack_into("<Q", data, offset, value)
    try:
        read_code_objects(bytes(data))
    except LabError as error:
        assert error.what


@given(st.deferred(lambda: damage_in({".note", ".rodata"})))
@example([Damage(2192, b"\xf7")])  # the entry lies inside an instruction
@LAUNCHED
def test_a_kernel_with_damaged_metadata_or_descriptor_runs_or_is_refused(damages: list[Damage]) -> None:
    try:
        (code_object,) = read_code_objects(damaged(damages))
        for kernel in code_object.kernels:
            launch(code_object, kernel)
    except LabError as error:
        assert error.what


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5).map(lambda words: struct.pack(f"<{len(words)}I", *words)))
@example(bytes.fromhex("f70080be"))  # a source operand that is not a register
@example(bytes.fromhex("e981da94"))  # s_cbranch_g_fork, which has no immediate
@SLOW
def test_arbitrary_words_are_an_instruction_or_illegal(code: bytes) -> None:
    text, size = decode_instruction(code, instruction_set("gfx942").decoder)
    assert text
    assert 0 < size <= len(code)
    try:
        instruction = decode_one(code, 0x1000, instruction_set("gfx942"))
    except IllegalInstruction:
        return
    assert 0 < instruction.size <= len(code)


def launch(code_object: CodeObject, kernel: KernelMetadata) -> None:
    with EmulatedGpu(mi300x(), max_instructions=10_000) as machine:
        out = machine.allocate("out", 4096)
        machine.launch(machine.load(code_object), kernel.symbol, (1, 1, 1), (64, 1, 1), [out])
