"""Thread traces of the emulator, by architecture: written, read back and analysed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.rocprof.att.directories import find_directories
from rocm_perf_lab.rocprof.att.model import Category, Column
from rocm_perf_lab.rocprof.att.reader import read_directory
from rocm_perf_lab.toolchain.disassembly import disassemble
from tests.builders.command import rocm_perf
from tests.builders.kernels import build_hip
from tests.builders.targets import target_of

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.toolchain.code_object import CodeObject

ARCHITECTURES = ("gfx90a", "gfx942", "gfx950")
SOURCE = """\
#include <hip/hip_runtime.h>
typedef float float4v __attribute__((ext_vector_type(4)));
typedef int int8v __attribute__((ext_vector_type(8)));
typedef short short4v __attribute__((ext_vector_type(4)));
__global__ void product(const int* a, float* out) {
  __shared__ int tile[512];
  for (int k = threadIdx.x; k < 512; k += 64) tile[k] = a[k];
  __syncthreads();
  float4v sum = {};
  for (int k = 0; k < 4; k++) {
#ifdef __gfx950__
    int8v x = *(int8v*)&tile[8 * threadIdx.x];
    sum = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, x, sum, 0, 0, 0, 127, 0, 127);
#else
    short4v x = *(short4v*)&tile[2 * threadIdx.x];
    sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, x, sum, 0, 0, 0);
#endif
  }
  out[threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}
"""
PRODUCTS = {
    "gfx90a": "v_mfma_f32_16x16x16bf16_1k",
    "gfx942": "v_mfma_f32_16x16x16_bf16",
    "gfx950": "v_mfma_scale_f32_16x16x128_f8f6f4",
}
CLOCKS = {"gfx90a": 32, "gfx942": 16, "gfx950": 32}
"""A product of 8-bit operands by the f8f6f4 instruction has 8 passes."""


def traced(architecture: str, directory: Path) -> tuple[CodeObject, Path]:
    """Run the kernel with a thread trace; return its code object and the directory of the trace."""
    buffer = {"kind": "buffer", "dtype": "i32", "shape": [512]}
    description = KernelDescription.model_validate({
        "name": "product", "source": "kernel.hip", "entry": "product", "directory": directory, "grid": [4], "block": [64],
        "arguments": [
            {"name": "a", **buffer, "init": {"kind": "integers", "seed": 1, "low": 0, "high": 100}},
            {"name": "out", **buffer, "dtype": "f32", "access": "out"},
        ],
    })  # fmt: skip
    code_object = build_hip(SOURCE, directory, architecture=architecture).code_object
    launch = build_launch(description, code_object, code_object.kernels[0].symbol)
    device = EmulatorDevice(target=target_of(architecture), threads=1)
    device.run(launch, database=directory / "run_results.db", runs=1, counters=["SQ_WAVES"], att=directory / "att")
    (found,) = find_directories(directory / "att")
    return code_object, found


@pytest.fixture(scope="module", params=ARCHITECTURES)
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, CodeObject, Path, AttTrace]:
    code_object, directory = traced(request.param, tmp_path_factory.mktemp("trace"))
    return request.param, code_object, directory, read_directory(directory)


def test_a_trace_names_its_architecture_and_generation(trace: tuple[str, CodeObject, Path, AttTrace]) -> None:
    architecture, _, _, found = trace

    assert found.notes == ()
    assert (found.provenance.architecture, found.provenance.gfxip, found.provenance.emulated) == (architecture, 9, True)


def test_its_instructions_are_those_of_the_disassembly(trace: tuple[str, CodeObject, Path, AttTrace]) -> None:
    architecture, code_object, _, found = trace
    listing = disassemble(code_object, code_object.kernels[0].symbol)

    executed = {row.address: row.text for row in found.rows if row.hits}
    assert executed
    assert executed.items() <= {line.address: line.text for line in listing}.items()
    assert any(text.startswith(PRODUCTS[architecture]) for text in executed.values())


def test_every_wavefront_executes_its_products(trace: tuple[str, CodeObject, Path, AttTrace]) -> None:
    architecture, _, _, found = trace
    products = {row.line for row in found.rows if row.mnemonic == PRODUCTS[architecture]}

    for wave in found.waves:
        mine = [row for row in wave.instructions.tolist() if row[Column.LINE] in products]
        assert len(mine) == 4
        assert {row[Column.CATEGORY] for row in mine} == {Category.VALU}


def test_the_analysis_accounts_for_all_cycles_with_the_rates_of_the_architecture(
    trace: tuple[str, CodeObject, Path, AttTrace],
) -> None:
    architecture, _, directory, found = trace

    result = analyse(found)
    answer = rocm_perf("analyze", directory, "--json", "--output", directory.parent / "analysis")

    assert isinstance(result, ThreadTrace)
    assert result.total.cycles == sum(wave.cycles for wave in found.waves)
    assert load_architecture(architecture).matrix_clocks(PRODUCTS[architecture] + " v0, v1, v2, v3") == CLOCKS[architecture]
    assert answer.code == 0, answer.err
    assert PRODUCTS[architecture] in answer.out
