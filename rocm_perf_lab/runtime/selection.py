"""Dispatches of an application to profile: `DispatchSelection.parse("gemm", "100:200", 10)`.

Other dispatches also run; their times are scaled from selected ones, or derived from their instructions and bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.demangle import demangle

_RANGE = re.compile(r"(\d*):(\d*)")
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class DispatchSelection:
    """Dispatches that get counters and an estimated duration; all of them by default."""

    kernel: re.Pattern[str] | None = None
    """Kernels whose mangled or demangled name matches."""
    first: int = 0
    """Number of the first dispatch of each process; all its dispatches are counted, from 0."""
    end: int = _LARGEST
    """Number of the last dispatch, plus 1."""
    every: int = 1
    """Interval of selected dispatches, counted from `first`."""

    @classmethod
    def parse(cls, kernel: str | None, dispatches: str | None, every: int) -> DispatchSelection:
        """Return the selection for the options of a command.

        Args:
            kernel: Regular expression.
            dispatches: Range `A:B` without B, of which both ends may be missing.
            every: Distance of the dispatches.

        Raises:
            LabError: The regular expression or the range is invalid.
        """
        pattern = None
        if kernel is not None:
            try:
                pattern = re.compile(kernel)
            except re.error as error:
                raise LabError(f"invalid regular expression {kernel!r}: {error}", where="--kernel") from error
        found = _RANGE.fullmatch(dispatches or ":")
        first, end = (int(found[1] or 0), int(found[2] or _LARGEST)) if found else (0, 0)
        if not first < end <= _LARGEST:
            raise LabError(
                f"{dispatches!r} is no range of dispatches",
                where="--dispatches",
                hint="100:200 selects the dispatches 100 to 199",
            )
        return cls(pattern, first, end, every)

    def has_kernel(self, name: str) -> bool:
        """Return whether dispatches of a kernel are selected.

        Args:
            name: Its mangled name.
        """
        return self.kernel is None or bool(self.kernel.search(name) or self.kernel.search(demangle(name)))

    def settings(self) -> dict[str, int]:
        """Return the settings of the driver library."""
        return {"record_first": self.first, "record_end": self.end, "record_every": self.every}
