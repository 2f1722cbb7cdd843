"""`device=auto`: a GPU if it can be profiled, else the emulator."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.device.protocol import Device

KFD = Path("/dev/kfd")


def missing_for_gpu(kfd: Path = KFD) -> str | None:
    """Return the reason why no GPU of this machine can be profiled, or None if one can."""
    if not kfd.exists():
        return f"no {kfd}"
    if shutil.which("rocprofv3") is None:
        return f"{kfd} exists, but rocprofv3 is not on PATH"
    return None


def choose_device(*, rocm: Device, emulator: Device) -> Device:
    """Return the GPU if it can be profiled, else the emulator."""
    return emulator if missing_for_gpu() else rocm
