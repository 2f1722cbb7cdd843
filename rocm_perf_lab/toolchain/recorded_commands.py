"""Records of the commands that compiled code objects, in the cache of the user: hash of the code object -> command.

`rocm-perf hipcc` and `rocm-perf run` write them, so that the source of a captured kernel is found without debug information.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.models import StrictModel, read_model, write_model

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIRECTORY = "commands"


class RecordedCommand(StrictModel):
    """Source (absolute), working directory and arguments of one compilation."""

    source: str
    directory: str
    arguments: tuple[str, ...]


def record_command(code_object: bytes, source: Path, arguments: Sequence[str], cache: Path) -> None:
    """Record the command that compiled a code object; an unwritable cache is ignored."""
    record = RecordedCommand(source=str(source.absolute()), directory=str(Path.cwd()), arguments=tuple(arguments))
    with suppress(OSError):
        write_model(_path(code_object, cache), record)


def recorded_command(code_object: bytes, cache: Path) -> RecordedCommand | None:
    """Return the command that compiled a code object, or None."""
    return read_model(_path(code_object, cache), RecordedCommand)


def _path(code_object: bytes, cache: Path) -> Path:
    return cache / _DIRECTORY / f"{hashlib.sha256(code_object).hexdigest()}.json"
