"""Protocol of the objects that replay a capture inside the worker process; implemented on the emulator and on the HSA runtime.

A replayer has the captured memory at its original addresses; it loads code objects, restores memory and dispatches kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.replay.kernarg import ReplayGeometry
    from rocm_perf_lab.replay.messages import CacheState
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata


@dataclass(frozen=True)
class ReplayEnvironment:
    """Device and runtime of a replay."""

    gpu_agent: str
    rocm_version: str
    emulated: bool
    sample_seed: int | None = None
    """Seed of the sample of workgroups from which the last emulated time was estimated."""


class Replayer(Protocol):
    """Replayer of one captured dispatch."""

    @property
    def environment(self) -> ReplayEnvironment:
        """Device and runtime of the replay."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the fidelity of this replay."""
        ...

    def load(self, code_object: CodeObject, kernel: KernelMetadata, geometry: ReplayGeometry) -> None:
        """Load a code object, or reuse it if it was loaded before, and select it for the following dispatches."""
        ...

    def restore(self) -> int:
        """Restore the memory before the dispatch; return the number of bytes copied."""
        ...

    def dispatch(self, *, timed: bool = True) -> float | None:
        """Run the kernel once and return its duration in microseconds; None if `timed` is False and timing is expensive.

        Raises:
            DeviceFault: The kernel faulted or did not end in time.
            EmulationError: The emulated kernel faulted or exceeded the instruction limit.
        """
        ...

    def use_caches(self, state: CacheState) -> None:
        """Select the state of the caches for the following dispatches; for cold caches, :meth:`flush` overwrites them."""
        ...

    def flush(self) -> None:
        """Replace the contents of the caches by other lines, after a restore."""
        ...

    def clocks(self) -> Mapping[str, float]:
        """Return current clocks in MHz by name: shader, memory; empty if they are unknown."""
        ...

    def memory(self) -> Iterator[tuple[int, NDArray[np.uint8], NDArray[np.intp] | None]]:
        """Yield the current content of every region: base, bytes (size,), and pages that may have changed (None: any)."""
        ...

    def variables(self) -> Mapping[str, bytes]:
        """Return the current bytes of the captured module variables in the loaded code object, by name."""
        ...

    def read(self, address: int, nbytes: int) -> bytes:
        """Return current device memory."""
        ...

    def counters(self) -> Mapping[str, float]:
        """Return hardware counters of the last timed dispatch; empty if the replayer has none."""
        ...

    def close(self) -> None:
        """Release memory and queues."""
        ...
