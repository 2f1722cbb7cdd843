"""Code objects of version 2 on the emulator."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rocm_perf_lab.emulator.kernarg import KernelArgumentError
from rocm_perf_lab.toolchain.elf import read_code_object
from tests.builders.assembly import assemble_code_object
from tests.builders.emulation import EmulatorBench
from tests.builders.version2 import kernel_text_v2, metadata_yaml, notes_text
from tests.emulator.test_hand_written import BRANCH_TABLE, STORE_S10

SCALE = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_load_dword s6, s[0:1], 0xc
s_lshl_b32 s7, s2, 6
v_add_u32 v1, s7, v0
v_lshlrev_b32 v2, 2, v1
s_waitcnt lgkmcnt(0)
v_mul_lo_u32 v1, v1, s6
global_store_dword v2, v1, s[4:5]
s_endpgm
"""
"""out[i] = i * factor"""


def launch(text: str, groups: int, *, factor: int = 0) -> list[int]:
    """Return the values that kernel k stores, by work-item."""
    with EmulatorBench(read_code_object(assemble_code_object(text, version=2))) as bench:
        out = bench.buffer(np.full(64 * groups, -1, np.int32))
        bench.launch("k", groups, 64, out, b"\1", struct.pack("<i", factor))
        return [int(value) for value in bench.read(out)]


def test_a_kernel_runs_with_its_arguments() -> None:
    text = kernel_text_v2("k", SCALE) + notes_text(metadata_yaml("k"))

    assert launch(text, 3, factor=7) == [7 * n for n in range(192)]


def test_a_jump_table_leads_to_its_cases_and_never_into_amd_kernel_code_t() -> None:
    table = kernel_text_v2("k", f"s_movk_i32 s10, 5\n{BRANCH_TABLE}{STORE_S10}")
    text = kernel_text_v2("other", "s_endpgm") + table + notes_text(metadata_yaml("k"))

    assert launch(text, 4)[::64] == [105, 11, 22, 1105]


def test_counts_of_workgroups_are_user_sgprs() -> None:
    more = "enable_sgpr_grid_workgroup_count_x = 1\nenable_sgpr_grid_workgroup_count_y = 1\ncompute_pgm_rsrc2_user_sgpr = 4"
    count_x = f"s_mov_b32 s10, s2\ns_mul_i32 s3, s3, 100\ns_add_u32 s10, s10, s3\ns_mov_b32 s2, s4\n{STORE_S10}"

    assert set(launch(kernel_text_v2("k", count_x, more=more) + notes_text(metadata_yaml("k")), 3)) == {103}


def test_arguments_need_metadata() -> None:
    with pytest.raises(KernelArgumentError, match="no metadata for kernel k"):
        launch(kernel_text_v2("k", SCALE) + notes_text(None), 1)
