"""Hidden arguments of HIP kernels in every code object version: values, placeholders, and missing services."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.faults import MissingService
from rocm_perf_lab.emulator.kernarg import hidden_values, pack_kernarg, service_at
from tests.builders.emulation import EmulatorBench, int32
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = """
#include <hip/hip_runtime.h>
extern "C" __global__ void copy_hidden(int* out) {
  const __attribute__((address_space(4))) int* hidden =
      (const __attribute__((address_space(4))) int*)__builtin_amdgcn_implicitarg_ptr();
  if (blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x + threadIdx.y + threadIdx.z == 0)
    for (int i = 0; i < WORDS; i++) out[i] = hidden[i];
}
extern "C" __global__ void allocates(int* x, int when) {
  if (x[threadIdx.x] == when) { int* p = (int*)malloc(64); p[0] = 1; x[threadIdx.x] = p[0]; }
  x[threadIdx.x]++;
}
extern "C" __global__ void enqueues(int* x, int when) {
  const __attribute__((address_space(4))) long* hidden =
      (const __attribute__((address_space(4))) long*)__builtin_amdgcn_implicitarg_ptr();
  if (x[threadIdx.x] == when) x[threadIdx.x] = *(int*)hidden[DEFAULT_QUEUE];
  x[threadIdx.x]++;
}
extern "C" __global__ void sizes(int* out) {
  int l = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if (blockIdx.x || blockIdx.y || blockIdx.z || l) return;
  int all[] = {(int)gridDim.x, (int)gridDim.y, (int)gridDim.z, (int)blockDim.x, (int)blockDim.y, (int)blockDim.z,
               (int)__ockl_get_num_groups(0), (int)__ockl_get_local_size(1)};
  for (int i = 0; i < 8; i++) out[i] = all[i];
}
"""
GRID, BLOCK, LDS = (3, 4, 5), (8, 4, 2), 1024
WORDS_OF_VERSION = {4: 14, 5: 64, 6: 64}
DEFAULT_QUEUE_OF_VERSION = {4: 4, 5: 13, 6: 13}
"""Index of hidden_default_queue in 8-byte words."""


def code_object(version: int) -> CodeObject:
    with TemporaryDirectory() as directory:
        flags = (f"-mcode-object-version={version}",)
        defines = {"WORDS": WORDS_OF_VERSION[version], "DEFAULT_QUEUE": DEFAULT_QUEUE_OF_VERSION[version]}
        return build_hip(SOURCE, Path(directory), flags=flags, defines=defines).code_object


@pytest.mark.parametrize("version", [5, 6])
def test_the_block_of_hidden_arguments_is_laid_out_as_documented(version: int) -> None:
    """LLVM user guide for AMDGPU, table of the implicit kernel arguments of version 5."""
    with EmulatorBench(code_object(version)) as bench:
        out = bench.buffer(np.full(64, -1, np.int32))
        bench.launch("copy_hidden", GRID, BLOCK, out, lds=LDS)
        block = bench.machine.read(out)

    assert struct.unpack_from("<3I", block, 0) == GRID
    assert struct.unpack_from("<3H", block, 12) == BLOCK
    assert struct.unpack_from("<3H", block, 18) == (0, 0, 0)
    assert struct.unpack_from("<3Q", block, 40) == (0, 0, 0)
    assert struct.unpack_from("<H", block, 64) == (3,)
    printf_buffer, hostcall, multigrid, heap, queue, completion = struct.unpack_from("<6Q", block, 72)
    assert multigrid == 0
    for address, name in ((printf_buffer, "hidden_printf_buffer"), (hostcall, "hidden_hostcall_buffer"), (heap, "hidden_heap_v1"),
                          (queue, "hidden_default_queue"), (completion, "hidden_completion_action")):  # fmt: skip
        service = service_at(address)
        assert address == 0 or (service is not None and service.argument == name)
    kinds = {argument.value_kind for argument in code_object(version).kernels[2].arguments}
    if "hidden_dynamic_lds_size" in kinds:
        assert struct.unpack_from("<I", block, 120) == (LDS,)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_sizes_of_the_grid_are_right_in_every_version(version: int) -> None:
    with EmulatorBench(code_object(version)) as bench:
        out = bench.buffer(np.full(8, -1, np.int32))
        bench.launch("sizes", GRID, BLOCK, out)

        assert list(bench.read(out)) == [*GRID, *BLOCK, 3, 4]


def test_every_hidden_argument_that_compilers_know_has_a_value_or_is_zero() -> None:
    values = hidden_values(Geometry(GRID, BLOCK, LDS))

    assert values["hidden_dynamic_lds_size"] == LDS
    assert (values["hidden_private_base"], values["hidden_shared_base"]) == (0x7FFE_0000, 0x7FFF_0000)
    absent = {"hidden_none", "hidden_multigrid_sync_arg", "hidden_global_offset_x"}
    assert not absent & values.keys()
    assert values["hidden_remainder_z"] == 0


def test_services_of_a_kernel_are_at_the_offsets_of_its_metadata() -> None:
    kernel = next(k for k in code_object(5).kernels if k.symbol == "allocates")
    places = {a.value_kind: a.offset for a in kernel.arguments}
    segment = pack_kernarg(kernel, [0x1000, int32(1)], Geometry((1, 1, 1), (64, 1, 1)))

    for name in ("hidden_hostcall_buffer", "hidden_heap_v1"):
        service = service_at(*struct.unpack_from("<Q", segment, places[name]))
        assert service is not None
        assert service.argument == name


def test_a_kernel_that_does_not_use_its_services_runs() -> None:
    with EmulatorBench(code_object(5)) as bench:
        x = bench.buffer(np.arange(64, dtype=np.int32))
        bench.launch("enqueues", 1, 64, x, int32(-5))

        assert np.array_equal(bench.read(x), np.arange(64) + 1)


@pytest.mark.parametrize("version", [5, 6])
def test_a_kernel_that_uses_a_missing_service_fails_with_its_name(version: int) -> None:
    message = "kernel enqueues: device-side enqueue needs a queue the emulator does not have"
    with EmulatorBench(code_object(version)) as bench:
        x = bench.buffer(np.arange(64, dtype=np.int32))
        with pytest.raises(MissingService, match=message) as caught:
            bench.launch("enqueues", 1, 64, x, int32(7))

    assert "workgroup (0, 0, 0)" in str(caught.value)
