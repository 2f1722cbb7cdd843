"""The interface of devices: a device runs a :class:`Launch` and records it in a rocpd database.

A launch holds the code object, symbol, geometry and argument values. A run returns the buffers that the kernel wrote. All
devices write the same database schema, the only source of times and counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from rocm_perf_lab.core.geometry import Dim3, Geometry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.device.instruction_counts import ExecutionCount
    from rocm_perf_lab.emulator.sampling import SamplePolicy
    from rocm_perf_lab.toolchain.code_object import CodeObject


@dataclass(frozen=True)
class BufferValue:
    """Device memory of a pointer argument; `data` is its content before the dispatch.

    `is_set` is False if that content is poison: reading it is a defect that the emulator can find. `alignment` is the power of
    two, in bytes, that divides the address and that the kernel may rely on.
    """

    name: str
    data: NDArray[np.generic]
    written: bool
    is_set: bool = True
    alignment: int = 256


@dataclass(frozen=True)
class ScalarValue:
    """Argument passed by value, encoded as the kernel expects it: little endian, in its natural size."""

    name: str
    encoded: bytes


@dataclass(frozen=True)
class VariableValue:
    """Variable of the code object, by symbol, and its content before the dispatch."""

    name: str
    data: NDArray[np.generic]


@dataclass(frozen=True)
class Launch:
    """One dispatch, ready to run; see :class:`~rocm_perf_lab.core.geometry.Geometry` for grid, block and remainder."""

    code_object: CodeObject
    symbol: str
    grid: Dim3
    block: Dim3
    dynamic_lds_bytes: int
    arguments: tuple[BufferValue | ScalarValue, ...]
    remainder: Dim3 = (0, 0, 0)
    variables: tuple[VariableValue, ...] = ()
    cooperative: bool = False

    @property
    def geometry(self) -> Geometry:
        """Geometry of the dispatch."""
        return Geometry(self.grid, self.block, self.dynamic_lds_bytes, self.remainder)


@dataclass(frozen=True)
class DeviceIdentity:
    """Name and versions of a device, recorded with every number that it produces."""

    name: str
    emulated: bool
    reason: str
    versions: Mapping[str, str] = field(default_factory=dict)
    has_times: bool = True
    """False on the emulator if there is no timing model for the target; dispatches then have no times."""

    @property
    def time_word(self) -> str:
        """`emulated` or `measured`, shown with every time from this device."""
        return "emulated" if self.emulated else "measured"


@dataclass(frozen=True)
class Finding:
    """Defect found by a check; `source` is its source line, if known."""

    check: str
    message: str
    source: str | None


@dataclass(frozen=True)
class DeviceRun:
    """Result of one run: the buffers that the kernel may write, by argument name, and the rocpd database.

    Args:
        outputs: Content of writable buffers after the first dispatch.
        database: The rocpd database.
        instruction_counts: Counts of one dispatch, in address order; empty if the device does not count instructions.
        findings: Defects found by checks; only the emulator has checks.
        printed: Output of the kernel, if the device can separate it from the output of the process.
        host_calls: Calls of the host by wavefronts, for printing and memory.
        notes: Remarks for readers of the numbers, and observations of checks that are not defects.
    """

    outputs: Mapping[str, NDArray[np.generic]]
    database: Path
    instruction_counts: tuple[ExecutionCount, ...] = ()
    findings: tuple[Finding, ...] = ()
    printed: tuple[PrintedPiece, ...] = ()
    host_calls: int = 0
    notes: tuple[str, ...] = ()


class Device(Protocol):
    """Runs and measures code objects. Configurations name a device class with `_target_`."""

    @property
    def identity(self) -> DeviceIdentity:
        """Name, reason of choice and versions."""
        ...

    @property
    def deterministic(self) -> bool:
        """True if all dispatches of a launch have the same duration, so that one run is enough."""
        ...

    def run(self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str], att: Path | None = None) -> DeviceRun:
        """Dispatch a kernel and record it.

        Args:
            launch: The dispatch.
            database: Path of the new database.
            runs: Number of dispatches.
            counters: Counters to collect, by the names of rocprofv3.
            att: Directory for the decoded thread trace of the first dispatch (`ui_output_agent_<a>_dispatch_<d>`), or None.
        """
        ...


@runtime_checkable
class TimeLimitedDevice(Protocol):
    """Device that ends a run which takes too long."""

    def with_time_limit(self, seconds: float) -> Self:
        """Return this device with a limit of wall-clock time per run; a run that exceeds it is a :class:`LabError`."""
        ...


@runtime_checkable
class EnergyDevice(Protocol):
    """Device with an energy counter."""

    def energy_mj(self, launch: Launch) -> float:
        """Return the measured energy of a dispatch in mJ."""
        ...


@runtime_checkable
class SampledDevice(Protocol):
    """Device whose times are estimated from a random sample of workgroups."""

    @property
    def sample(self) -> SamplePolicy:
        """Size and seed of the sample."""
        ...

    def with_sample_seed(self, seed: int) -> Self:
        """Return this device with another seed, unless its configuration sets one."""
        ...
