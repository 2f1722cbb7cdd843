"""Launches of kernels with a known dominant cause of lost time, or near a known roof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rocm_perf_lab.core.geometry import Dim3

    Array = NDArray[np.generic]

KERNELS = Path(__file__).with_name("kernels")
NEAR = "near "
"""Start of the label of a kernel near a roof; the name of the unit follows."""

CUS = 304
"""Compute units of an MI300X: 4 SIMDs each, 8 wavefronts per SIMD."""
FULL = CUS * 8
"""Workgroups of 256 work-items that fill an MI300X."""


@dataclass(frozen=True)
class Written:
    """Buffer that a kernel writes; `data` is its content before."""

    data: Array


@dataclass(frozen=True)
class Case:
    """A launch with a known answer.

    Args:
        label: Cause in the vocabulary of the ledger, or `near` and a unit.
        source: File of the kernel, relative to :data:`KERNELS`.
        kernel: Name of the kernel.
        grid: Workgroups.
        block: Work-items per workgroup.
        why: The arithmetic that decides the label, with limits of the MI300X.
        arguments: Returns the kernel arguments: arrays are buffers, numpy scalars are values.
        also: Further correct answers, if the arithmetic cannot separate them from the label; `why` states the reason.
        corrected: Reason for a label or a kernel that changed after its first run.
        miss: Reason for a wrong first line, found after the run.
    """

    label: str
    source: str
    kernel: str
    grid: Dim3
    block: int
    why: str
    arguments: Callable[[], tuple[Array | Written | np.generic, ...]]
    also: tuple[str, ...] = ()
    corrected: str = ""
    miss: str = ""

    @property
    def name(self) -> str:
        """Kernel and number of workgroups."""
        x, y, z = self.grid
        return f"{self.kernel}-{x * y * z}"

    @property
    def accepted(self) -> tuple[str, ...]:
        """The label and the further correct answers."""
        return (self.label, *self.also)


def reals(*shape: int) -> NDArray[np.float32]:
    """Return deterministic float32 values between 0.1 and 1."""
    return np.resize(np.linspace(0.1, 1.0, 4099, dtype=np.float32), shape)


def halves(*shape: int) -> NDArray[np.float16]:
    """Return deterministic float16 values between 0.1 and 1."""
    return np.resize(np.linspace(0.1, 1.0, 4099, dtype=np.float32).astype(np.float16), shape)


def integers(count: int, below: int, kind: type[np.generic] = np.uint32, seed: int = 1) -> Array:
    """Return random integers in [0, below)."""
    return np.random.default_rng(seed).integers(0, below, count, dtype=np.uint64).astype(kind)


def room(count: int, kind: type[np.generic] = np.float32) -> Written:
    """Return a buffer of zeros that the kernel writes."""
    return Written(np.zeros(count, kind))
