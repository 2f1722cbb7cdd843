"""What replays a capture inside its own process: `Replayer`, implemented on the emulator and on the HSA runtime.

A replayer has reconstructed the captured memory at its old addresses; it loads code objects, restores memory, dispatches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.replay.kernarg import ReplayGeometry
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata


@dataclass(frozen=True)
class ReplayEnvironment:
    """Where a replay ran."""

    gpu_agent: str
    rocm_version: str
    emulated: bool


class Replayer(Protocol):
    """One reconstructed dispatch."""

    @property
    def environment(self) -> ReplayEnvironment:
        """Where it runs."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the fidelity of this replay."""
        ...

    def load(self, code_object: CodeObject, kernel: KernelMetadata, geometry: ReplayGeometry) -> None:
        """Replay this from now on; what was loaded before is taken as it is."""
        ...

    def restore(self) -> int:
        """Bring the memory back to what it was before the dispatch; the bytes that were copied."""
        ...

    def dispatch(self, *, timed: bool = True) -> float | None:
        """Run the kernel once: its duration in microseconds, None where `timed` is False and timing costs extra.

        Raises:
            DeviceFault: It faulted, or did not end in time.
            EmulationError: The emulated kernel did what it must not do.
        """
        ...

    def memory(self) -> Iterator[tuple[int, NDArray[np.uint8], NDArray[np.intp] | None]]:
        """Every region now: base, bytes (size,), and pages that may differ from before the dispatch (None: any)."""
        ...

    def variables(self) -> Mapping[str, bytes]:
        """The captured module variables of the loaded code object now, by name."""
        ...

    def read(self, address: int, nbytes: int) -> bytes:
        """Device memory now."""
        ...

    def counters(self) -> Mapping[str, float]:
        """Hardware counters of the last timed dispatch; empty where the replayer has none."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...
