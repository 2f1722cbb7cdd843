"""What a device is: it runs a launch and leaves a rocpd database behind.

Input: a :class:`Launch` (code object, symbol, geometry, argument values). Output: the buffers that the kernel wrote and
one rocpd database, the same schema whatever the device, which is the only source of times and counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.core.geometry import Dim3, Geometry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.device.instruction_counts import InstructionCount
    from rocm_perf_lab.toolchain.code_object import CodeObject


@dataclass(frozen=True)
class BufferValue:
    """Device memory behind a pointer argument; `data` is its content before the dispatch.

    `is_set` is False where that content is only poison: reading it is a defect that the emulator can find.
    """

    name: str
    data: NDArray[np.generic]
    written: bool
    is_set: bool = True


@dataclass(frozen=True)
class ScalarValue:
    """A by-value argument, already encoded as the kernel expects it (little endian, its natural size)."""

    name: str
    encoded: bytes


@dataclass(frozen=True)
class VariableValue:
    """A variable of the code object, by symbol, and what the host puts into it before the dispatch."""

    name: str
    data: NDArray[np.generic]


@dataclass(frozen=True)
class Launch:
    """One dispatch, ready to run. `grid` counts workgroups, `block` work-items per workgroup.

    `remainder` has the work-items of the last workgroup of an axis where it is partial, 0 where it is whole.
    """

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
        """Of the dispatch."""
        return Geometry(self.grid, self.block, self.dynamic_lds_bytes, self.remainder)


@dataclass(frozen=True)
class DeviceIdentity:
    """Provenance of every number that a device produces."""

    name: str
    emulated: bool
    reason: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def time_word(self) -> str:
        """The word that goes with a time from this device: emulated times are never shown as measured ones."""
        return "emulated" if self.emulated else "measured"


@dataclass(frozen=True)
class Finding:
    """A defect that a check found: which check, what and where, in words; `source` is its line where it is known."""

    check: str
    message: str
    source: str | None


@dataclass(frozen=True)
class DeviceRun:
    """What one run left: outputs by argument name (buffers that the kernel may write) and the rocpd database.

    `instruction_counts` are those of one dispatch, in address order; empty from a device that does not count them.
    `findings` are what the chosen checks found; only the emulator checks. `notes` say what a reader of the numbers has to
    know, and what the checks saw that is no defect. `printed` is what the kernel printed, where the device can tell it from the
    process's own output, and `host_calls` how often its wavefronts called the host for that and for memory.
    """

    outputs: Mapping[str, NDArray[np.generic]]
    database: Path
    instruction_counts: tuple[InstructionCount, ...] = ()
    findings: tuple[Finding, ...] = ()
    printed: tuple[PrintedPiece, ...] = ()
    host_calls: int = 0
    notes: tuple[str, ...] = ()


class Device(Protocol):
    """Where code objects run and are measured."""

    @property
    def identity(self) -> DeviceIdentity:
        """Name, reason of choice and versions."""
        ...

    @property
    def deterministic(self) -> bool:
        """True where repeating a dispatch gives the same time, so that one run is enough."""
        ...

    def run(self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str], att: Path | None = None) -> DeviceRun:
        """Dispatch `runs` times; record every dispatch, and `counters` where asked, in a new database at `database`.

        With `att`, a directory, also take a thread trace of the first dispatch and leave its decoded directory
        (`ui_output_agent_<a>_dispatch_<d>`) in it.
        """
        ...
