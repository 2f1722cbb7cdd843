"""Sample policies: the default seed, secret seeds, and settings of devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import SampledDevice
from rocm_perf_lab.emulator.sampling import DEFAULT_SEED, SamplePolicy, drawn_seed, sample_policy
from tests.builders.targets import mi300x


def test_the_default_seed_is_the_same_on_every_computer() -> None:
    assert sample_policy("strata", 16, None).seed == SamplePolicy(16).seed == DEFAULT_SEED == 20_261_122


def test_secret_seeds_differ() -> None:
    assert len({drawn_seed() for _ in range(8)}) > 1


def test_a_secret_seed_replaces_the_default_one_only() -> None:
    device, fixed = EmulatorDevice(target=mi300x()), EmulatorDevice(target=mi300x(), sample_seed=5)

    assert isinstance(device, SampledDevice)
    assert (device.with_sample_seed(7).sample, device.sample) == (SamplePolicy(16, 7), SamplePolicy(16))
    assert fixed.with_sample_seed(7).sample == replace(SamplePolicy(16), seed=5)


@pytest.mark.parametrize(
    ("sample", "workgroups", "seed", "where"),
    [
        ("most", 16, None, "device.sample"),
        ("strata", 0, None, "device.traced_workgroups"),
        ("strata", 16, -1, "device.sample_seed"),
    ],
)
def test_invalid_settings_are_errors(sample: str, workgroups: int, seed: int | None, where: str) -> None:
    with pytest.raises(LabError) as error:
        sample_policy(sample, workgroups, seed)

    assert error.value.where == where


def test_settings_of_a_device() -> None:
    assert sample_policy("strata", 12, None) == SamplePolicy(12)
    assert sample_policy("all", 12, 5) == SamplePolicy(None, 5)
