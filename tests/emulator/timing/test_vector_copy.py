"""Emulated time of a vector copy. Its counters are compared with recordings in `tests/emulator/test_recorded_counters.py`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.sampling import SamplePolicy
from rocm_perf_lab.emulator.timing.engine import TimingEstimate, TracedLaunch, estimate
from tests.builders.kernels import VEC_COPY, build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.memory import Allocation

N, BLOCK = 1 << 20, 256


@pytest.fixture(scope="module")
def vector_copy(tmp_path_factory: pytest.TempPathFactory) -> TimingEstimate:
    code_object = build_hip(VEC_COPY, tmp_path_factory.mktemp("copy")).code_object
    with EmulatedGpu(mi300x(), max_instructions=10**8, threads=2, sample=SamplePolicy(16)) as machine:
        buffers = [machine.allocate(name, 8 * N) for name in "abc"]
        machine.write(buffers[0], np.zeros(N))
        arguments: list[int | bytes | Allocation] = [*buffers, struct.pack("<i", N), struct.pack("<i", 1)]
        loaded = machine.load(code_object)
        result = machine.launch(loaded, code_object.kernels[0].symbol, (N // BLOCK, 1, 1), (BLOCK, 1, 1), arguments)
        launch = TracedLaunch(
            program=result.program,
            traces=result.traces,
            buffers=[(b.address, b.nbytes) for b in buffers],
            workgroups=N // BLOCK,
            waves_per_workgroup=4,
            resident_workgroups=8,
        )
        return estimate(load_runtime(), launch, mi300x())


def test_the_copy_takes_no_less_than_its_traffic_at_the_peak_of_memory(vector_copy: TimingEstimate) -> None:
    peak_gb_per_s = mi300x().peaks.dram_gb_per_s
    assert peak_gb_per_s is not None
    shortest_ns = 2 * 8 * N / peak_gb_per_s

    assert shortest_ns < vector_copy.duration_ns < 20 * shortest_ns
