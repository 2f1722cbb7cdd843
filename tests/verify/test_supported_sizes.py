"""Sizes that an unmodified kernel supports: trials find them out and keep to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.builders.wrong_kernels import KERNELS, SCALE, correctness, written

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.verify.checker import CorrectnessChecker

VECTORS = """extern "C" __global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (4 * i < n) {
    float4 v = ((const float4*)x)[i];
    ((float4*)y)[i] = make_float4(3 * v.x, 3 * v.y, 3 * v.z, 3 * v.w);
  }
}
"""
ONE_BLOCK = """extern "C" __global__ void kernel(const float* x, float* y, int cols) {
  __shared__ float part[256];
  int i = threadIdx.x;
  part[i] = i < cols ? x[(size_t)blockIdx.x * cols + i] : 0.0f;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (i < step) part[i] += part[i + step];
    __syncthreads();
  }
  if (i == 0) y[blockIdx.x] = part[0];
}
"""


def values_of(checker: CorrectnessChecker, name: str) -> set[int]:
    return {int(b.trial.params[name]) for b in checker.baseline_trials()}


@pytest.mark.slow
def test_a_kernel_of_whole_vectors_is_tried_with_multiples_only(tmp_path: Path) -> None:
    kernel = replace(KERNELS["scale"], text=VECTORS, params={"n": 4096})

    checker = correctness(kernel.description(tmp_path), shapes=16)

    assert {n % 4 for n in values_of(checker, "n")} == {0}
    assert len({n % 64 for n in values_of(checker, "n")}) == 16
    assert [note for note in checker.notes if "multiples of 4" in note] == [
        "n: only multiples of 4, as the unmodified kernel fails with others"
    ]
    assert checker.check(written(tmp_path, VECTORS, "same.hip")).passed
    assert checker.check(written(tmp_path, SCALE, "general.hip")).passed
    aligned = VECTORS.replace("4 * i < n", "4 * i < n / 8 * 8")
    assert not checker.check(written(tmp_path, aligned, "aligned.hip")).passed


def test_a_kernel_of_one_block_per_row_is_tried_up_to_its_limit(tmp_path: Path) -> None:
    kernel = replace(KERNELS["row_sums"], text=ONE_BLOCK, params={"rows": 8, "cols": 200})

    checker = correctness(kernel.description(tmp_path), shapes=16)

    assert max(values_of(checker, "cols")) == 256
    assert max(values_of(checker, "rows")) >= 64
    assert "cols: at most 256, as the unmodified kernel fails with larger values" in checker.notes
    shorter = ONE_BLOCK.replace("i < cols ?", "i < (cols < 255 ? cols : 255) ?")
    assert not checker.check(written(tmp_path, shorter, "shorter.hip")).passed


@pytest.mark.slow
def test_declared_sizes_allow_a_rewrite_that_relies_on_them(tmp_path: Path) -> None:
    kernel = replace(KERNELS["scale"], params={"n": 4096})
    limits = {"n": {"multiple_of": 4}}
    anything = correctness(kernel.description(tmp_path / "any"), shapes=16)
    declared = correctness(kernel.description(tmp_path / "declared", sizes=limits), shapes=16)
    vectors = written(tmp_path, VECTORS)

    assert not anything.check(vectors).passed
    assert declared.check(vectors).passed


def test_numbers_of_a_rewrite_are_tried(tmp_path: Path) -> None:
    checker = correctness(KERNELS["scale"].description(tmp_path), shapes=4, instructions=20_000)
    limited = SCALE.replace("if (i < n)", "if (i < n && n != 3571)")

    result = checker.check(written(tmp_path, limited))

    assert 3571 not in values_of(checker, "n")
    assert result.failed is not None
    assert result.failed.params["n"] == 3571


def test_a_verdict_names_shape_inputs_seed_and_element(tmp_path: Path) -> None:
    checker = correctness(KERNELS["scale"].description(tmp_path), shapes=8)

    result = checker.check(written(tmp_path, SCALE.replace("if (i < n)", "if (i < n && i != 6)")))

    assert result.failed is not None
    text = str(result.verification)
    assert f"n={result.failed.params['n']}; " in text
    assert f"seed {result.failed.rounds[-1]}]" in text
    assert "worst at [6]" in text


@pytest.mark.parametrize("seed", [1, 2])
def test_equal_seeds_give_equal_trials(tmp_path: Path, seed: int) -> None:
    kernel = KERNELS["scale"].description(tmp_path)
    first, again = (correctness(kernel, shapes=4, instructions=50_000, seed=seed) for _ in range(2))

    assert first.trials == again.trials
    assert [b.outputs["y"].tobytes() for b in first.baseline_trials()] == [
        b.outputs["y"].tobytes() for b in again.baseline_trials()
    ]
