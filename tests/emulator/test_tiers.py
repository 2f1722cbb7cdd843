"""Two tiers of native code: both compute the same, and blocks that run often are optimised while the kernel runs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator import hot_blocks, tiers
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.jit import program_key
from rocm_perf_lab.emulator.launching import LaunchResult
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.program import Program, decode_program
from rocm_perf_lab.emulator.sampling import SamplePolicy
from rocm_perf_lab.emulator.structures import LaunchRecord
from rocm_perf_lab.emulator.tiers import TieredCode
from rocm_perf_lab.toolchain.code_object import CodeObject
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.kernels import build_hip
from tests.builders.processes import comes_true
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.memory import Allocation

# Sums x[t] * k over odd k, with a division, a switch, LDS, a barrier, lane masks, a shuffle and float64.
SOURCE = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void mixed(const float* x, float* y, double* z, int rounds) {
  __shared__ float tile[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  float value = x[i], sum = 0;
  double wide = value;
  for (int k = 0; k < rounds; k++) {
    switch ((t + k) % 4) {
      case 0: sum += value / (1.5f + k); break;
      case 1: sum -= sqrtf(fabsf(value)) * k; break;
      case 2: sum = fmaf(sum, 0.5f, 1.0f); break;
    }
    wide = wide / 1.25 + k;
    tile[t] = sum;
    __syncthreads();
    sum += tile[255 - t] + __shfl_xor(sum, 5);
    __syncthreads();
  }
  y[i] = sum;
  z[i] = wide;
}
"""
ROUNDS = 40


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("tiers")).code_object


@pytest.fixture
def program(code_object: CodeObject) -> Program:
    kernel = code_object.kernels[0]
    code = parse_elf(code_object.data).read(kernel.entry_address, kernel.code_bytes)
    return decode_program(kernel.symbol, code, kernel.entry_address, (kernel.entry_address,), instruction_set("gfx942"))


def run(code_object: CodeObject, *, workgroups: int = 3) -> tuple[LaunchResult, bytes, bytes]:
    x = np.random.default_rng(5).normal(size=256 * workgroups).astype(np.float32)
    with EmulatedGpu(mi300x(), max_instructions=10**9, threads=2) as machine:
        buffers = [machine.allocate(name, 1024 * workgroups * size) for name, size in (("x", 1), ("y", 1), ("z", 2))]
        machine.write(buffers[0], x)
        values: list[Allocation | bytes] = [*buffers, ROUNDS.to_bytes(4, "little")]
        result = machine.launch(machine.load(code_object), "mixed", (workgroups, 1, 1), (256, 1, 1), values)
        return result, bytes(machine.read(buffers[1])), bytes(machine.read(buffers[2]))


def wait_for(condition: Callable[[], bool]) -> None:
    assert comes_true(condition)


def test_both_tiers_have_equal_results_and_counters(code_object: CodeObject, monkeypatch: pytest.MonkeyPatch) -> None:
    optimised = run(code_object)
    monkeypatch.setattr(hot_blocks, "SMALL_PROGRAM", 0)
    shared = run(code_object)

    assert shared[1:] == optimised[1:]
    assert shared[0].counters == optimised[0].counters
    np.testing.assert_array_equal(shared[0].block_executions, optimised[0].block_executions)
    np.testing.assert_array_equal(shared[0].block_active_lanes, optimised[0].block_active_lanes)
    z = np.frombuffer(optimised[2], np.float64)
    expected = np.random.default_rng(5).normal(size=768).astype(np.float32).astype(np.float64)
    for k in range(ROUNDS):
        expected = expected / 1.25 + k
    np.testing.assert_array_equal(z, expected)


def test_code_may_change_during_a_launch(code_object: CodeObject, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(code_object, workgroups=200)
    monkeypatch.setattr(hot_blocks, "SMALL_PROGRAM", 0)
    monkeypatch.setattr(hot_blocks, "HOT_EXECUTIONS", 10)
    monkeypatch.setattr(tiers, "_POLL_SECONDS", 0.001)

    result = run(code_object, workgroups=200)

    assert result[1:] == expected[1:]
    assert result[0].counters == expected[0].counters


def test_blocks_that_run_often_are_optimised(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hot_blocks, "SMALL_PROGRAM", 0)
    code = TieredCode(program, load_runtime().helpers, tmp_path)
    first, record = code.address, LaunchRecord()
    executions = np.zeros(len(program.blocks), dtype=np.uint64)
    assert code.optimised == frozenset()

    with code.running(record, executions):
        assert record.kernel == first
        executions[2], executions[3] = 20 * hot_blocks.HOT_EXECUTIONS, hot_blocks.HOT_EXECUTIONS // 2
        wait_for(lambda: record.kernel != first)

    assert code.optimised == {2, 3}  # hot, and warm
    assert record.kernel == code.address


def test_executions_of_several_launches_add_up(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hot_blocks, "SMALL_PROGRAM", 0)
    code = TieredCode(program, load_runtime().helpers, tmp_path)
    executions = np.zeros(len(program.blocks), dtype=np.uint64)
    executions[1] = hot_blocks.HOT_EXECUTIONS // 2 + 1

    for _ in range(2):
        assert code.optimised == frozenset()
        with code.running(LaunchRecord(), executions):
            pass

    wait_for(lambda: code.optimised == {1})


def test_rare_blocks_stay_as_they_are(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hot_blocks, "SMALL_PROGRAM", 0)
    monkeypatch.setattr(tiers, "_POLL_SECONDS", 0.001)
    code = TieredCode(program, load_runtime().helpers, tmp_path)
    record = LaunchRecord()

    with code.running(record, np.full(len(program.blocks), hot_blocks.HOT_EXECUTIONS - 1, dtype=np.uint64)):
        time.sleep(0.05)

    assert (record.kernel, code.optimised) == (code.address, frozenset())


@pytest.mark.parametrize("damaged", [False, True])
def test_the_choice_is_kept_unless_it_is_damaged(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damaged: bool
) -> None:
    monkeypatch.setattr(hot_blocks, "SMALL_PROGRAM", 0)
    helpers = load_runtime().helpers
    code = TieredCode(program, helpers, tmp_path)
    executions = np.zeros(len(program.blocks), dtype=np.uint64)
    executions[2] = hot_blocks.HOT_EXECUTIONS
    with code.running(LaunchRecord(), executions):
        wait_for(lambda: code.optimised == {2})
    (choice,) = tmp_path.glob("*.optimised")
    if damaged:
        choice.write_bytes(choice.read_bytes()[:-1])

    assert TieredCode(program, helpers, tmp_path).optimised == (frozenset() if damaged else {2})


def test_small_kernels_are_optimised_at_once(program: Program, tmp_path: Path) -> None:
    assert len(program.instructions) <= hot_blocks.SMALL_PROGRAM
    assert len(TieredCode(program, load_runtime().helpers, tmp_path).optimised) == len(program.blocks)


def test_the_key_of_object_code_covers_the_choice(program: Program) -> None:
    keys = {program_key(program), program_key(program, frozenset()), program_key(program, frozenset({1}))}

    assert len(keys) == 3


def test_traces_do_not_depend_on_the_tier(code_object: CodeObject, monkeypatch: pytest.MonkeyPatch) -> None:
    def traced() -> list[list[list[int]]]:
        with EmulatedGpu(mi300x(), max_instructions=10**9, sample=SamplePolicy(1)) as machine:
            buffers = [machine.allocate(name, 1024 * size) for name, size in (("x", 1), ("y", 1), ("z", 2))]
            values: list[Allocation | bytes] = [*buffers, ROUNDS.to_bytes(4, "little")]
            result = machine.launch(machine.load(code_object), "mixed", (1, 1, 1), (256, 1, 1), values)
            return [[words.tolist() for words in waves] for waves in result.traces]

    optimised = traced()
    monkeypatch.setattr(hot_blocks, "SMALL_PROGRAM", 0)

    assert traced() == optimised
