"""Outcomes of branches, predicates and comparisons in a launch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.probes import Outcome, ProbeKind
from rocm_perf_lab.emulator.program import CONDITIONAL_BRANCHES
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void uniform(float* y, int n, int rare) {
  if (n == 777) {
    y[threadIdx.x] = __expf(y[threadIdx.x]);
    __syncthreads();
    y[threadIdx.x + 64] = 3.0f;
  }
  y[threadIdx.x] += 1.0f;
}
extern "C" __global__ void lanes(float* y, int n, int rare) {
  if ((int)threadIdx.x == rare) y[threadIdx.x] = 5.0f;
}
extern "C" __global__ void select(float* y, int n, int rare) {
  y[threadIdx.x] = y[threadIdx.x] > 1e30f ? 1.0f : y[threadIdx.x] * 2.0f;
}
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("coverage")).code_object


def launched(
    code_object: CodeObject, symbol: str, *, n: int = 1, rare: int = -1, first: float = 0.0, threads: int = 1
) -> LaunchResult:
    with EmulatedGpu(mi300x(), max_instructions=10_000_000, threads=threads) as machine:
        loaded = machine.load(code_object)
        y = machine.allocate("y", 512)
        machine.write(y, np.array([first] + [0.5] * 127, np.float32))
        arguments: list[int | bytes | Allocation] = [
            y,
            n.to_bytes(4, "little", signed=True),
            rare.to_bytes(4, "little", signed=True),
        ]
        return machine.launch(loaded, symbol, (2, 1, 1), (64, 1, 1), arguments)


def outcomes(result: LaunchResult, kind: ProbeKind) -> Counter[Outcome]:
    coverage = result.coverage
    return Counter(coverage.outcomes[p.instruction.address] for p in result.program.probes if p.kind is kind)


def test_a_uniform_branch_has_the_outcomes_of_its_launches(code_object: CodeObject) -> None:
    skipped, entered = launched(code_object, "uniform", n=5), launched(code_object, "uniform", n=777)

    (one,), (other,) = (outcomes(r, ProbeKind.BRANCH) for r in (skipped, entered))
    assert {one, other} == {Outcome.TRUE, Outcome.FALSE}
    assert len(skipped.coverage.executed) < len(entered.coverage.executed)
    merged = skipped.coverage.merged(entered.coverage)
    assert [o for a, o in merged.outcomes.items() if a in branch_addresses(skipped)] == [Outcome.BOTH]


def branch_addresses(result: LaunchResult) -> set[int]:
    return {i.address for i in result.program.instructions if i.mnemonic in CONDITIONAL_BRANCHES}


def test_scalar_comparisons_keep_their_operands(code_object: CodeObject) -> None:
    operands = set(launched(code_object, "uniform", n=1234).coverage.operands.values())

    assert (1234, 777) in operands


@pytest.mark.parametrize(("rare", "expected"), [(-1, Outcome.FALSE), (63, Outcome.TRUE)])
def test_a_predicated_region_counts_only_if_a_lane_executes_it(code_object: CodeObject, rare: int, expected: Outcome) -> None:
    result = launched(code_object, "lanes", rare=rare)

    entry = next(p for p in result.program.probes if p.kind is ProbeKind.LANES)
    assert result.coverage.outcomes[entry.instruction.address] == expected


@pytest.mark.parametrize(("first", "expected"), [(0.0, Outcome.FALSE), (2e30, Outcome.BOTH)])
def test_a_selection_without_a_branch_is_seen_in_its_comparison(code_object: CodeObject, first: float, expected: Outcome) -> None:
    result = launched(code_object, "select", first=first)

    (found,) = [
        result.coverage.outcomes[p.instruction.address]
        for p in result.program.probes
        if p.kind is ProbeKind.VECTOR_COMPARISON and "F32" in p.instruction.mnemonic
    ]
    inverse = {Outcome.FALSE: Outcome.TRUE}.get(expected, expected)
    assert found in (expected, inverse)


def test_threads_merge_their_outcomes(code_object: CodeObject) -> None:
    one, two = (launched(code_object, "select", first=2e30, threads=n) for n in (1, 2))

    assert one.coverage == two.coverage


@pytest.mark.parametrize("symbol", ["uniform", "lanes", "select"])
def test_code_of_both_tiers_records_the_same(code_object: CodeObject, symbol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    optimised = launched(code_object, symbol, n=777, rare=3, first=2e30)
    monkeypatch.setattr("rocm_perf_lab.emulator.hot_blocks.SMALL_PROGRAM", 0)

    assert launched(code_object, symbol, n=777, rare=3, first=2e30).coverage == optimised.coverage
