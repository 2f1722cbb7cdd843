"""Request and result of `rocm-perf emulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.languages.data_types import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.device.argument_text import TextArgument
    from rocm_perf_lab.device.instruction_counts import ExecutionCount
    from rocm_perf_lab.device.protocol import DeviceIdentity, Finding, Launch
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.occupancy import Occupancy
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

_FIRST_VALUES = 8


@dataclass(frozen=True)
class EmulateRequest:
    """Arguments and options of `rocm-perf emulate`."""

    file: Path
    grid: str | None
    block: str
    work_items: str | None = None
    cooperative: bool = False
    arguments: tuple[str, ...] = ()
    kernel: str | None = None
    dynamic_lds_bytes: int = 0
    target: str | None = None
    """Default: a GPU with the code object's architecture."""
    check: str = "none"
    max_instructions: int | None = None


@dataclass(frozen=True)
class Emulation:
    """Launch and its results."""

    kernel: KernelMetadata
    launch: Launch
    target: Target
    arguments: tuple[TextArgument, ...]
    occupancy: Occupancy
    outputs: Mapping[str, NDArray[Any]]
    counters: Mapping[str, float]
    duration_ns: int
    instruction_counts: tuple[ExecutionCount, ...]
    identity: DeviceIdentity
    findings: tuple[Finding, ...]
    printed: tuple[PrintedPiece, ...] = ()
    host_calls: int = 0
    notes: tuple[str, ...] = ()
    sample_seed: int | None = None
    """Seed of the sample of workgroups from which the time was estimated."""


@dataclass(frozen=True)
class OutputSummary:
    """Output buffer after the launch; smallest, largest and mean exclude NaN, and are None if all values are NaN."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    smallest: float | None
    largest: float | None
    mean: float | None
    nan_count: int
    first: tuple[float, ...]


def summarise_output(name: str, values: NDArray[Any]) -> OutputSummary:
    """Summarise the values of a buffer."""
    dtype = next(word for word, known in DTYPES.items() if known == values.dtype)
    is_float = DTYPES[dtype].kind not in "iu"
    flat = values.reshape(-1)
    wide = flat.astype(np.float64) if is_float else flat
    numbers = wide[~np.isnan(wide)] if is_float else wide
    as_number = float if is_float else int
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(numbers.mean(dtype=np.float64)) if numbers.size else None
    return OutputSummary(
        name=name,
        dtype=dtype,
        shape=values.shape,
        smallest=as_number(numbers.min()) if numbers.size else None,
        largest=as_number(numbers.max()) if numbers.size else None,
        mean=mean,
        nan_count=int(wide.size - numbers.size),
        first=tuple(as_number(value) for value in wide[:_FIRST_VALUES]),
    )
