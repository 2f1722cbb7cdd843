"""Repeated measurement of one configuration."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.autotune.repeats import Gate, measure


@pytest.mark.parametrize(("spread", "rounds"), [(0.02, 1), (0.5, 3)])
def test_noisy_times_are_repeated_up_to_the_limit(spread: float, rounds: int) -> None:
    times = iter(np.tile([1.0, 1.0 + spread, 1.0 - spread], 20))

    found = measure(lambda runs: [next(times) for _ in range(runs)], Gate(runs=6, max_cv=0.1, max_rounds=3), deterministic=False)

    assert found.details["rounds"] == rounds
    assert found.details["runs"] == 6 * rounds
    assert found.runtime_ms == pytest.approx(1.0)


def test_a_deterministic_device_is_measured_once() -> None:
    asked: list[int] = []

    def sample(runs: int) -> list[float]:
        asked.append(runs)
        return [0.25] * runs

    found = measure(sample, Gate(runs=10), deterministic=True)

    assert asked == [1]
    assert (found.runtime_ms, found.details["cv"]) == (0.25, 0.0)
