"""GPUs of a machine, from the topology of the driver and HIP_VISIBLE_DEVICES."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.device.machine import gpu_ids

if TYPE_CHECKING:
    from pathlib import Path


def machine(directory: Path, *simds: int) -> Path:
    """One node each: a CPU has no SIMDs."""
    for number, count in enumerate(simds):
        (directory / str(number)).mkdir()
        (directory / str(number) / "properties").write_text(f"cpu_cores_count 0\nsimd_count {count}\nmem_banks_count 1\n")
    return directory


def test_gpus_are_numbered_from_zero_without_the_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)

    assert gpu_ids(machine(tmp_path, 0, 0, 1216, 1216, 1216)) == ("0", "1", "2")


def test_a_machine_without_a_driver_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)

    assert gpu_ids(tmp_path / "missing") == ()


@pytest.mark.parametrize(("allowed", "ids"), [("2,5", ("2", "5")), (" 3 ", ("3",)), ("", ())])
def test_only_visible_gpus_are_returned(
    allowed: str, ids: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", allowed)

    assert gpu_ids(machine(tmp_path, 1216, 1216)) == ids
