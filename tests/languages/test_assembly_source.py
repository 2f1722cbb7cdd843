"""Assembly source of a compiled kernel: it assembles to the same code and the same descriptor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.languages.assembly import AssemblyLanguage
from rocm_perf_lab.languages.assembly_source import assembly_source
from rocm_perf_lab.languages.language import CompileSettings
from rocm_perf_lab.languages.spec import KernelSpec
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = """
#include <hip/hip_runtime.h>
extern "C" __global__ void looping(float* p, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) if (p[i] > 1.5f) sum += p[i] * 0.15915494f;
  p[threadIdx.x] = sum;
}
__constant__ int weights[4] = {3, 5, 7, 11};
__device__ __attribute__((noinline)) int weighted(int x, int k) { return x * weights[k & 3]; }
extern "C" __global__ void calling(int* p) { p[threadIdx.x] = weighted(p[threadIdx.x], threadIdx.x); }
"""


def compiled(directory: Path, architecture: str) -> CodeObject:
    source = directory / "kernels.hip"
    source.write_text(SOURCE)
    return compile_source(CompileRequest(source, architecture=architecture)).code_object


def assembled(directory: Path, text: str, entry: str, architecture: str, flags: tuple[str, ...]) -> CodeObject:
    source = directory / "kernel.s"
    source.write_text(text)
    spec = KernelSpec(
        name=entry, language="assembly", source=source, entry=entry, arguments=(), flags=flags, grid=(1,), block=(1,)
    )
    return AssemblyLanguage().compile(spec, source, CompileSettings(architecture, find_compiler)).code_object


@pytest.mark.parametrize("architecture", ["gfx942", "gfx90a", "gfx1030"])
def test_code_and_descriptor_of_a_kernel_without_references_are_equal_byte_for_byte(tmp_path: Path, architecture: str) -> None:
    original = compiled(tmp_path, architecture)
    kernel = find_kernel(original, "looping")

    source = assembly_source(original, kernel, find_compiler, header="looping")

    again = assembled(tmp_path, source.text, "looping", architecture, source.flags)
    copy = find_kernel(again, "looping")
    old, new = parse_elf(original.data), parse_elf(again.data)
    assert new.read(copy.entry_address, copy.code_bytes) == old.read(kernel.entry_address, kernel.code_bytes)
    assert new.read(copy.descriptor_address, 16) == old.read(kernel.descriptor_address, 16)
    assert new.read(copy.descriptor_address + 24, 40) == old.read(kernel.descriptor_address + 24, 40)
    assert copy.arguments == kernel.arguments
    assert (source.words, source.is_identical, source.notes) == (0, True, ())
    assert source.text.startswith("// looping\n")
    assert re.search(r"^  s_cbranch_\w+ \.L\d+$", source.text, re.MULTILINE)  # branches name labels


def test_called_functions_and_variables_are_part_of_the_source(tmp_path: Path) -> None:
    original = compiled(tmp_path, "gfx942")

    source = assembly_source(original, find_kernel(original, "calling"), find_compiler)

    assert "_Z8weightedii@rel32@lo+4" in source.text
    assert "weights@rel32@lo+4" in source.text
    assert "looping" not in source.text
    elf = parse_elf(assembled(tmp_path, source.text, "calling", "gfx942", source.flags).data)
    table = elf.symbols["weights"]
    assert [int.from_bytes(elf.read(table.address + 4 * n, 4), "little") for n in range(4)] == [3, 5, 7, 11]
    assert elf.symbols["_Z8weightedii"].size == parse_elf(original.data).symbols["_Z8weightedii"].size
