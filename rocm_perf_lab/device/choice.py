"""`device=auto`: a GPU where one can be measured, else the emulator; the reason is part of the device's identity."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.device.protocol import Device

KFD = Path("/dev/kfd")


def missing_for_gpu(kfd: Path = KFD) -> str | None:
    """What keeps a GPU from being measured on this machine, or None."""
    if not kfd.exists():
        return f"no {kfd}"
    if shutil.which("rocprofv3") is None:
        return f"{kfd} is here, but rocprofv3 is not on PATH"
    return None


def choose_device(*, rocm: Device, emulator: Device) -> Device:
    """The better of the two devices that this machine can run."""
    return emulator if missing_for_gpu() else rocm
