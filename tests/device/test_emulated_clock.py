"""Shader clock of emulated launches: the maximum, a number of MHz, or the clock under sustained load of the matrix cores."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulated_time import sustained_clock_mhz
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.emulator.timing.engine import TimingEstimate
from tests.builders.targets import mi300x

TARGET = mi300x()
NOTHING = np.zeros(0)


def estimate(matrix_utilisation: float) -> TimingEstimate:
    cycles = 1000.0
    busy = matrix_utilisation * cycles * TARGET.compute_units * TARGET.simds_per_cu
    counters = {"SQ_VALU_MFMA_BUSY_CYCLES": busy}
    return TimingEstimate(1, cycles, counters, NOTHING.astype(np.uint64), NOTHING, NOTHING, NOTHING)


@pytest.mark.parametrize(("utilisation", "published_mhz"), [(0.0, 2100), (0.49, 1535), (0.94, 1115)])
def test_the_sustained_clock_is_near_published_ones(utilisation: float, published_mhz: int) -> None:
    assert sustained_clock_mhz(TARGET, estimate(utilisation)) == pytest.approx(published_mhz, rel=0.05)


@pytest.mark.parametrize("clock", ["fast", 0, 2101, -1])
def test_an_invalid_clock_is_an_error_with_the_range(clock: str | int) -> None:
    with pytest.raises(LabError, match="invalid clock") as raised:
        EmulatorDevice(target=TARGET, clock=clock)

    assert "2100" in str(raised.value.hint)
