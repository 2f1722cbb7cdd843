"""Choice of the device that runs and profiles an application: `ApplicationDevice("auto").profiler(config)`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.own_command import PROGRAM
from rocm_perf_lab.device.choice import KFD, missing_for_gpu
from rocm_perf_lab.device.machine import Machine
from rocm_perf_lab.device.rocprofv3 import PROGRAM as ROCPROFV3
from rocm_perf_lab.device.rocprofv3 import Rocprofv3
from rocm_perf_lab.jobs.profile.emulated_profiler import EmulatedProfiler
from rocm_perf_lab.profiling.application import GpuProfiler
from rocm_perf_lab.runtime.installation import find_runtime

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.config.run import RunConfig
    from rocm_perf_lab.profiling.application import ApplicationProfiler
    from rocm_perf_lab.target.model import Target

EMULATOR = "emulator"
_DEVICES = ("auto", "rocm", EMULATOR)
_COMPILER = "hipcc"


def chosen_device(device: str, root: Path | None = None) -> str:
    """Return `rocm` or `emulator`.

    Args:
        device: One of those, or `auto`, which selects the emulator if this machine has no GPU.
        root: ROCm directory tree for the emulator.

    Raises:
        LabError: The device does not exist.
    """
    if device not in _DEVICES:
        raise LabError(f"there is no device {device!r} for applications", where="device", hint=f"use {', '.join(_DEVICES)}")
    if device != "auto":
        return device
    if KFD.exists():
        return "rocm"
    emulates = root is not None or shutil.which(ROCPROFV3) is None or find_runtime(Machine()) is not None
    return EMULATOR if emulates else "rocm"


@dataclass(frozen=True)
class ApplicationDevice:
    """Device of an application: `rocm`, `emulator` or `auto`, and a ROCm directory tree for the emulator."""

    device: str = "auto"
    root: Path | None = None

    @property
    def is_emulated(self) -> bool:
        """Return whether the application runs on an emulated GPU.

        Raises:
            LabError: The device does not exist, or a directory tree is set for a real GPU.
        """
        chosen = chosen_device(self.device, self.root)
        if chosen != EMULATOR and self.root is not None:
            raise LabError(
                "the GPU of this machine cannot be used from a ROCm directory tree", where="--root", hint="add device=emulator"
            )
        return chosen == EMULATOR

    def profiler(self, config: RunConfig) -> ApplicationProfiler:
        """Return the profiler.

        Raises:
            LabError: The device does not exist, or rocprofv3 is missing.
        """
        if not self.is_emulated:
            return GpuProfiler(Rocprofv3.find())
        reason = missing_for_gpu() or "chosen by device=emulator"
        return EmulatedProfiler(config.target, tuple(config.passes.counters), root=self.root, reason=reason)

    def default_build(self, target: Target) -> str:
        """Return the default build command of an application: hipcc if installed, else the compiler from the Python packages."""
        if not self.is_emulated:
            return f"{_COMPILER} -O3 {{source}} -o {{binary}}"
        has_hipcc = self.root is not None or shutil.which(_COMPILER) is not None
        compiler = _COMPILER if has_hipcc else f"{PROGRAM} {_COMPILER}"
        return f"{compiler} --offload-arch={target.architecture} -O3 {{source}} -o {{binary}}"
