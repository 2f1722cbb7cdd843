"""Search for AMD's user-space runtime (ROCr and HIP), which runs unchanged on emulated GPUs, and its version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.device.machine import rocm_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.device.machine import Machine

HOW_TO_INSTALL = (
    "Debian or Ubuntu: apt install libamdhip64-dev; AMD's repository: install rocm-hip-runtime; or use a container with ROCm; "
    "or set up a separate directory tree with `make rocm-root`, and use rocm-perf run --root DIR"
)
_ROCR, _HIP = "libhsa-runtime64.so.1", "libamdhip64.so"
_DISTRIBUTION_DIRECTORIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib")
_ROCM_RELEASE = re.compile(r"\.(\d{1,2})(\d\d)(\d\d)$")
"""Suffix of the ROCr library's name in AMD's packages, which encodes the release: 60403 for ROCm 6.4.3."""
_MODEL_HOOK = b"HSA_MODEL_LIB"
_OLDEST_ROCR = (1, 14)
"""That of ROCm 6.2."""
_OLDEST_ROCM, _NEWEST_TESTED = (6, 2), (7, 2)


@dataclass(frozen=True)
class RocmRuntime:
    """AMD's runtime libraries; versions are None if unknown."""

    library: Path
    """File of ROCr."""
    rocr: str
    """Version of ROCr, for example 1.15."""
    hip: str | None
    rocm: str | None
    """Release of ROCm, for example 6.4.3."""

    @property
    def problem(self) -> str | None:
        """Reason why applications are not expected to run with this runtime, or None."""
        release = _numbers(self.rocm or self.hip or "")[:2]
        if release and release < _OLDEST_ROCM:
            return f"ROCm {'.'.join(map(str, release))} is older than 6.2"
        if not release and _numbers(self.rocr)[:2] < _OLDEST_ROCR:
            return f"ROCr {self.rocr} is older than that of ROCm 6.2"
        return None

    @property
    def has_model_hook(self) -> bool:
        """Return whether ROCr can load a GPU model (`HSA_MODEL_LIB`), as releases since August 2025 can."""
        return _MODEL_HOOK in self.library.read_bytes()

    def describe(self) -> str:
        """Return versions and location."""
        parts = [f"ROCm {self.rocm}"] if self.rocm else []
        parts += [f"ROCr {self.rocr}", f"HIP {self.hip}" if self.hip else "no HIP runtime"]
        is_newer = _numbers(self.rocm or self.hip or "")[:2] > _NEWEST_TESTED
        untested = f" (newer than {'.'.join(map(str, _NEWEST_TESTED))}: not tested)" if is_newer else ""
        hook = "with a model hook (HSA_MODEL_LIB), which is not used" if self.has_model_hook else "without HSA_MODEL_LIB"
        return f"{', '.join(parts)}, {hook}, in {self.library.parent}{untested}"


def find_runtime(machine: Machine) -> RocmRuntime | None:
    """Return the runtime that applications load: from LD_LIBRARY_PATH, ROCM_PATH, /opt/rocm or the distribution.

    Args:
        machine: Files and environment to search; a directory tree made by `make rocm-root` is a machine with that root.
    """
    for directory, release in _directories(machine):
        library = directory / _ROCR
        if library.exists():
            file = library.resolve()
            hip = next((path.resolve() for path in sorted(directory.glob(f"{_HIP}*"))), None)
            rocr_version = _version(file)
            hip_version = _version(hip) if hip is not None else None
            return RocmRuntime(library, rocr_version or "1", hip_version, release or _release(file.name))
    return None


def _directories(machine: Machine) -> Iterator[tuple[Path, str | None]]:
    """Yield the directories to search for libraries, each with its release, if known."""
    for entry in machine.environment.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield Path(entry), rocm_version(Path(entry).parent)
    for root in machine.rocm_roots():
        for name in ("lib", "lib64"):
            yield root / name, rocm_version(root)
    for name in _DISTRIBUTION_DIRECTORIES:
        yield machine.root / name, None


def _version(file: Path) -> str | None:
    """Return the first two numbers after `.so.` in the name of a library."""
    numbers = file.name.partition(".so.")[2].split(".")[:2]
    return ".".join(numbers) if all(number.isdigit() for number in numbers) else None


def _release(name: str) -> str | None:
    found = _ROCM_RELEASE.search(name)
    return ".".join(str(int(number)) for number in found.groups()) if found else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))
