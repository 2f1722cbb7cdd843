"""Passes of every matrix instruction against the wait states that the compiler inserts behind it.

LLVM's hazard recognizer derives them from the passes of its scheduling model (GCNHazardRecognizer.cpp, SISchedule.td).
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from itertools import product

import pytest

from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.matrix_opcodes import MatrixShape, matrix_call, matrix_mnemonics, module

ARCHITECTURES = ("gfx90a", "gfx942", "gfx950")
DEFAULT = (0, 0)
MORE_FORMATS = [(a, b) for a, b in product(range(5), repeat=2) if (a, b) != DEFAULT]


def cases(architecture: str) -> list[tuple[str, tuple[int, int]]]:
    """Return every matrix instruction, those of f8f6f4 with every pair of formats."""
    names = matrix_mnemonics(architecture)
    formats = [(name, pair) for name in names if "F8F6F4" in name for pair in MORE_FORMATS]
    return [*((name, DEFAULT) for name in names), *formats]


@cache
def wait_states(architecture: str) -> list[int]:
    """Return the wait states between each instruction and the use of its result, in order of the cases."""
    compiler = find_compiler(("clang", "pip"))
    source = module([matrix_call(name, formats) for name, formats in cases(architecture)])
    command = [*compiler.command, "-x", "ir", "-", "-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-nogpulib"]
    options = ["-O1", "-S", "-o", "-", "-Wno-override-module"]
    text = subprocess.run([*command, *options], input=source, text=True, capture_output=True, check=True).stdout
    return [_waits(text.split(f"\nk{number}:")[1].split("s_endpgm")[0]) for number in range(len(cases(architecture)))]


def _waits(kernel: str) -> int:
    following = re.split(r"\tv_s?mfmac?_.*\n", kernel)[-1]
    before_use = re.split(r"\t(?:global_store|v_add_f64|v_pk_add)", following)[0]
    assert not re.findall(r"^\t(?!s_nop)[a-z]", before_use, re.MULTILINE)
    return sum(int(count) + 1 for count in re.findall(r"\ts_nop (\d+)", before_use))


def expected(architecture: str, name: str, passes: int) -> int:
    """Return the wait states after a product of so many passes: before arithmetic for float64, else before a store."""
    shape = MatrixShape.of(name)
    if shape.result == "F64":
        return {4: 6, 8: 11, 16: 19}[passes]
    is_simple = shape.elements == "F32" and architecture != "gfx90a"  # float32 products have a shorter pipeline there
    longer = architecture == "gfx950" and passes != 2 and not is_simple
    return passes + (2 if is_simple else 3) + longer


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_passes_are_those_of_the_compiler_for_every_matrix_instruction(architecture: str) -> None:
    isa = instruction_set(architecture)
    passes = [isa.passes(f"{name.lower()} cbsz:{a} blgp:{b}") for name, (a, b) in cases(architecture)]

    found = [
        None if one is None else expected(architecture, name, one)
        for (name, _), one in zip(cases(architecture), passes, strict=True)
    ]

    assert len(set(wait_states(architecture))) >= 4
    assert dict(zip(cases(architecture), found, strict=True)) == dict(
        zip(cases(architecture), wait_states(architecture), strict=True)
    )


def test_every_architecture_has_its_matrix_instructions() -> None:
    assert {one: len(matrix_mnemonics(one)) for one in ARCHITECTURES} == {"gfx90a": 27, "gfx942": 46, "gfx950": 68}
