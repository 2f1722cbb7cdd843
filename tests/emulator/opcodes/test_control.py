"""Code behind instructions that do not go on."""

from __future__ import annotations

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.jit import compile_program
from rocm_perf_lab.emulator.program import decode_program
from tests.builders.opcodes import assemble


def test_nothing_behind_an_abort_is_decoded() -> None:
    code = assemble(["s_cbranch_scc1 1f", "s_endpgm", "1:", "s_trap 2", ".long 0xffffffff"])
    program = decode_program("abort", code, 0, (0,), 0)

    assert [i.mnemonic for i in program.instructions] == ["S_CBRANCH_SCC1", "S_ENDPGM", "S_TRAP"]
    assert compile_program(program, load_runtime().helpers).address
