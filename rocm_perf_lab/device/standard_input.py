"""Standard input for a command that runs several times: every run reads the same input from the beginning.

A file is rewound; the content of a pipe is first saved to a file. A pipe without waiting data is not read, because services
and CI systems leave pipes open without ever writing to them.
"""

from __future__ import annotations

import os
import select
import stat
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from types import TracebackType

_STDIN = 0
_CHUNK = 1 << 20
_MOST_BYTES = 256 << 20


class RepeatableInput:
    """Context manager for the standard input of several runs; call :meth:`rewind` before each run."""

    def __init__(self) -> None:
        self._begin: int | None = None
        self._original: int | None = None

    def rewind(self) -> None:
        """Make the next run read from the beginning."""
        if self._begin is not None:
            os.lseek(_STDIN, self._begin, os.SEEK_SET)

    def __enter__(self) -> Self:
        """Save the content of a pipe.

        Raises:
            LabError: The content exceeds 256 MiB.
        """
        try:
            mode = os.fstat(_STDIN).st_mode
        except OSError:  # closed
            return self
        if stat.S_ISREG(mode):
            self._begin = os.lseek(_STDIN, 0, os.SEEK_CUR)
        elif (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and select.select([_STDIN], [], [], 0)[0]:
            self._keep_pipe()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._original is not None:
            os.dup2(self._original, _STDIN)
            os.close(self._original)

    def _keep_pipe(self) -> None:
        import tempfile

        with tempfile.TemporaryFile() as kept:
            size = 0
            while chunk := os.read(_STDIN, _CHUNK):
                size += len(chunk)
                if size > _MOST_BYTES:
                    raise LabError(
                        f"standard input is a pipe with more than {_MOST_BYTES >> 20} MiB, which every run would have to read",
                        hint="use a file: rocm-perf profile ./app < FILE",
                    )
                kept.write(chunk)
            kept.flush()
            self._original = os.dup(_STDIN)
            os.dup2(kept.fileno(), _STDIN)
            self._begin = 0
