"""Cooperative launches: all workgroups are resident at once and meet at a grid barrier."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.emulator.checks import CheckKind
from rocm_perf_lab.emulator.faults import MemoryFault
from rocm_perf_lab.emulator.launch_limits import LaunchRefused
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.replay.emulated_capture import capture_launch
from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.session import ReplaySession
from tests.builders.emulation import EmulatorBench, int32
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
// In each round every work-item adds the previous value of its counterpart in the mirrored workgroup.
extern "C" __global__ void mirrored(int* a, int* b, int rounds) {
  auto grid = cooperative_groups::this_grid();
  int here = blockIdx.x * blockDim.x + threadIdx.x, there = (gridDim.x - 1 - blockIdx.x) * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; r++) {
    b[here] = a[here] + a[there];
    grid.sync();
    int* t = a; a = b; b = t;
  }
}
"""
ROUNDS = 3


@pytest.fixture(scope="module")
def code() -> CodeObject:
    with TemporaryDirectory() as directory:
        return build_hip(SOURCE, Path(directory)).code_object


def expected(a: np.ndarray[Any, Any], groups: int) -> tuple[list[int], list[int]]:
    """Return both buffers after three rounds: the third result, and the second."""
    results = [a.reshape(groups, -1)]
    for _ in range(ROUNDS):
        results.append(results[-1] + results[-1][::-1])
    return list(results[2].ravel()), list(results[3].ravel())


@pytest.mark.parametrize(("threads", "groups"), [(1, 7), (2, 7), (2, 300)])
def test_workgroups_meet_at_the_barrier_of_the_grid(code: CodeObject, threads: int, groups: int) -> None:
    a = np.arange(groups * 128, dtype=np.int32)
    with EmulatorBench(code, threads=threads, max_instructions=10**8) as bench:
        first, second = bench.buffer(a), bench.buffer(np.zeros_like(a))
        bench.launch("mirrored", groups, 128, first, second, int32(ROUNDS), cooperative=True)

        assert (list(bench.read(first)), list(bench.read(second))) == expected(a, groups)


def test_the_barrier_orders_what_the_checks_see(code: CodeObject) -> None:
    with EmulatedGpu(mi300x(), max_instructions=10**7, checks=frozenset(CheckKind)) as machine:
        buffers = [machine.allocate(name, 4 * 4 * 64) for name in "ab"]
        for buffer in buffers:
            machine.write(buffer, np.ones(256, np.int32))
        loaded = machine.load(code)
        result = machine.launch(loaded, "mirrored", (4, 1, 1), (64, 1, 1), [*buffers, int32(ROUNDS)], cooperative=True)

    assert [str(finding) for finding in result.findings] == []


def test_more_workgroups_than_the_gpu_holds_are_refused(code: CodeObject) -> None:
    with EmulatorBench(code) as bench:
        a = bench.buffer(np.zeros(64, np.int32))
        with pytest.raises(
            LaunchRefused, match=r"a cooperative launch of 100,000 workgroups: mi300x holds 9,728 of them at once"
        ):
            bench.launch("mirrored", 100_000, 64, a, a, int32(0), cooperative=True)


def test_a_launch_that_is_not_cooperative_faults_with_a_hint(code: CodeObject) -> None:
    with EmulatorBench(code) as bench:
        a = bench.buffer(np.zeros(256, np.int32))
        with pytest.raises(MemoryFault) as caught:
            bench.launch("mirrored", 4, 64, a, a, int32(1))

    assert "cooperative: true" in str(caught.value.hint)


def test_a_cooperative_dispatch_is_captured_and_replayed(code: CodeObject, tmp_path: Path) -> None:
    buffers = [
        {"name": name, "kind": "buffer", "dtype": "i32", "shape": [256], "access": "inout", "init": {"kind": "arange"}}
        for name in "ab"
    ]
    description = KernelDescription.model_validate(
        {"name": "mirrored", "source": "x.hip", "entry": "mirrored", "grid": [4], "block": [64], "cooperative": True}
        | {"arguments": [*buffers, {"name": "rounds", "kind": "scalar", "dtype": "i32", "value": ROUNDS}]}
    )
    with EmulatedGpu(mi300x(), max_instructions=10**7) as machine:
        launch = build_launch(description, code, "mirrored")
        capture_launch(machine, launch, tmp_path / "c", target=mi300x(), mode="reachable", argument_types={})
        captured = [machine.read(a) for a in machine.memory.allocations if a.name in ("a", "b")]

    with ReplaySession(open_capture(tmp_path / "c"), device="emulator", target=mi300x(), threads=1) as running:
        outcome = running.run(ReplayRequest(iterations=3, check=CheckRequest()))

    assert [list(np.frombuffer(content, np.int32)) for content in captured] == list(expected(np.arange(256), 4))
    assert outcome.verification is not None
    assert outcome.verification.passed
