"""Kernels, modules, symbols and graphs: output of rocm-perf-lab's HIP runtime and of AMD's for the same executable."""

import subprocess
import sys
from pathlib import Path

import pytest

from rocm_perf_lab.runtime.hip_compilation import RuntimeCompilation, compile_at_run_time
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.rocm_programs import RocmPrograms

pytestmark = pytest.mark.slow


def test_launches_attributes_symbols_and_graphs_are_those_of_amds_runtime(rocm_programs: RocmPrograms) -> None:
    program = rocm_programs.compile("launches")
    expected = rocm_programs.run([program])
    assert expected.returncode == 0, expected.stderr
    rocm_perf = Path(sys.executable).with_name("rocm-perf")
    command = [str(rocm_perf), "run", "--runtime", "lab", "--", str(program)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == expected.stdout.splitlines()


def test_run_time_compilation_lowers_names(tmp_path: Path) -> None:
    source = b"template<class T> __global__ void set(T* x) { *x = VALUE; }\nnamespace a { __device__ int v; }\n"
    program = RuntimeCompilation("gfx942", source, "p.hip", ("-DVALUE=2",), (), ("set<float>", "&a::v"))
    compiled = compile_at_run_time(program, tmp_path)
    assert compiled.names == ("_Z3setIfEvPT_", "_ZN1a1vE")
    assert compiled.code is not None
    assert "_Z3setIfEvPT_.kd" in parse_elf(compiled.code).symbols


def test_errors_of_run_time_compilation_name_the_program(tmp_path: Path) -> None:
    program = RuntimeCompilation(
        "gfx942", b'#include "h.h"\n__device__ int x = Q + missing;', "p.hip", (), (("h.h", b"#define Q 4\n"),)
    )
    compiled = compile_at_run_time(program, tmp_path)
    assert compiled.code is None
    assert "p.hip:2:24: error: use of undeclared identifier 'missing'" in compiled.log
