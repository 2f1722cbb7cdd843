"""Code objects from assembly: computed jumps, hardware registers, versions, missing metadata, relocations, processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.checks import CheckKind
from rocm_perf_lab.emulator.errors import IllegalInstruction, UnsupportedInstruction
from rocm_perf_lab.emulator.kernarg import KernelArgumentError
from rocm_perf_lab.emulator.launch_limits import LaunchRefused
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf import read_code_object
from tests.builders.assembly import assemble_code_object, kernel_text, metadata_text
from tests.builders.emulation import EmulatorBench
from tests.builders.opcodes import assemble
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from numpy.typing import NDArray

STORE_S10 = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32 v1, s10
v_lshlrev_b32 v2, 2, v0
s_lshl_b32 s11, s2, 8
v_add_u32 v2, s11, v2
s_waitcnt lgkmcnt(0)
global_store_dword v2, v1, s[4:5]
s_endpgm
"""
"""Every work-item of a workgroup of 64 stores s10."""
BRANCH_TABLE = """
s_getpc_b64 s[6:7]
s_lshl_b32 s8, s2, 2
s_add_u32 s8, s8, 20
s_add_u32 s6, s6, s8
s_addc_u32 s7, s7, 0
s_setpc_b64 s[6:7]
s_branch case0
s_branch case1
s_branch case2
s_branch case3
case3:
s_add_u32 s10, s10, 1000
case0:
s_add_u32 s10, s10, 100
s_branch done
case1:
s_movk_i32 s10, 11
s_branch done
case2:
s_movk_i32 s10, 22
done:
"""
"""A jump into a table of branches by the number of the workgroup; case 3 falls through to case 0."""
OFFSET_TABLE = """
s_getpc_b64 s[6:7]
base:
s_lshl_b32 s8, s2, 2
s_add_u32 s12, s6, table - base
s_addc_u32 s13, s7, 0
s_load_dword s8, s[12:13], s8
s_waitcnt lgkmcnt(0)
s_add_u32 s6, s6, s8
s_addc_u32 s7, s7, 0
s_setpc_b64 s[6:7]
table:
.long in0 - base
.long in1 - base
.long in2 - base
.long in3 - base
in2:
s_add_u32 s10, s10, 1
in0:
s_add_u32 s10, s10, 10
in3:
s_add_u32 s10, s10, 100
s_branch out
in1:
s_movk_i32 s10, 7
out:
"""
"""A table of offsets next to the code; three cases fall through."""
ADDRESS_TABLE = """
s_getpc_b64 s[6:7]
s_add_u32 s6, s6, jump_table@rel32@lo+4
s_addc_u32 s7, s7, jump_table@rel32@hi+12
s_lshl_b32 s8, s2, 3
s_load_dwordx2 s[6:7], s[6:7], s8
s_waitcnt lgkmcnt(0)
s_setpc_b64 s[6:7]
at0:
s_movk_i32 s10, 30
s_branch finish
at1:
s_movk_i32 s10, 31
at2:
s_add_u32 s10, s10, 40
finish:
"""
ADDRESSES = """
.section .data.rel.ro,"aw",@progbits
.p2align 3
jump_table:
.quad at0
.quad at1
.quad at2
.quad at0
"""


def run(text: str, name: str = "k", groups: int = 4, version: int = 5) -> NDArray[np.int32]:
    """Return the values stored by workgroups of 64 work-items, (groups, 64)."""
    with EmulatorBench(read_code_object(assemble_code_object(text, version=version))) as bench:
        out = bench.buffer(np.full(64 * groups, -1, np.int32))
        bench.launch(name, groups, 64, out)
        return np.asarray(bench.read(out), np.int32).reshape(groups, 64)


def kernel(body: str, name: str = "k") -> str:
    return kernel_text(name, f"s_movk_i32 s10, 5\n{body}{STORE_S10}")


@pytest.mark.parametrize(
    ("body", "data", "expected"),
    [
        (BRANCH_TABLE, "", [105, 11, 22, 1105]),
        (OFFSET_TABLE, "", [115, 7, 116, 105]),
        (ADDRESS_TABLE, ADDRESSES, [30, 71, 45, 30]),
    ],
    ids=["branches", "offsets beside the code", "relocated addresses"],
)
def test_jump_tables_lead_to_their_cases(body: str, data: str, expected: list[int]) -> None:
    out = run(kernel(body) + data + metadata_text("k"))

    assert np.array_equal(out, np.repeat(np.array(expected)[:, None], 64, axis=1))


def test_a_loop_of_computed_jumps_is_stopped_by_the_budget() -> None:
    body = "s_getpc_b64 s[6:7]\ns_add_u32 s6, s6, 12\ns_addc_u32 s7, s7, 0\ns_branch 1f\n1:\ns_setpc_b64 s[6:7]\n"
    text = kernel_text("k", f"{body}s_endpgm") + metadata_text("k")
    with EmulatorBench(read_code_object(assemble_code_object(text)), max_instructions=10**5) as bench:
        out = bench.buffer(np.zeros(64, np.int32))
        with pytest.raises(Exception, match="instruction budget exceeded"):
            bench.launch("k", 1, 64, out)


def test_s_call_and_its_return() -> None:
    body = "s_call_b64 s[6:7], 1f\ns_branch 2f\n1:\ns_movk_i32 s10, 77\ns_setpc_b64 s[6:7]\n2:\n"

    assert set(run(kernel(body) + metadata_text("k")).ravel()) == {77}


# ---- hardware registers ----


def registers(name: str, groups: int, lds: int = 0) -> list[int]:
    text = kernel_text("k", f"s_getreg_b32 s10, hwreg({name})\n{STORE_S10}", lds=lds) + metadata_text("k", lds=lds)
    out = run(text, groups=groups)
    assert (out == out[:, :1]).all()
    return [int(v) & 0xFFFFFFFF for v in out[:, 0]]


def test_workgroups_go_round_the_xcds() -> None:
    assert registers("HW_REG_XCC_ID", 10) == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]


def test_workgroups_go_round_engines_and_compute_units() -> None:
    values = registers("HW_REG_HW_ID", 8 * 4 * 3)

    assert {v >> 13 & 7 for v in values} == {0, 1, 2, 3}
    assert {v >> 8 & 15 for v in values} == {0, 1, 2}
    assert values == registers("HW_REG_HW_ID", 8 * 4 * 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HW_REG_SH_MEM_BASES", 0x7FFF7FFE),
        ("HW_REG_SH_MEM_BASES, 16, 16", 0x7FFF),
        ("HW_REG_STATUS", 1 << 16 | 1 << 10),  # valid, VCC is zero
        ("HW_REG_LDS_ALLOC, 12, 9", 2),  # of 512 bytes
        ("HW_REG_GPR_ALLOC, 8, 6", 3),  # 32 registers in eights, less one
        ("HW_REG_MODE, 4, 4", 0xC),
        ("HW_REG_TRAPSTS", 0),
        ("HW_REG_IB_STS", 0),
    ],
)
def test_registers_have_the_values_of_an_undisturbed_wavefront(name: str, expected: int) -> None:
    assert registers(name, 1, lds=1000) == [expected]


def test_clocks_advance() -> None:
    body = "s_memtime s[6:7]\ns_memrealtime s[8:9]\ns_waitcnt lgkmcnt(0)\ns_nop 0\ns_memtime s[12:13]\n"
    body += "s_waitcnt lgkmcnt(0)\ns_sub_u32 s10, s12, s6\n"

    out = run(kernel(body) + metadata_text("k"), groups=1)

    assert (out > 0).all()
    assert np.array_equal(out, run(kernel(body) + metadata_text("k"), groups=1))


# ---- versions, metadata, processors ----


@pytest.mark.parametrize("version", [4, 5, 6])
def test_every_version_of_code_objects_runs(version: int) -> None:
    text = kernel("") + metadata_text("k", version=version)

    assert set(run(text, version=version).ravel()) == {5}


def test_version_3_is_recognised_by_its_header_and_note() -> None:
    data = bytearray(assemble_code_object(kernel("") + metadata_text("k", version=3), version=4))
    data[8] = 1  # ELFABIVERSION_AMDGPU_HSA_V3
    data[49] = 2  # EF_AMDGPU_FEATURE_SRAMECC_V3; a setting without its bit is off

    code_object = read_code_object(bytes(data))

    assert (code_object.target_id, code_object.kernels[0].kernarg_bytes) == ("gfx942:sramecc+:xnack-", 64)


def test_several_kernels_of_one_object() -> None:
    text = kernel("", "first") + kernel("s_movk_i32 s10, 9\n", "second") + metadata_text("first", "second")

    assert set(run(text, "first").ravel()) == {5}
    assert set(run(text, "second").ravel()) == {9}


def test_arguments_need_metadata() -> None:
    with pytest.raises(KernelArgumentError, match="no metadata for kernel k") as caught:
        run(kernel(""))

    assert "amdgpu_metadata" in str(caught.value)


def test_a_kernel_without_metadata_is_found_by_its_descriptor() -> None:
    text = kernel("", "first") + kernel_text("second", "s_endpgm") + metadata_text("first")
    with EmulatorBench(read_code_object(assemble_code_object(text))) as bench:
        assert bench.launch("second", 1, 64).waves == 1


def test_without_arguments_no_metadata_is_needed() -> None:
    with EmulatorBench(read_code_object(assemble_code_object(kernel_text("k", "s_endpgm")))) as bench:
        assert bench.launch("k", 2, 64).waves == 2


def test_an_unlinked_object_is_refused_with_the_link_command() -> None:
    with pytest.raises(CodeObjectError, match="not linked") as caught:
        read_code_object(assemble_code_object(kernel("") + metadata_text("k"), link=False))

    assert "ld.lld -shared" in str(caught.value)


@pytest.mark.parametrize("cpu", ["gfx942:sramecc+:xnack-", "gfx942:xnack+", "gfx9-4-generic"])
def test_target_ids_with_features_and_generic_ones_run(cpu: str) -> None:
    text = kernel("") + metadata_text("k", version=6, target=cpu)
    code_object = read_code_object(assemble_code_object(text, version=6, cpu=cpu))

    assert (code_object.architecture, code_object.target_id) == ("gfx942", cpu)
    with EmulatorBench(code_object) as bench:
        out = bench.buffer(np.zeros(64, np.int32))
        bench.launch("k", 1, 64, out)
        assert set(bench.read(out)) == {5}


@pytest.mark.parametrize("cpu", ["gfx90a", "gfx950"])
def test_code_for_another_processor_is_refused_by_name(cpu: str) -> None:
    code_object = read_code_object(assemble_code_object(kernel_text("k", "s_endpgm"), cpu=cpu))

    with (
        EmulatedGpu(mi300x(), max_instructions=1) as machine,
        pytest.raises(LaunchRefused, match=f"for {cpu}, the emulator executes gfx942"),
    ):
        machine.load(code_object)


# ---- data ----

DATA_KERNEL = """
s_getpc_b64 s[6:7]
s_add_u32 s6, s6, {symbol}@rel32@lo+4
s_addc_u32 s7, s7, {symbol}@rel32@hi+12
s_load_dwordx2 s[6:7], s[6:7], 0x0
s_waitcnt lgkmcnt(0)
{use}
s_waitcnt lgkmcnt(0)
"""


def test_data_that_hold_addresses_are_relocated() -> None:
    body = DATA_KERNEL.format(symbol="pointer", use="s_load_dword s10, s[6:7], 0x4")
    data = ".data\n.p2align 3\nvalues:\n.long 1, 4242\npointer:\n.quad values\n"

    assert set(run(kernel(body) + data + metadata_text("k")).ravel()) == {4242}


def test_an_address_of_a_global_symbol_is_relocated_by_name() -> None:
    body = DATA_KERNEL.format(symbol="pointer", use="s_load_dword s10, s[6:7], 0x0")
    data = ".data\n.p2align 3\n.globl values\n.type values,@object\nvalues:\n.long 17, 18\n.size values, 8\n"
    data += "pointer:\n.quad values + 4\n"

    assert set(run(kernel(body) + data + metadata_text("k")).ravel()) == {18}


def test_an_undefined_weak_symbol_is_null() -> None:
    body = DATA_KERNEL.format(symbol="pointer", use="s_add_u32 s10, s6, 3")
    data = ".weak nowhere\n.protected pointer\n.data\n.p2align 3\npointer:\n.quad nowhere\n"

    assert set(run(kernel(body) + data + metadata_text("k")).ravel()) == {3}


TWO_ROLES = """
v_readfirstlane_b32 s6, v0
s_cmp_lt_u32 s6, 64
s_cbranch_scc0 consumer
s_barrier
s_branch store
consumer:
s_movk_i32 s10, 6
s_barrier
store:
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32 v1, s10
v_lshlrev_b32 v2, 2, v0
s_waitcnt lgkmcnt(0)
global_store_dword v2, v1, s[4:5]
s_endpgm
"""
"""Two wavefronts that wait at different barriers."""


@pytest.mark.parametrize("language", ["", "OpenCL C"])
def test_barriers_have_no_names_in_assembly(language: str) -> None:
    metadata = (
        metadata_text("k").replace("    .symbol:", f"    .language: {language}\n    .symbol:") if language else metadata_text("k")
    )
    code_object = read_code_object(assemble_code_object(kernel_text("k", f"s_movk_i32 s10, 5\n{TWO_ROLES}") + metadata))

    with EmulatorBench(code_object, checks=frozenset({CheckKind.BARRIERS})) as bench:
        out = bench.buffer(np.zeros(128, np.int32))
        result = bench.launch("k", 1, 128, out)

        assert list(np.unique(bench.read(out).reshape(2, 64), axis=1).ravel()) == [5, 6]
    assert [f.check for f in result.findings] == (["barriers"] if language else [])


def test_a_label_does_not_end_a_kernel() -> None:
    text = kernel_text("k", f"s_movk_i32 s10, 5\nbehind:\n{STORE_S10}").replace(".size k, .-k\n", "")

    (kernel,) = read_code_object(assemble_code_object(f"{text}{metadata_text('k')}")).kernels

    assert kernel.code_bytes == 4 + len(assemble(STORE_S10.split("\n")))


def test_another_kernel_ends_a_kernel_of_unknown_size() -> None:
    first = kernel_text("k", "s_nop 0\ns_endpgm").replace(".size k, .-k\n", "").replace(".type k,@function\n", "")
    text = first + kernel_text("other", "s_endpgm").replace(".type other,@function\n", "").replace(".size other, .-other\n", "")

    kernels = read_code_object(assemble_code_object(text)).kernels

    assert {k.symbol: k.code_bytes for k in kernels} == {"k": 256, "other": 4}


@pytest.mark.parametrize(
    "way",
    [
        "s_add_u32 s6, s6, far-here\ns_addc_u32 s7, s7, 0",
        "s_add_u32 s6, s6, far-here\ns_addc_u32 s7, s7, (far-here)>>32",
        "s_add_i32 s8, far-here-4, 4\ns_add_u32 s6, s6, s8\ns_addc_u32 s7, s7, 0",  # Tensile
    ],
)
def test_a_long_branch_is_not_a_computed_jump(way: str) -> None:
    jump = f"s_getpc_b64 s[6:7]\nhere:\n{way}\ns_setpc_b64 s[6:7]\n.fill 40000, 4, 0xbf800000\nfar:\n"
    text = kernel_text("k", f"s_movk_i32 s10, 5\n{jump}{STORE_S10}") + metadata_text("k")

    assert (run(text) == 5).all()


@pytest.mark.parametrize(
    "way",
    [
        "s_add_u32 s6, s6, (again-here)&0xffffffff\ns_addc_u32 s7, s7, -1",
        "s_add_i32 s8, (again-here-4)&0xffffffff, 4\ns_abs_i32 s8, s8\ns_sub_u32 s6, s6, s8\ns_subb_u32 s7, s7, 0",  # Tensile
    ],
)
def test_a_long_branch_back_is_a_loop(way: str) -> None:
    back = (
        "s_movk_i32 s10, 0\nagain:\ns_add_u32 s10, s10, 3\ns_cmp_lt_u32 s10, 9\ns_cbranch_scc0 out\ns_getpc_b64 s[6:7]\nhere:\n"
        f"{way}\ns_setpc_b64 s[6:7]\nout:\n"
    )

    assert (run(kernel_text("k", back + STORE_S10) + metadata_text("k")) == 9).all()


def test_skipped_vector_instructions_are_refused() -> None:
    with pytest.raises(UnsupportedInstruction, match="skipped"):
        run(kernel("s_setvskip s2, 0\n") + metadata_text("k"))


def test_preloaded_arguments_without_a_prologue_are_refused() -> None:
    preload = ".amdhsa_user_sgpr_kernarg_preload_length 2\n  .amdhsa_kernarg_size 64"
    text = kernel("").replace(".amdhsa_kernarg_size 64", preload) + metadata_text("k")

    with pytest.raises(IllegalInstruction, match="256 bytes behind"):
        run(text)
