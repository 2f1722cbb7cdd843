from __future__ import annotations

import pytest

from rocm_perf_lab.statistics.stability import stability


@pytest.mark.parametrize(
    ("durations", "cv", "classification"),
    [
        ((100, 100, 100), 0.0, "stable"),
        ((95, 105), 0.0707, "moderate"),
        ((90, 110), 0.1414, "unstable"),
    ],
)
def test_the_class_follows_the_coefficient_of_variation(durations: tuple[int, ...], cv: float, classification: str) -> None:
    found = stability(durations, deterministic=False)

    assert found.cv == pytest.approx(cv, abs=1e-4)
    assert found.classification == classification


@pytest.mark.parametrize(("spread", "classification"), [(50, "stable"), (51, "moderate"), (100, "moderate"), (101, "unstable")])
def test_the_limits_belong_to_the_better_class(spread: int, classification: str) -> None:
    # Three values mean - d, mean, mean + d have the standard deviation d.
    assert stability((1000 - spread, 1000, 1000 + spread), deterministic=False).classification == classification


def test_one_run_of_a_deterministic_device_is_stable() -> None:
    found = stability((123,), deterministic=True)

    assert (found.cv, found.stddev_ns, found.classification) == (0.0, 0.0, "stable")
    assert "one run" in str(found.note)


def test_one_run_of_a_real_device_is_unstable() -> None:
    found = stability((123,), deterministic=False)

    assert (found.cv, found.classification) == (None, "unstable")
    assert "repeat" in str(found.note)


def test_the_median_ignores_an_outlier() -> None:
    found = stability((10, 10, 12, 500), deterministic=False)

    assert (found.median_ns, found.mad_ns) == (11, 1)


def test_dispatches_of_zero_length_are_stable() -> None:
    assert stability((0, 0), deterministic=False).cv == 0.0
