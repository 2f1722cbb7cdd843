"""Text that a kernel prints with `printf`, as pieces of standard output and standard error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PRINTED_NAME = "printed.txt"
"""File with the output of a kernel, in the directory of a run."""


@dataclass(frozen=True)
class PrintedPiece:
    """Consecutive text of one stream; pieces are in the order of printing."""

    text: str
    to_stderr: bool


def text_of(pieces: Sequence[PrintedPiece]) -> str:
    """Return the text of both streams in the order of printing."""
    return "".join(piece.text for piece in pieces)
