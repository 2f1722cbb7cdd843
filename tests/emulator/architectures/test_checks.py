"""Checks on architectures whose stores do not show whether they are atomic."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.emulator.checks import CheckKind, available_checks
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip
from tests.builders.targets import target_of

SOURCE = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void hand_over(int* flag, int* data, int* out) {  // the second workgroup waits for the first
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  } else {
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) {}
    out[threadIdx.x] = data[threadIdx.x];
  }
}
extern "C" __global__ void tile(int* x) {
  __shared__ int part[256];
  part[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = part[255 - threadIdx.x];
}
"""


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx950"])
def test_a_correct_hand_over_has_no_finding_and_a_race_in_lds_has_one(architecture: str) -> None:
    with TemporaryDirectory() as directory:
        compiled = build_hip(SOURCE, Path(directory), architecture=architecture).code_object
    with EmulatorBench(compiled, checks=frozenset(CheckKind)) as bench:
        buffers = [bench.buffer(np.zeros(n, np.int32)) for n in (1, 64, 64)]
        correct = bench.launch("hand_over", 2, 64, *buffers)
        handed = bench.read(buffers[2])
        racing = bench.launch("tile", 1, 256, bench.buffer(np.zeros(256, np.int32)))

    np.testing.assert_array_equal(handed, np.arange(64))
    assert correct.findings == ()
    assert {finding.check for finding in racing.findings} == {"lds_races"}


def test_a_check_that_the_architecture_does_not_allow_is_refused_if_it_is_named() -> None:
    with pytest.raises(LabError, match="gfx90a does not allow the check memory_races"):
        EmulatorDevice(target=target_of("gfx90a"), check="barriers,memory_races")

    EmulatorDevice(target=target_of("gfx90a"), check="all")
    EmulatorDevice(target=target_of("gfx950"), check="memory_races")
    assert CheckKind.MEMORY_RACES not in available_checks(instruction_set("gfx90a"))
    assert available_checks(instruction_set("gfx942")) == frozenset(CheckKind)
