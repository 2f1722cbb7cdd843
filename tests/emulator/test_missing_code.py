"""Code that ends behind a call that does not return: no error unless a wavefront arrives there, on every architecture."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.errors import IllegalInstruction, UnsupportedInstruction
from rocm_perf_lab.emulator.faults import KernelAssertion, KernelTrap
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.listing import list_kernel
from tests.builders.assembly import assemble_code_object, kernel_text, metadata_text
from tests.builders.emulation import EmulatorBench, int32
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.toolchain.code_object import CodeObject

ARCHITECTURES = ["gfx90a", "gfx942", "gfx950"]

STORE = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32 v1, 9
v_lshlrev_b32 v2, 2, v0
s_waitcnt lgkmcnt(0)
global_store_dword v2, v1, s[4:5]
s_endpgm
"""
CALL_AT_THE_END = f"""
s_cmp_eq_u32 s2, 0
s_cbranch_scc0 1f
{STORE}
1:
s_getpc_b64 s[6:7]
s_add_u32 s6, s6, stop@rel32@lo+4
s_addc_u32 s7, s7, stop@rel32@hi+12
s_swappc_b64 s[30:31], s[6:7]
"""
"""Workgroup 0 stores 9; the others call `stop` at the end of the kernel."""
RETURNS, TRAPS = "s_setpc_b64 s[30:31]", "s_trap 2"
FUNCTION = ".text\n.p2align 8\n.type stop,@function\nstop:\n{body}\n.size stop, .-stop\n"
TABLE = f"""
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
in0:
{STORE}
in1:
{CALL_AT_THE_END.partition("1:")[2]}
"""
"""Jump by the number of the workgroup; the table of distances follows the call."""
ILLEGAL, HALF = ".long 0xffffffff\n", ".long 0xbf800000 + 0x20000000\n"


def code_object(function: str, behind: str, architecture: str, *, sized: bool = True, body: str = CALL_AT_THE_END) -> CodeObject:
    kernel = kernel_text("k", body).replace(".size k, .-k\n", ".size k, .-k\n" if sized else "")
    code, descriptor = kernel.split(".rodata", 1)
    text = f"{FUNCTION.format(body=function)}{code}{behind}\n.rodata{descriptor}"
    return read_code_object(assemble_code_object(text + metadata_text("k", target=architecture), cpu=architecture))


def launch(compiled: CodeObject, groups: int) -> LaunchResult:
    with EmulatorBench(compiled) as bench:
        out = bench.buffer(np.zeros(64, np.int32))
        result = bench.launch("k", groups, 64, out)
        assert set(bench.read(out)) == {9}
        return result


def end_of_text(compiled: CodeObject) -> int:
    section = parse_elf(compiled.data).section(".text")
    assert section is not None
    return section.address + section.size


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_end_of_the_code_behind_a_call_is_an_error_only_if_the_call_returns(architecture: str) -> None:
    returning = code_object(RETURNS, "", architecture)
    end = end_of_text(returning)
    launch(returning, 1)

    with pytest.raises(IllegalInstruction, match=f"kernel k: execution arrived at {end:#x}: the code of k ends there") as caught:
        launch(returning, 2)
    assert "s_setpc_b64 s[30:31]" in str(caught.value)
    assert "workgroup (1, 0, 0), wavefront 0" in str(caught.value)
    with pytest.raises(KernelTrap, match="trap 2"):
        launch(code_object(TRAPS, "", architecture), 2)


@pytest.mark.parametrize("sized", [True, False], ids=["with size", "without size"])
@pytest.mark.parametrize(
    ("behind", "reason"),
    [
        (".fill 64, 4, 0xbf800000\n", "the code ends there"),  # compilers pad with s_nop
        (ILLEGAL, "not an encoding of gfx942"),
        (HALF.replace("0xbf800000 + 0x20000000", "0xdc508000"), "the code ends inside this instruction"),
        ("v_mov_b32 v1, 0\n", "the code ends there"),
        ("s_cmp_eq_u32 s0, s0\ns_barrier\n", "the code ends there"),
        ("s_cmp_eq_u32 s0, s0\ns_cbranch_scc0 k\n", "the code ends there"),
        ("s_cmp_eq_u32 s0, s0\n.long 0xbf850f00\n", "outside of the code"),  # s_cbranch_scc1
    ],
    ids=["padding", "data", "truncated", "ordinary", "barrier", "branch", "branch out of the code"],
)
def test_anything_may_follow_a_call_that_does_not_return(behind: str, reason: str, sized: bool) -> None:
    returning = code_object(RETURNS, behind, "gfx942", sized=sized)
    launch(returning, 1)
    launch(code_object(TRAPS, behind, "gfx942", sized=sized), 1)

    with pytest.raises(IllegalInstruction, match="the code of k ends there" if sized else reason):
        launch(returning, 2)


def test_an_unsupported_instruction_behind_a_call_is_an_error_if_it_is_reached() -> None:
    returning = code_object(RETURNS, "s_setvskip s2, 0\ns_endpgm", "gfx942", sized=False)
    launch(returning, 1)

    with pytest.raises(UnsupportedInstruction, match=r"arrived at .* does not support s_setvskip"):
        launch(returning, 2)
    before = CALL_AT_THE_END.replace("1:\n", "1:\ns_setvskip s2, 0\n")
    with pytest.raises(UnsupportedInstruction, match="s_setvskip"):
        launch(code_object(RETURNS, "", "gfx942", body=before), 1)


def test_an_illegal_instruction_before_any_call_is_an_error_before_the_launch() -> None:
    before = CALL_AT_THE_END.replace("1:\n", f"1:\n{ILLEGAL}")

    with pytest.raises(IllegalInstruction, match="not an encoding of gfx942"):
        launch(code_object(RETURNS, "", "gfx942", body=before), 1)


def test_another_kernel_behind_a_call_is_not_executed() -> None:
    other = ".p2align 8\n.globl other\n.type other,@function\nother:\ns_setvskip s2, 0\ns_endpgm\n.size other, .-other\n"
    returning = code_object(RETURNS, other, "gfx942")
    result = launch(returning, 1)

    addresses = {i.address for i in result.program.instructions}
    start = parse_elf(returning.data).symbols["other"].address
    assert max(addresses) < start
    with pytest.raises(IllegalInstruction, match="the code of k ends there"):
        launch(returning, 2)


def test_a_jump_table_behind_a_call() -> None:
    compiled = code_object(TRAPS, "table:\n.long in0 - base, in1 - base\n", "gfx942", sized=False, body=TABLE)

    launch(compiled, 1)
    with pytest.raises(KernelTrap, match="trap 2"):
        launch(compiled, 2)


@pytest.mark.parametrize("last", ["s_trap 1", "s_barrier", "s_sleep 1", "v_mov_b32 v1, 0", "s_cbranch_scc0 out"])
def test_code_without_an_end_is_an_error_where_it_ends(last: str) -> None:
    stored = STORE.replace("s_endpgm", "out:\ns_endpgm")
    body = f"s_cmp_eq_u32 s2, 0\ns_cbranch_scc0 1f\n{stored}\n1:\ns_cmp_eq_u32 s2, s2\n{last}\n"
    compiled = code_object(TRAPS, "", "gfx942", body=body)
    launch(compiled, 1)

    if last == "s_trap 1":
        with pytest.raises(KernelTrap, match="trap 1"):
            launch(compiled, 2)
        return
    with pytest.raises(IllegalInstruction, match=f"arrived at {end_of_text(compiled):#x}: the code of k ends there"):
        launch(compiled, 2)


ASSERTS = r"""
#include <hip/hip_runtime.h>
#include <cassert>
[[noreturn]] __device__ __attribute__((noinline)) void stop(int* x) {
  x[1] = 7;
  __builtin_trap();
}
extern "C" __global__ void stops(int* x, int n) {
  if (x[threadIdx.x] < n) { x[threadIdx.x] += 1; return; }
  stop(x);
}
extern "C" __global__ void checks(int* x, int n) {
  assert(x[threadIdx.x] < n);
  x[threadIdx.x] += 1;
}
"""


@pytest.mark.parametrize(
    ("architecture", "optimisation"),
    [("gfx90a", "-O0"), ("gfx942", "-O3"), pytest.param("gfx950", "-O1", marks=pytest.mark.slow)],
)
def test_functions_that_do_not_return_and_assertions(architecture: str, optimisation: str) -> None:
    with TemporaryDirectory() as directory:
        flags = ("-g", "-mcode-object-version=5")
        compiled = build_hip(
            ASSERTS, Path(directory), architecture=architecture, optimisation=optimisation, flags=flags
        ).code_object
    line = ASSERTS.splitlines().index("  assert(x[threadIdx.x] < n);") + 1
    numbers = np.arange(64, dtype=np.int32)
    for kernel, error, message in (
        ("stops", KernelTrap, "trap 2"),
        ("checks", KernelAssertion, r"assertion `x\[threadIdx.x\] < n` failed"),
    ):
        with EmulatorBench(compiled) as bench:
            x = bench.buffer(numbers)
            result = bench.launch(kernel, 1, 64, x, int32(64))
            np.testing.assert_array_equal(bench.read(x), numbers + 1)
            assert result.host_calls == 0
            with pytest.raises(error, match=message) as caught:
                bench.launch(kernel, 1, 64, x, int32(64))
        if kernel == "checks":
            assert f"kernel.hip:{line}" in str(caught.value)
            assert f"kernel.hip:{line}: checks: Device-side assertion" in "".join(p.text for p in caught.value.printed)
    kernels = {kernel.name: kernel for kernel in compiled.kernels}
    listing = list_kernel(compiled, kernels["stops"], with_source=True)
    assert sum(len(i.encoding) for i in listing.instructions) == kernels["stops"].code_bytes
