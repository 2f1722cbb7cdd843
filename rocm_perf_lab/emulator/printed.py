"""What kernels print, in order: kept as text per stream, and searched for the messages of failed assertions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PRINTED_NAME = "printed.txt"
"""File with what a kernel printed, in the folder of a run."""
_LIMIT_BYTES = 64 << 20
_ASSERTION = re.compile(
    rb"^(?P<file>.+?):(?P<line>\d+): (?P<function>.*): (?:Device-side a|A)ssertion `(?P<condition>.*)' failed", re.DOTALL
)
"""What HIP's `assert` and Triton's `device_assert` print before they trap."""


@dataclass(frozen=True)
class Assertion:
    """A failed assertion of some lanes of one wavefront."""

    file: str
    line: int
    function: str
    condition: str
    workgroup: tuple[int, int, int]
    wave: int
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class PrintedPiece:
    """Text of one stream; pieces are in the order of printing."""

    text: str
    to_stderr: bool


def text_of(pieces: Sequence[PrintedPiece]) -> str:
    """Both streams in the order of printing."""
    return "".join(piece.text for piece in pieces)


class PrintedText:
    """Collects messages: :meth:`add` one after the other."""

    def __init__(self) -> None:
        self._pieces: list[tuple[bool, bytearray]] = []
        self._bytes = 0
        self._dropped = 0
        self._failed: list[tuple[bytes, tuple[int, int, int], int, int]] = []

    def add(self, text: bytes, *, to_stderr: bool, workgroup: tuple[int, int, int], wave: int, lane: int) -> None:
        """One message of one work-item."""
        if b"ssertion `" in text and _ASSERTION.match(text):
            self._failed.append((text, workgroup, wave, lane))
        if self._bytes + len(text) > _LIMIT_BYTES:
            self._dropped += 1
            return
        self._bytes += len(text)
        if not self._pieces or self._pieces[-1][0] != to_stderr:
            self._pieces.append((to_stderr, bytearray()))
        self._pieces[-1][1].extend(text)

    @property
    def pieces(self) -> tuple[PrintedPiece, ...]:
        """All that was printed; at most 64 MiB, and then a line that says how much more there was."""
        pieces = [PrintedPiece(text.decode(errors="backslashreplace"), to_stderr) for to_stderr, text in self._pieces]
        if self._dropped:
            pieces.append(PrintedPiece(f"\n[{self._dropped:,} more messages were not kept]\n", to_stderr=True))
        return tuple(pieces)

    def failed_assertion(self, workgroup: tuple[int, int, int], wave: int) -> Assertion | None:
        """The last one of a wavefront, with the lanes that printed the same."""
        of_wave = [entry for entry in self._failed if entry[1:3] == (workgroup, wave)]
        if not of_wave:
            return None
        last = of_wave[-1][0]
        match = _ASSERTION.match(last)
        if match is None:
            return None
        file, function, condition = (match[key].decode(errors="backslashreplace") for key in ("file", "function", "condition"))
        lanes = tuple(dict.fromkeys(lane for text, _, _, lane in of_wave if text == last))
        return Assertion(file, int(match["line"]), function, condition, workgroup, wave, lanes)
