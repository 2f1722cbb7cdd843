"""Roofs compared with AMD's data sheets."""

from __future__ import annotations

import pytest

from rocm_perf_lab.target.peaks import MeasuredPeaks, compute_roofs, memory_roofs
from tests.builders.targets import mi250x, mi300x, rx6800xt


def test_arithmetic_roofs_of_mi300x_match_its_data_sheet() -> None:
    tflops = {(roof.unit, roof.data_type): roof.gflop_per_s / 1000 for roof in compute_roofs(mi300x())}

    assert tflops["vector", "f64"] == pytest.approx(81.7, abs=0.05)
    assert tflops["vector", "f32_packed"] == pytest.approx(163.4, abs=0.05)
    assert tflops["matrix", "f16"] == pytest.approx(1307.4, abs=0.05)
    assert tflops["matrix", "f8"] == pytest.approx(2614.9, abs=0.05)


def test_one_gcd_of_mi250x_has_half_the_matrix_rate_of_the_card() -> None:
    tflops = {(roof.unit, roof.data_type): roof.gflop_per_s / 1000 for roof in compute_roofs(mi250x())}

    assert 2 * tflops["matrix", "f16"] == pytest.approx(383.0, abs=0.05)


def test_bandwidths_decrease_with_the_distance_from_the_arithmetic_units() -> None:
    roofs = memory_roofs(mi300x())

    assert [roof.level for roof in roofs] == ["lds", "vector_l1", "l2", "mall", "dram"]
    assert [roof.gb_per_s for roof in roofs] == sorted((roof.gb_per_s for roof in roofs), reverse=True)


def test_a_missing_memory_level_has_no_roof() -> None:
    assert "mall" not in {roof.level for roof in memory_roofs(mi250x())}
    assert {roof.unit for roof in compute_roofs(rx6800xt())} == {"vector"}


@pytest.mark.parametrize(
    ("measured", "plain", "packed"),
    [(140_000.0, 70_000.0, 140_000.0), (75_000.0, 75_000.0, 163_430.4)],
)
def test_a_measured_rate_above_the_plain_roof_is_that_of_packed_code(measured: float, plain: float, packed: float) -> None:
    peaks = MeasuredPeaks("roofline.csv", memory={}, compute={("vector", "f32"): measured})

    roofs = {roof.data_type: roof.gflop_per_s for roof in compute_roofs(mi300x(), peaks) if roof.unit == "vector"}

    assert (roofs["f32"], roofs["f32_packed"]) == pytest.approx((plain, packed))
