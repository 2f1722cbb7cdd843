"""Labels of a listing: branch targets are decoded from the encoding."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.disassembly import AssemblyLine
from rocm_perf_lab.toolchain.listing import branch_target, list_kernel

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject


def line(text: str, *words: int) -> AssemblyLine:
    return AssemblyLine(0x1000, struct.pack(f"<{len(words)}I", *words), text)


@pytest.mark.parametrize(
    ("instruction", "target"),
    [
        (line("s_branch 2", 0xBF820002), 0x100C),
        (line("s_cbranch_scc1 65535", 0xBF85FFFF), 0x1000),
        (line("s_cbranch_execz 32768", 0xBF888000), 0x1004 - 4 * 0x8000),
        (line("s_call_b64 s[4:5], 1", 0xBA840001), 0x1008),
        (line("s_nop 2", 0xBF800002), None),
        (line("s_endpgm", 0xBF810000), None),
        (line("s_cbranch_g_fork s[0:1], s[2:3]", 0x94800200), None),
        (line(".long 0xffffffff", 0xFFFFFFFF), None),
    ],
)
def test_a_branch_counts_dwords_from_the_next_instruction(instruction: AssemblyLine, target: int | None) -> None:
    assert branch_target(instruction) == target


def test_a_listing_without_source_has_no_lines(vec_copy: CodeObject) -> None:
    (kernel,) = vec_copy.kernels
    without, with_lines = (list_kernel(vec_copy, kernel, with_source=source) for source in (False, True))

    assert {i.source for i in without.instructions} == {None}
    assert {i.source.file for i in with_lines.instructions if i.source} == {"kernel.hip"}
    assert [(i.address, i.text) for i in without.instructions] == [(i.address, i.text) for i in with_lines.instructions]
