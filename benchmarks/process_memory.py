"""Resident memory of a process, sampled while it works."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from types import TracebackType

_SAMPLE_S = 0.005


def resident_bytes(pid: int, field: Literal["VmRSS", "VmHWM"] = "VmRSS") -> int:
    """Return the resident size of a process in bytes, or its largest size (VmHWM); 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


class PeakMemory:
    """Context manager that samples the resident size of a process without its children in a thread.

    Args:
        pid: Process, which may end before the context.
        field: `VmRSS` for the largest size within the context, between samples unseen; `VmHWM` for the largest since the process
            started.
    """

    def __init__(self, pid: int, field: Literal["VmRSS", "VmHWM"] = "VmRSS") -> None:
        self.largest = 0
        self.first = resident_bytes(pid, field)
        self._pid, self._field = pid, field
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        """Bytes by which the largest size exceeds that at the beginning."""
        return max(self.largest - self.first, 0)

    def _watch(self) -> None:
        while not self._stopped.wait(_SAMPLE_S):
            self.largest = max(self.largest, resident_bytes(self._pid, self._field))
