"""Disassembly with instruction tables, compared with LLVM if it is installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.toolchain.assembly_text import decode_instruction
from rocm_perf_lab.toolchain.compilers import ToolSearch
from rocm_perf_lab.toolchain.disassembly import DisassemblyError, disassemble
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

NO_TOOLS = ToolSearch(executables="/nonexistent", rocm=Path("/nonexistent"))

MIXED = """
#include <hip/hip_runtime.h>
extern "C" __global__ void mixed(float* a, const double* b, int n) {
  __shared__ float tile[512];
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  float x = 0;
  for (int j = 0; j < n; j++) {
    x = fmaf(a[i + j], -x, fabsf(a[j]));
    tile[threadIdx.x] = x;
    __syncthreads();
    x += tile[threadIdx.x ^ 7];
  }
  a[i] = powf(x, 2.5f) + __shfl_xor(x, 3) + (float)b[i] * sinf(x) / (x + 1);
}
"""


def test_vec_copy_is_disassembled_as_by_llvm(vec_copy: CodeObject) -> None:
    lines = disassemble(vec_copy, "vecCopy", search=NO_TOOLS)

    assert [line.text for line in lines] == [
        "s_load_dword s3, s[0:1], 0x2c",
        "s_load_dword s4, s[0:1], 0x18",
        "s_waitcnt lgkmcnt(0)",
        "s_and_b32 s3, s3, 0xffff",
        "s_mul_i32 s2, s2, s3",
        "v_add_u32_e32 v0, s2, v0",
        "v_cmp_gt_i32_e32 vcc, s4, v0",
        "s_and_saveexec_b64 s[2:3], vcc",
        "s_cbranch_execz 17",
        "s_load_dwordx2 s[2:3], s[0:1], 0x0",
        "s_load_dwordx2 s[4:5], s[0:1], 0x10",
        "v_ashrrev_i32_e32 v1, 31, v0",
        "v_lshlrev_b64 v[0:1], 3, v[0:1]",
        "s_waitcnt lgkmcnt(0)",
        "v_lshl_add_u64 v[2:3], s[2:3], 0, v[0:1]",
        "global_load_dwordx2 v[2:3], v[2:3], off",
        "v_lshl_add_u64 v[0:1], s[4:5], 0, v[0:1]",
        "s_waitcnt vmcnt(0)",
        "global_store_dwordx2 v[0:1], v[2:3], off",
        "s_endpgm",
    ]


def test_lines_are_contiguous_and_cover_the_kernel(vec_copy: CodeObject) -> None:
    (kernel,) = vec_copy.kernels
    lines = disassemble(vec_copy, kernel.symbol, search=NO_TOOLS)

    ends = [line.address + len(line.encoding) for line in lines]
    assert lines[0].address == kernel.entry_address
    assert [line.address for line in lines[1:]] == ends[:-1]
    assert ends[-1] == kernel.entry_address + kernel.code_bytes


@pytest.mark.skipif(shutil.which("llvm-objdump") is None, reason="llvm-objdump is not installed")
def test_the_tables_agree_with_llvm_instruction_by_instruction(tmp_path: Path) -> None:
    code_object = build_hip(MIXED, tmp_path, architecture="gfx90a").code_object

    ours = disassemble(code_object, "mixed", search=NO_TOOLS)
    llvms = disassemble(code_object, "mixed", search=ToolSearch(rocm=Path("/nonexistent")))

    assert [line.encoding for line in ours] == [line.encoding for line in llvms]
    spelling = re.compile(r"_e(32|64)\b")
    differing = [
        (a.text, b.text) for a, b in zip(ours, llvms, strict=True) if spelling.sub("", a.text) != spelling.sub("", b.text)
    ]
    # Packed instructions print their modifiers by encoding field; all others are equal.
    assert [pair for pair in differing if not pair[0].startswith("v_pk_")] == []
    assert len(ours) > 300


def test_a_processor_without_tables_asks_for_llvm(tmp_path: Path) -> None:
    code_object = build_hip('extern "C" __global__ void nothing() {}', tmp_path, architecture="gfx1100").code_object

    with pytest.raises(DisassemblyError, match=r"gfx1100(.|\n)*llvm-objdump"):
        disassemble(code_object, "nothing", search=NO_TOOLS)


@given(st.binary(min_size=1, max_size=24))
@example(bytes.fromhex("000010d000fe01"))  # an operand that asks for a literal, which its encoding does not have
def test_any_bytes_decode_to_an_instruction_or_to_raw_words(code: bytes) -> None:
    text, size = decode_instruction(code, instruction_set("gfx942").decoder)

    assert text
    assert 1 <= size <= len(code)
