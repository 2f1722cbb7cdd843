"""Candidate files of `rocm-perf verify`: read once, checked, and copied to the directory of the run."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import require_existing, write_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_CANDIDATE_BYTES = 4 << 20
_ID_DIGITS = 12


class CandidateFileError(LabError):
    """Candidate that is not a readable text file."""


@dataclass(frozen=True)
class CandidateFile:
    """Content of a candidate. `path` is the path on the command line."""

    path: Path
    content: bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def text(self) -> str:
        """Source text with original newlines."""
        return self.content.decode()

    def placed(self, directory: Path, name: str) -> Path:
        """Copy the content to `directory`/ID/`name`, so that later changes to the file have no effect; return the path."""
        path = (directory / self.sha256[:_ID_DIGITS] / name).absolute()
        write_bytes(path, self.content)
        return path


def read_candidates(paths: Sequence[str]) -> tuple[CandidateFile, ...]:
    """Read candidates.

    Args:
        paths: Files of the user.

    Raises:
        CandidateFileError: There is no candidate, or one is not a regular file, is too large, or is not UTF-8 text.
        LabError: A file does not exist.
    """
    if not paths:
        raise CandidateFileError("no candidate to verify", hint="rocm-perf verify kernel=NAME --candidate new.hip")
    return tuple(_read(Path(path)) for path in paths)


def _read(path: Path) -> CandidateFile:
    where = str(path)
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        require_existing(path, "the candidate")
        raise
    except (OSError, ValueError) as error:  # A loop of symbolic links, or a name that is too long or contains a NUL.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CandidateFileError(f"cannot read the candidate: {reason}", where=where, hint="check --candidate") from error
    if stat.S_ISDIR(found.st_mode):
        raise CandidateFileError("the candidate is a directory", where=where, hint="pass the source file in it")
    if not stat.S_ISREG(found.st_mode):
        raise CandidateFileError("the candidate is not a regular file", where=where, hint="write the source to a file first")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CANDIDATE_BYTES + 1)
    except OSError as error:
        raise CandidateFileError(
            f"cannot read the candidate: {error.strerror}", where=where, hint="check its permissions"
        ) from error
    _check(content, where)
    return CandidateFile(path, content)


def _check(content: bytes, where: str) -> None:
    if len(content) > MAX_CANDIDATE_BYTES:
        raise CandidateFileError(
            f"the candidate has more than {MAX_CANDIDATE_BYTES >> 20} MiB", where=where, hint="pass a source file"
        )
    if not content.strip():
        raise CandidateFileError("the candidate is empty", where=where, hint="pass a source file")
    if b"\0" in content:
        raise CandidateFileError("the candidate is a binary file", where=where, hint="pass a source file, not compiled code")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise CandidateFileError(
            f"the candidate is not UTF-8: byte {error.start} is {content[error.start]:#04x}",
            where=where,
            hint="convert it to UTF-8",
        ) from error
