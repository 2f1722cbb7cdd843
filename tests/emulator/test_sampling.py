"""Sample policies: the configured and the derived seed, and the key of the installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.sampling import SamplePolicy, installation_key, sample_policy

if TYPE_CHECKING:
    from pathlib import Path


def test_a_configured_seed_is_used() -> None:
    assert SamplePolicy(16, 7).seed_of(b"launch") == 7


def test_a_derived_seed_depends_on_the_launch_and_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seed(directory: str, launch: bytes) -> int:
        monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path / directory))
        return SamplePolicy(16).seed_of(launch)

    assert seed("a", b"x") == seed("a", b"x")
    assert len({seed("a", b"x"), seed("a", b"y"), seed("b", b"x")}) == 3


def test_the_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    key = installation_key(tmp_path)

    assert installation_key(tmp_path) == key
    (path,) = tmp_path.iterdir()
    assert len(key) == 32
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_damaged_key_is_an_error(tmp_path: Path) -> None:
    installation_key(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"short")

    with pytest.raises(LabError, match="damaged"):
        installation_key(tmp_path)


def test_a_key_that_cannot_be_stored_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot be stored") as error:
        installation_key(tmp_path / "missing")

    assert error.value.hint is not None and "device.sample_seed" in error.value.hint


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
