"""Kernels compiled with `-mtgsplit`: wavefronts of a workgroup may run on different CUs, so there is no LDS."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from rocm_perf_lab.emulator.checks import CheckKind
from rocm_perf_lab.emulator.launch_limits import LaunchRefused
from rocm_perf_lab.toolchain.descriptor import splits_workgroups
from rocm_perf_lab.toolchain.elf import read_code_object
from tests.builders.assembly import assemble_code_object, kernel_text
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip

SOURCE = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void exchange(int* x) {  // through memory: each half stores, then reads the other half
  x[threadIdx.x] += 1;
  __syncthreads();
  int other = x[threadIdx.x ^ 64];
  __syncthreads();
  x[threadIdx.x] = 10 * other;
}
extern "C" __global__ void staged(int* x) {
  __shared__ int part[128];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = part[threadIdx.x ^ 64];
}
extern "C" __global__ void dynamic(int* x) {
  extern __shared__ int part[];
  if (x == nullptr) part[threadIdx.x] = 1;
  x[threadIdx.x] += 1;
}
"""


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", pytest.param("gfx950", marks=pytest.mark.slow)])
def test_wavefronts_of_a_split_workgroup_meet_in_memory_and_have_no_lds(architecture: str) -> None:
    with TemporaryDirectory() as directory:
        compiled = build_hip(SOURCE, Path(directory), architecture=architecture, flags=("-mtgsplit",)).code_object
    usual = read_code_object(assemble_code_object(kernel_text("k", "s_endpgm"), cpu=architecture))
    numbers = np.arange(128, dtype=np.int32)

    with EmulatorBench(compiled, checks=frozenset(CheckKind) - {CheckKind.POSSIBLE_RACES}) as bench:
        x = bench.buffer(numbers)
        result = bench.launch("exchange", 1, 128, x)
        exchanged = bench.read(x)
        for kernel, lds in (("staged", 0), ("dynamic", 512)):
            with pytest.raises(LaunchRefused, match="512 bytes of LDS, but its wavefronts may run on different CUs"):
                bench.launch(kernel, 1, 128, x, lds=lds)
        bench.launch("dynamic", 1, 128, x)

    assert all(splits_workgroups(kernel.descriptor, architecture) for kernel in compiled.kernels)
    assert not any(splits_workgroups(kernel.descriptor, architecture) for kernel in usual.kernels)
    np.testing.assert_array_equal(exchanged, 10 * ((numbers ^ 64) + 1))
    assert result.findings == ()
    mnemonics = {i.mnemonic for i in result.program.instructions}
    assert mnemonics & {"BUFFER_INV", "BUFFER_WBINVL1_VOL"}
