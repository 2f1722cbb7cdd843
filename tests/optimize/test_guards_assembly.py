"""Inline assembly that is allowed by configuration: effects that outputs and clobbers do not name are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from tests.builders.guard_snippets import experiment, guard_outcome, guards_of

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "  sum = partial[0];\n"
VARIABLES = "  typedef float f2 __attribute__((ext_vector_type(2)));\n  f2 pair = {sum, sum};\n  long ticks = 0;\n"
RIGHT = (
    r'asm volatile("v_add_f32 %0, %1, %2" : "=v"(sum) : "v"(sum), "v"(largest));',
    r'asm volatile("s_nop 1\n\tv_mov_b32_dpp %0, %1 row_shr:1 row_mask:0xf bank_mask:0xf" : "=v"(sum) : "v"(largest));',
    r'asm("s_add_u32 %0, %1, 1" : "=s"(cols) : "s"(cols) : "scc");',
    r'asm volatile("v_cmp_lt_f32 vcc, %1, %2\n\tv_cndmask_b32 %0, %1, %2, vcc" : "=v"(sum) : "v"(sum), "v"(largest) : "vcc");',
    r'asm volatile("global_load_dword %0, %1, off\n\ts_waitcnt vmcnt(0)" : "=v"(sum) : "v"(row_in) : "memory");',
    r'asm volatile("" ::: "memory");',
    r'asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory");',
    r'asm volatile("v_pk_fma_f32 %[d], %[a], %[a], %[a]" : [d] "=v"(pair) : [a] "v"(pair));',
    r'asm("v_readfirstlane_b32 %0, %1" : "=s"(cols) : "v"(cols));',
    r'asm("v_mov_b32 %0, 0\n\tv_add_f32 %0, %0, %1" : "=&v"(sum) : "v"(largest));',
)
WRONG = (
    (r'asm volatile("v_mov_b32 v7, %0" :: "v"(sum));', "writes v7"),
    (r'asm volatile("s_add_u32 %0, %1, 1" : "=s"(cols) : "s"(cols));', "writes scc"),
    (r'asm volatile("v_cmp_lt_f32 vcc, %0, %1" :: "v"(sum), "v"(largest));', "writes vcc"),
    (r'asm volatile("s_mov_b64 exec, -1");', "writes exec"),
    (r'asm volatile("s_mov_b32 m0, 0");', "writes m0"),
    (r'asm volatile("s_memtime %0\n\ts_waitcnt lgkmcnt(0)" : "=s"(ticks));', "s_memtime"),
    (r'asm volatile("s_endpgm");', "s_endpgm"),
    (r'asm volatile("s_sleep 10");', "s_sleep"),
    (r'asm volatile("s_barrier");', "s_barrier"),
    (r'asm volatile("s_getreg_b32 %0, hwreg(HW_REG_HW_ID)" : "=s"(cols));', "s_getreg"),
    (r'asm volatile(".incbin \"/etc/hostname\"");', "directive"),
    (r'asm volatile("x: .long 0");', "the directive .long 0"),
    (r'asm volatile("/* a */.incbin \"/etc/hostname\"");', "the directive .incbin"),
    (r'asm volatile("{.incbin \"/etc/hostname\"|s_nop 0}");', "the directive .incbin"),
    (r'asm volatile("\x2eincbin \"/etc/hostname\"");', "escape sequences"),
    (r'asm volatile("s_mov_b64 exec, 0" ::: "exec");', "writes exec"),
    (r'asm volatile("v_swap_b32 %0, %1" : "+v"(sum) : "v"(largest));', "neither an output"),
    (r'asm("v_mov_b32 %0, 0\n\tv_add_f32 %0, %0, %1" : "=v"(sum) : "v"(largest));', "has no &"),
    (r'asm volatile("global_load_dword %0, %1, off" : "=v"(sum) : "v"(row_in) : "memory");', "does not wait"),
    (r'asm volatile("global_store_dword %0, %1, off\n\ts_waitcnt vmcnt(0)" :: "v"(row_out), "v"(sum));', "clobber memory"),
    (r'asm volatile("v_mov_b32_dpp %0, %1 row_shr:1 row_mask:0xf bank_mask:0xf" : "=v"(sum) : "v"(largest));', "s_nop 1"),
    (r'asm volatile("v_mov_b32 %0, %1\n\tv_mov_b32 %1, 0" : "=v"(sum) : "v"(largest));', "neither an output"),
)


def _with(statement: str) -> str:
    text = experiment("softmax").source_path.read_text()
    return text.replace(PLACE, f"{PLACE}{VARIABLES}  {statement}\n  sum += 0 * pair.x + ticks;\n")


@pytest.mark.slow
@pytest.mark.parametrize("statement", RIGHT)
def test_declared_effects_are_allowed(statement: str, tmp_path: Path) -> None:
    assert guard_outcome("softmax", _with(statement), tmp_path, guards_of("allowed"))[:2] == ("none", "")


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "says"), WRONG)
def test_other_effects_are_refused(statement: str, says: str, tmp_path: Path) -> None:
    stage, reason, _ = guard_outcome("softmax", _with(statement), tmp_path, guards_of("allowed"))

    assert stage == "guard"
    assert says in reason


def test_assembly_is_refused_by_default_before_compilation(tmp_path: Path) -> None:
    source = _with(RIGHT[0])
    line = 1 + source[: source.index("asm")].count("\n")

    stage, reason, _ = guard_outcome("softmax", source + "\nthis does not compile", tmp_path, guards_of())

    assert (stage, reason) == ("guard", f"assembly: inline assembly (line {line})")


def test_a_wrong_setting_is_an_error() -> None:
    with pytest.raises(LabError, match="inline_assembly is 'yes', not refused or allowed"):
        guards_of("yes")
