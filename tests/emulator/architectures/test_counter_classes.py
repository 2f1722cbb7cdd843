"""Counters that single instructions increment, by architecture."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.emulator.isa.counter_classes import counter_increments, counter_names
from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.isa.instruction import Instruction
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.machine import EmulatedGpu
from tests.builders.kernels import build_hip
from tests.builders.matrix_opcodes import MatrixShape, matrix_mnemonics
from tests.builders.opcodes import assemble
from tests.builders.targets import target_of

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURES = ("gfx90a", "gfx942", "gfx950")
F6F4 = "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3]"
SCALED = "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[16:19], v[20:23], v[0:15], v24, v25 cbsz:4 blgp:4"
FORMATS = [
    "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:15], v[0:3] blgp:4",
    "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:9], v[10:13], v[0:3] cbsz:2 blgp:4",
]
"""Operands of 8 and 4, and of 6 and 4 bits."""
VALU, MATRIX, LDS = ("SQ_INSTS_VALU",), ("SQ_INSTS_VALU", "SQ_INSTS_MFMA"), ("SQ_INSTS_LDS",)
READ, WRITE = ("SQ_INSTS_VMEM", "SQ_INSTS_VMEM_RD"), ("SQ_INSTS_VMEM", "SQ_INSTS_VMEM_WR")
ROWS: list[tuple[str, str, tuple[str, ...]]] = [
    ("gfx90a", "v_mac_f32 v0, v1, v2", (*VALU, "SQ_INSTS_VALU_FMA_F32")),
    ("gfx90a", "v_madmk_f32 v0, v1, 0x3fc00000, v2", (*VALU, "SQ_INSTS_VALU_FMA_F32")),
    ("gfx90a", "v_mad_legacy_f32 v0, v1, v2, v3", (*VALU, "SQ_INSTS_VALU_FMA_F32")),
    ("gfx90a", "v_add_co_u32 v0, vcc, v1, v2", (*VALU, "SQ_INSTS_VALU_INT32")),
    ("gfx90a", "v_mfma_f32_32x32x4bf16_1k v[0:31], v[32:33], v[34:35], v[0:31]", (*MATRIX, "SQ_INSTS_VALU_MFMA_BF16")),
    ("gfx90a", "v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[0:7]", (*MATRIX, "SQ_INSTS_VALU_MFMA_F64")),
    ("gfx90a", "v_mfma_i32_32x32x8i8 v[0:15], v16, v17, v[0:15]", (*MATRIX, "SQ_INSTS_VALU_MFMA_I8")),
    ("gfx90a", "buffer_wbinvl1_vol", ("vector_cache_maintenance",)),
    ("gfx90a", "buffer_invl2", ("vector_cache_maintenance",)),
    ("gfx90a", "buffer_load_dword off, s[4:7], 0 lds", READ),
    ("gfx90a", "ds_read_b32 v0, v1", LDS),
    ("gfx90a", "ds_add_f64 v0, v[2:3]", LDS),
    ("gfx942", "ds_read_b32 v0, v1", LDS),
    ("gfx942", "buffer_inv sc1", ("vector_cache_maintenance",)),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_bf8 v[0:3], v[4:5], v[6:7], v[0:3]", (*MATRIX, "SQ_INSTS_VALU_MFMA_F8")),
    ("gfx942", "v_smfmac_f32_16x16x32_bf16 v[0:3], v[4:5], v[6:9], v10", (*MATRIX, "SQ_INSTS_VALU_MFMA_BF16")),
    ("gfx950", F6F4, (*MATRIX, "SQ_INSTS_VALU_MFMA_F6F4")),
    ("gfx950", SCALED, (*MATRIX, "SQ_INSTS_VALU_MFMA_F6F4")),
    ("gfx950", "v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[4:5], v[6:7], v[0:3]", (*MATRIX, "SQ_INSTS_VALU_MFMA_F8")),
    ("gfx950", "v_smfmac_i32_32x32x64_i8 v[0:15], v[16:19], v[20:27], v28", (*MATRIX, "SQ_INSTS_VALU_MFMA_I8")),
    ("gfx950", "v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3", (*VALU, "SQ_INSTS_VALU_CVT")),
    ("gfx950", "v_ashr_pk_i8_i32 v0, v1, v2, v3", (*VALU, "SQ_INSTS_VALU_INT32")),
    ("gfx950", "v_permlane32_swap_b32 v0, v1", VALU),
    ("gfx950", "v_minimum3_f32 v0, v1, v2, v3", VALU),
    ("gfx950", "ds_read_b64_tr_b16 v[0:1], v2", (*LDS, "SQ_INSTS_LDS_LOAD")),
    ("gfx950", "ds_write2_b64 v0, v[2:3], v[4:5] offset1:1", (*LDS, "SQ_INSTS_LDS_STORE")),
    ("gfx950", "ds_add_rtn_u32 v0, v1, v2", (*LDS, "SQ_INSTS_LDS_ATOMIC")),
    ("gfx950", "ds_wrxchg_rtn_b32 v0, v1, v2", (*LDS, "SQ_INSTS_LDS_ATOMIC")),
    ("gfx950", "ds_bpermute_b32 v0, v1, v2", LDS),
    ("gfx950", "global_load_lds_dwordx4 v[0:1], off", (*READ, "SQ_INSTS_FLAT")),
    ("gfx950", "buffer_load_dwordx3 v2, s[4:7], 0 offen lds", READ),
    ("gfx950", "buffer_atomic_pk_add_bf16 v0, off, s[4:7], 0", WRITE),
]
QUADS = """\
#include <hip/hip_runtime.h>
__global__ void quads(const float* a, float* b) { b[threadIdx.x] = a[64 * (threadIdx.x / 4) + 16 * (threadIdx.x % 4)]; }
"""
"""Each quad of lanes reads four dwords that are 64 bytes apart."""


@cache
def instructions(architecture: str) -> dict[str, Instruction]:
    """Return the decoded instructions of all rows of an architecture by text."""
    texts = [text for one, text, _ in ROWS if one == architecture] + (FORMATS if architecture == "gfx950" else [])
    code, isa, address = assemble(texts, architecture=architecture), instruction_set(architecture), 0
    found = {}
    for text in texts:
        found[text] = decode_one(code[address : address + 20], address, isa)
        address += found[text].size
    return found


@pytest.mark.parametrize(("architecture", "text", "counters"), ROWS)
def test_an_instruction_counts_in_its_classes(architecture: str, text: str, counters: tuple[str, ...]) -> None:
    found = counter_increments(instructions(architecture)[text])

    quantities = {name for name in found if "MOPS" in name or name == "SQ_VALU_MFMA_BUSY_CYCLES"}
    assert {name: found[name] for name in found.keys() - quantities} == dict.fromkeys(("SQ_INSTS", *counters), 1)
    assert bool(quantities) == ("SQ_INSTS_MFMA" in counters)


@pytest.mark.parametrize(
    ("text", "operations", "clocks"),
    [
        (FORMATS[0], 2 * 16 * 16 * 128, 32),  # one operand of 8 bits: the longer time
        (FORMATS[1], 2 * 16 * 16 * 128, 16),
        (F6F4, 2 * 16 * 16 * 128, 32),  # both operands of 8 bits, the default
        (SCALED, 2 * 32 * 32 * 64, 32),
    ],
)
def test_f8f6f4_counts_operations_and_the_time_of_its_formats(text: str, operations: int, clocks: int) -> None:
    found = counter_increments(instructions("gfx950")[text])

    assert found["SQ_INSTS_VALU_MFMA_MOPS_F6F4"] == operations // 512
    assert found["SQ_VALU_MFMA_BUSY_CYCLES"] == clocks


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_matrix_opcode_has_one_class_and_its_operations(architecture: str) -> None:
    isa = instruction_set(architecture)
    known = counter_names(isa.counter_set)
    for name in matrix_mnemonics(architecture):
        found = counter_increments(
            Instruction(
                index=0, address=0, size=8, mnemonic=name, encoding="VOP3P", variant="MFMA", raw=0, fields={}, operands={},
                isa=isa, pseudocode=None,
            )
        )  # fmt: skip
        kinds = [counter for counter in found if re.fullmatch("SQ_INSTS_VALU_MFMA_[A-Z0-9]+", counter)]
        assert len(kinds) == 1
        assert kinds[0] in known
        assert found[kinds[0].replace("MFMA_", "MFMA_MOPS_")] * 512 == MatrixShape.of(name).operations


@pytest.mark.parametrize(("architecture", "lines_of_a_quad"), [("gfx90a", 4), ("gfx942", 2), ("gfx950", 2)])
def test_lookups_are_by_lines_of_the_architecture(architecture: str, lines_of_a_quad: int, tmp_path: Path) -> None:
    code_object = build_hip(QUADS, tmp_path, architecture=architecture).code_object
    with EmulatedGpu(target_of(architecture), max_instructions=10**4, threads=1) as machine:
        buffers = [machine.allocate(name, 4096) for name in "ab"]
        loaded = machine.load(code_object)
        counters = machine.launch(loaded, code_object.kernels[0].symbol, (1, 1, 1), (64, 1, 1), buffers).counters

    assert counters["TCP_TOTAL_CACHE_ACCESSES_sum"] == 16 * lines_of_a_quad + 4  # the store: 16 lanes a lookup
    assert counters["TCP_TOTAL_ACCESSES_sum"] == 64 + 16
