"""Output of an application that may outlive the process that started it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_PIECE = 1 << 16


class ForwardedOutput:
    """File for an application's output, which is copied to standard output until the end of the context.

    The application does not inherit the standard output of this process, so that a pipe to another program is closed with this
    process.

    Args:
        path: File to create.
    """

    def __init__(self, path: Path) -> None:
        self.file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600), "r+b", 0)
        self._place = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.forward()
        self.file.close()

    def forward(self) -> None:
        """Copy the text that the application has written since the last call."""
        sys.stdout.flush()
        while text := os.pread(self.file.fileno(), _PIECE, self._place):
            self._place += os.write(sys.stdout.fileno(), text)
