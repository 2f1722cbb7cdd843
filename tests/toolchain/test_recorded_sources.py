"""Sources in the debug information of a code object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.recorded_sources import recorded_unit

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '#include <hip/hip_runtime.h>\nextern "C" __global__ void k(int* p) { p[0] = 7; }\n'


def test_embedded_sources_and_the_command_are_read(tmp_path: Path) -> None:
    source = tmp_path / "k.hip"
    source.write_text(SOURCE)
    flags = ("-g", "-gembed-source", "-grecord-command-line", "-DUNUSED=12")
    code_object = compile_source(CompileRequest(source, flags=flags)).code_object

    unit = recorded_unit(code_object, code_object.kernels[0])

    assert unit is not None
    assert unit.source.name == "k.hip"
    assert SOURCE in unit.embedded.values()
    assert "UNUSED=12" in unit.command or "-DUNUSED=12" in unit.command


def test_a_code_object_without_debug_information_has_no_unit(tmp_path: Path) -> None:
    source = tmp_path / "k.hip"
    source.write_text(SOURCE)
    code_object = compile_source(CompileRequest(source, line_tables=False)).code_object

    assert recorded_unit(code_object, code_object.kernels[0]) is None
