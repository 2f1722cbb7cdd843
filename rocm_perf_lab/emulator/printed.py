"""Output of kernels in order, kept as text per stream and searched for messages of failed assertions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocm_perf_lab.core.printed import PrintedPiece

_LIMIT_BYTES = 64 << 20
_ASSERTIONS = (
    re.compile(  # HIP's assert
        rb"(?P<file>.+?):(?P<line>\d+): (?P<function>.*): (?:Device-side a|A)ssertion `(?P<condition>.*)' failed", re.DOTALL
    ),
    re.compile(  # Triton's device_assert
        rb"device assertion failed: '(?P<condition>.*)', in (?P<function>.*) at (?P<file>.+):(?P<line>\d+)", re.DOTALL
    ),
)
"""Messages that device code prints before it traps on a failed assertion."""


Wavefront = tuple[tuple[int, int, int], int]
"""Workgroup, and number of the wavefront in it."""


@dataclass(frozen=True)
class Assertion:
    """Failed assertion as printed by device code."""

    file: str
    line: int
    function: str
    condition: str


class PrintedText:
    """Collector of messages, in the order of :meth:`add`."""

    def __init__(self) -> None:
        self._pieces: list[tuple[bool, bytearray]] = []
        self._bytes = 0
        self._dropped = 0
        self._failed: dict[Wavefront | None, Assertion] = {}

    def add(self, text: bytes, *, to_stderr: bool, wavefront: Wavefront | None) -> None:
        """Add one message of one work-item; `wavefront` is None if unknown."""
        assertion = _assertion(text) if b"ssertion " in text else None
        if assertion is not None:
            self._failed[wavefront] = assertion
        if self._bytes + len(text) > _LIMIT_BYTES:
            self._dropped += 1
            return
        self._bytes += len(text)
        if not self._pieces or self._pieces[-1][0] != to_stderr:
            self._pieces.append((to_stderr, bytearray()))
        self._pieces[-1][1].extend(text)

    @property
    def pieces(self) -> tuple[PrintedPiece, ...]:
        """Return the output, at most 64 MiB, followed by the number of dropped messages if there are any."""
        pieces = [PrintedPiece(text.decode(errors="backslashreplace"), to_stderr) for to_stderr, text in self._pieces]
        if self._dropped:
            pieces.append(PrintedPiece(f"\n[{self._dropped:,} more messages were not kept]\n", to_stderr=True))
        return tuple(pieces)

    def failed_assertion(self, wavefront: Wavefront) -> Assertion | None:
        """Return the last assertion reported by a wavefront, or by any wavefront if the reporting one is unknown."""
        return self._failed.get(wavefront) or self._failed.get(None)


def _assertion(text: bytes) -> Assertion | None:
    match = next(filter(None, (pattern.match(text) for pattern in _ASSERTIONS)), None)
    if match is None:
        return None
    file, function, condition = (match[key].decode(errors="backslashreplace") for key in ("file", "function", "condition"))
    return Assertion(file, int(match["line"]), "" if function == "unknown" else function, condition)
