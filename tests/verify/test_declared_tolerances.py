"""Declared tolerances that are tighter than the error of any right kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.languages.spec import Tolerance
from tests.builders.wrong_kernels import KERNELS, correctness, written

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.verify.checker import CorrectnessChecker

FORWARD = "for (int i = threadIdx.x; i < cols; i += 256) sum"
BACKWARD = "for (int i = (cols - 1) / 256 * 256 + (int)threadIdx.x; i >= 0; i -= 256) if (i < cols) sum"


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> CorrectnessChecker:
    """The checker of sums of rows in f32 of which half a unit in the last place is required."""
    described = KERNELS["row_sums"].description(tmp_path_factory.mktemp("row_sums"))
    return correctness(described.model_copy(update={"tolerance": {"y": Tolerance(rtol=2.0**-25, atol=0)}}))


def test_another_order_is_right_if_the_unmodified_kernel_breaks_the_tolerance_too(
    checker: CorrectnessChecker, tmp_path: Path
) -> None:
    text = KERNELS["row_sums"].text
    assert FORWARD in text

    result = checker.check(written(tmp_path, text.replace(FORWARD, BACKWARD)))

    assert result.passed, result


def test_a_dropped_summand_is_wrong_under_the_derived_bound(checker: CorrectnessChecker, tmp_path: Path) -> None:
    text = KERNELS["row_sums"].text.replace("i < cols;", "i < cols - (cols > 300);")

    result = checker.check(written(tmp_path, text))

    assert not result.passed
