"""LDS operations that compilers rarely emit: appends, reads and writes by lane, double exchanges, wrapping counters."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.emulator.checks import CheckKind
from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.toolchain.elf import read_code_object
from tests.builders.assembly import assemble_code_object, kernel_text, metadata_text
from tests.builders.targets import mi300x

LDS_BYTES = 1024
LANES = np.arange(64)
BEFORE = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32 v1, 2, v0
v_mul_u32_u24 v2, v0, 3
v_add_u32 v3, 100, v0
v_add_u32 v4, 200, v0
v_mov_b32 v8, -1
v_mov_b32 v9, -1
ds_write_b32 v1, v2
ds_write_b32 v1, v2 offset:256
s_waitcnt lgkmcnt(0)
"""
"""LDS[i] = 3 i in both halves; v1 is the lane's place, v3 = 100 + lane, v4 = 200 + lane."""
AFTER = """
s_mov_b64 exec, -1
s_waitcnt lgkmcnt(0)
ds_read_b32 v5, v1
ds_read_b32 v6, v1 offset:256
s_waitcnt lgkmcnt(0)
global_store_dword v1, v8, s[4:5]
global_store_dword v1, v9, s[4:5] offset:256
global_store_dword v1, v5, s[4:5] offset:512
global_store_dword v1, v6, s[4:5] offset:768
s_endpgm
"""


def run(body: str, *, checks: frozenset[CheckKind] = frozenset()) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """Return v8, v9, and the two halves of LDS, (4, 64)."""
    text = kernel_text("k", BEFORE + body + AFTER, lds=LDS_BYTES) + metadata_text("k", lds=LDS_BYTES)
    with EmulatedGpu(mi300x(), max_instructions=10**4, checks=checks) as machine:
        out = machine.allocate("out", 1024)
        result = machine.launch(machine.load(read_code_object(assemble_code_object(text))), "k", (1, 1, 1), (64, 1, 1), [out])
        assert not result.findings
        return np.frombuffer(machine.read(out), np.int32).reshape(4, 64)


@pytest.mark.parametrize(("operation", "sign"), [("append", 1), ("consume", -1)])
def test_an_append_counts_active_lanes_at_m0_and_returns_the_old_value(operation: str, sign: int) -> None:
    body = f"s_mov_b32 m0, 12\ns_mov_b32 exec_lo, 0xff\ns_mov_b32 exec_hi, 0\nds_{operation} v8 offset:8\n"
    v8, _, low, _ = run(body, checks=frozenset(CheckKind))
    expected = 3 * LANES
    expected[5] += sign * 8

    assert list(v8) == [15] * 8 + [-1] * 56
    assert list(low) == list(expected)


def test_an_append_outside_of_lds_is_a_fault() -> None:
    with pytest.raises(EmulationError, match=r"LDS"):
        run("s_mov_b32 m0, 1024\nds_append v8\n")


def test_an_append_without_active_lanes_does_nothing() -> None:
    assert list(run("s_mov_b32 m0, 4096\ns_mov_b64 exec, 0\nds_append v8\n")[2]) == list(3 * LANES)


def test_loads_of_16_bits_clear_the_other_half() -> None:
    """With error correction (SRAM ECC) the other half of the register is not kept; v8 and v9 are -1 before."""
    v8, v9, _, _ = run("ds_read_u16_d16 v8, v1 offset:256\nds_read_u16_d16_hi v9, v1\n")

    assert list(v8) == list(3 * LANES)
    assert list(v9) == list(3 * LANES << 16)


@pytest.mark.parametrize("checks", [frozenset(), frozenset(CheckKind)], ids=["unchecked", "checked"])
@pytest.mark.parametrize("exec_high", [0, -1], ids=["half of the lanes", "all lanes"])
def test_the_address_of_zeros_is_out_of_range_on_purpose(exec_high: int, checks: frozenset[CheckKind]) -> None:
    """Tensile's kernels load zeros so; lane 3 loads from LDS."""
    lanes = 64 if exec_high else 32
    body = (
        f"s_mov_b32 exec_hi, {exec_high}\nv_mov_b32 v7, 0xf00000\nv_cmp_eq_u32 vcc, 3, v0\nv_cndmask_b32 v7, v7, v1, vcc\n"
        "s_nop 4\nds_read_b64 v[8:9], v7 offset:8\ns_waitcnt lgkmcnt(0)\n"
    )
    v8, v9, low, high = run(body, checks=checks)

    assert list(v8) == [0, 0, 0, 15, *[0] * (lanes - 4), *[-1] * (64 - lanes)]
    assert list(v9) == [0, 0, 0, 18, *[0] * (lanes - 4), *[-1] * (64 - lanes)]
    assert (list(low), list(high)) == (list(3 * LANES), list(3 * LANES))


@pytest.mark.parametrize("access", ["ds_read_b32 v8, v7", "ds_write_b32 v7, v3"])
def test_other_addresses_out_of_range_are_faults(access: str) -> None:
    place = "0xf00000" if "write" in access else "0x10000"
    with pytest.raises(EmulationError, match=r"LDS offset"):
        run(f"v_mov_b32 v7, {place}\n{access}\n")


def test_reads_and_writes_by_lane_begin_at_m0() -> None:
    v8, _, low, high = run("s_mov_b32 m0, 4\nds_read_addtid_b32 v8 offset:8\nds_write_addtid_b32 v3 offset:252\n")

    assert list(v8[:61]) == list(3 * (LANES[:61] + 3))
    assert list(low) == list(3 * LANES)
    assert list(high) == list(100 + LANES)


@pytest.mark.parametrize(("operation", "second"), [("ds_wrxchg2_rtn_b32", "offset1:64"), ("ds_wrxchg2st64_rtn_b32", "offset1:1")])
def test_a_double_exchange_returns_both_old_values(operation: str, second: str) -> None:
    v8, v9, low, high = run(f"{operation} v[8:9], v1, v3, v4 offset0:0 {second}\n")

    assert list(v8) == list(v9) == list(3 * LANES)
    assert (list(low), list(high)) == (list(100 + LANES), list(200 + LANES))


def test_a_double_exchange_of_pairs_of_dwords() -> None:
    body = (
        "v_lshlrev_b32 v7, 1, v1\nv_mov_b32 v5, v4\nv_mov_b32 v4, v3\nds_wrxchg2_rtn_b64 v[8:11], v7, v[4:5], v[2:3] offset1:32\n"
    )
    v8, v9, low, high = run("s_mov_b32 exec_lo, 0xf\ns_mov_b32 exec_hi, 0\n" + body)

    assert list(v8[:4]) == [0, 6, 12, 18]
    assert list(v9[:4]) == [3, 9, 15, 21]
    assert list(low[:8]) == [100, 200, 101, 201, 102, 202, 103, 203]
    assert list(high[:8]) == [0, 100, 3, 101, 6, 102, 9, 103]


def test_a_wrapping_counter_subtracts_or_restarts() -> None:
    """Memory 3 i, bound 100 + i, refill 200 + i: from lane 50 on the bound is reached."""
    v8, _, low, _ = run("ds_wrap_rtn_b32 v8, v1, v3, v4\n")

    assert list(v8) == list(3 * LANES)
    assert list(low) == [3 * i - (100 + i) if 3 * i >= 100 + i else 3 * i + 200 + i for i in range(64)]
