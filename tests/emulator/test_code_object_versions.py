"""Code objects of versions 2 to 6, compiled by LLVM 14 (`tests/data/code_objects`) and by the installed compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.emulation import EmulatorBench, int32
from tests.builders.kernels import build_hip

DATA = Path(__file__).parent.parent / "data" / "code_objects"
GFX90A_MACHINE, MACHINE_OFFSET = 0x3F, 48
OFFSETS = {f"hidden_global_offset_{axis}": 16 + 8 * n for n, axis in enumerate("xyz")}
HIP = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void shape(int* out) {
  int group = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    int* row = out + 6 * group;
    row[0] = gridDim.x; row[1] = gridDim.y; row[2] = gridDim.z;
    row[3] = blockDim.x; row[4] = blockDim.y; row[5] = blockDim.z;
  }
}
"""


@pytest.mark.parametrize(
    ("name", "version", "target"),
    [
        ("version2-gfx906", 2, "gfx90a"),
        ("version3-gfx90a", 3, "gfx90a:sramecc+:xnack+"),  # its compiler wrote settings that may be either as on
        ("version4-gfx90a", 4, "gfx90a"),
        ("version5-gfx90a", 5, "gfx90a"),
    ],
)
def test_code_objects_of_llvm_14_run(name: str, version: int, target: str) -> None:
    data = bytearray((DATA / f"{name}.hsaco").read_bytes())
    data[MACHINE_OFFSET] = GFX90A_MACHINE  # no compiler writes version 2 for a processor that the emulator executes

    code_object = read_code_object(bytes(data))
    with EmulatorBench(code_object) as bench:
        out = bench.buffer(np.zeros(3 * 128, np.int32))
        bench.launch("ids", 3, 128, out, b"\5", int32(7))
        values = bench.read(out)

    assert parse_elf(bytes(data)).abi_version == version - 2
    assert code_object.target_id == target
    hidden = 3 << 20 if version == 5 else 0
    np.testing.assert_array_equal(values, 7 * np.arange(384) + hidden)


def test_version_2_of_a_compiler_has_the_arguments_of_version_3() -> None:
    (second,) = read_code_object((DATA / "version2-gfx906.hsaco").read_bytes()).kernels
    (third,) = read_code_object((DATA / "version3-gfx90a.hsaco").read_bytes()).kernels

    assert [(a.value_kind, a.offset, a.size) for a in second.arguments] == [
        (a.value_kind, a.offset, a.size) for a in third.arguments
    ]
    assert OFFSETS.items() <= {a.value_kind: a.offset for a in second.arguments}.items()
    assert (second.kernarg_bytes, second.max_flat_workgroup_size) == (third.kernarg_bytes, 256)


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("architecture", ["gfx90a", pytest.param("gfx942", marks=pytest.mark.slow)])
def test_hidden_arguments_of_each_version_give_the_shape_of_the_launch(version: int, architecture: str, tmp_path: Path) -> None:
    flags = (f"-mcode-object-version={version}",)
    code_object = build_hip(HIP, tmp_path, architecture=architecture, flags=flags).code_object
    with EmulatorBench(code_object) as bench:
        out = bench.buffer(np.zeros(6 * 30, np.int32))
        bench.launch("shape", (5, 3, 2), (8, 4, 2), out)
        rows = bench.read(out).reshape(30, 6)

    kinds = {argument.value_kind for argument in code_object.kernels[0].arguments}
    assert ("hidden_block_count_x" in kinds) == (version >= 5)
    assert parse_elf(code_object.data).abi_version == version - 2
    np.testing.assert_array_equal(rows, np.tile([5, 3, 2, 8, 4, 2], (30, 1)))
