"""Source lines of instructions, with inlined functions of headers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.source_lines import SourceLine, line_table, line_table_of_file
from tests.builders.kernels import VEC_COPY, build_hip, write_source

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.code_object import CodeObject


def test_every_instruction_of_vec_copy_has_its_line(vec_copy: CodeObject) -> None:
    line_of = line_table(vec_copy)
    lines = {line.text: line_of(line.address) for line in disassemble(vec_copy, "vecCopy")}

    # blockIdx and threadIdx are functions of HIP headers: their instructions are attributed to the calling line.
    assert lines["v_add_u32_e32 v0, s2, v0"] == SourceLine("kernel.hip", 3)
    assert lines["s_load_dword s3, s[0:1], 0x2c"] == SourceLine("kernel.hip", 3)
    assert lines["s_and_saveexec_b64 s[2:3], vcc"] == SourceLine("kernel.hip", 4)
    assert lines["global_store_dwordx2 v[0:1], v[2:3], off"] == SourceLine("kernel.hip", 4)
    assert lines["s_endpgm"] == SourceLine("kernel.hip", 5)


def test_lines_of_a_file_are_those_of_the_whole_table(vec_copy: CodeObject) -> None:
    whole, by_unit = line_table(vec_copy), line_table_of_file(vec_copy.data)
    addresses = [line.address for line in disassemble(vec_copy, "vecCopy")]

    assert [by_unit(address) for address in addresses] == [whole(address) for address in addresses]
    assert by_unit(0) is None


def test_an_inlined_function_of_the_user_keeps_its_lines(tmp_path: Path) -> None:
    source = "\n".join(
        [
            "#include <hip/hip_runtime.h>",
            "__device__ float cube(float x) {",
            "  return x * x * x;",
            "}",
            'extern "C" __global__ void k(float* a) {',
            "  a[threadIdx.x] = cube(a[threadIdx.x]);",
            "}",
        ]
    )
    code_object = build_hip(source, tmp_path).code_object
    line_of = line_table(code_object)

    multiplications = [line for line in disassemble(code_object, "k") if line.mnemonic.startswith("v_mul_f32")]

    assert len(multiplications) == 2
    assert {line_of(line.address) for line in multiplications} == {SourceLine("kernel.hip", 3)}


def test_addresses_outside_of_the_code_have_no_line(vec_copy: CodeObject) -> None:
    (kernel,) = vec_copy.kernels
    line_of = line_table(vec_copy)

    assert line_of(kernel.entry_address - 4) is None
    assert line_of(kernel.entry_address + kernel.code_bytes) is None


def test_without_line_tables_there_are_no_lines(tmp_path: Path) -> None:
    request = CompileRequest(write_source(VEC_COPY, tmp_path), line_tables=False)
    code_object = compile_source(request).code_object

    assert line_table(code_object)(code_object.kernels[0].entry_address) is None


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_debug_information_is_read_or_reported(vec_copy: CodeObject, data: st.DataObject) -> None:
    debug = [section for section in parse_elf(vec_copy.data).sections if section.name.startswith(".debug_")]
    damaged = bytearray(vec_copy.data)
    for section, value in data.draw(st.lists(st.tuples(st.sampled_from(debug), st.integers(0, 255)), max_size=4)):
        damaged[section.offset + data.draw(st.integers(0, section.size - 1))] = value

    try:
        line = line_table(replace(vec_copy, data=bytes(damaged)))(vec_copy.kernels[0].entry_address)
    except CodeObjectError as refusal:
        assert "debug information" in refusal.what
    else:
        assert line is None or line.line > 0
