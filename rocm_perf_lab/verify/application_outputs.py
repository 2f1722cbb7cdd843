"""Verification of a rewritten application: standard output and files against two runs of the unmodified application.

Content that differs between the two unmodified runs (times, addresses) may differ in the rewrite too; everything else must be
identical. A verification command of the user can replace the comparison.

Text is compared line by line, binary content byte by byte. The unmodified runs determine which of the two applies, so a rewrite
cannot change it. Memory in addition to the contents is bounded by the size of one block.
"""

from __future__ import annotations

import codecs
import io
import shlex
import subprocess
import time
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.process_group import captured_in_group, how_it_ended
from rocm_perf_lab.verify.outputs import OutputCheck, VerificationResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_BLOCK_BYTES = 1 << 20
_SHOWN_BYTES = 80
_SHOWN_STDERR = 200
_SLOWER = 20.0
_LEAST_LIMIT_S = 60.0
"""Run time of a rewrite, relative to the unmodified application, after which it is stopped; at least one minute is allowed."""


class ApplicationError(LabError):
    """User's command (application, build or verification) that fails, hangs or does not write an expected file."""


@dataclass(frozen=True)
class RunOutputs:
    """Outputs of one run: bytes by name, `standard output` and files; and the duration of the run in seconds."""

    content: Mapping[str, bytes]
    seconds: float = 0.0


@dataclass(frozen=True)
class ApplicationVerifier:
    """Runs an application and compares its outputs.

    Args:
        files: Files that the application writes.
        verify_command: Command with `{binary}` that exits with 0 if the outputs are correct; None compares outputs.
        timeout_s: Limit of one run in seconds.
    """

    files: tuple[Path, ...]
    verify_command: str | None
    timeout_s: float

    def run(self, command: Sequence[str], binary: Path, unmodified: Sequence[RunOutputs] = ()) -> RunOutputs:
        """Run the application once and return its outputs. Files of earlier runs are removed first.

        Args:
            command: Command line.
            binary: The built application.
            unmodified: Runs of the unmodified application, which limit the run time of a rewrite; otherwise empty.

        Raises:
            ApplicationError: The application or the verification command fails or hangs, or a file is missing afterwards.
        """
        for path in self.files:
            path.unlink(missing_ok=True)
        longest = max((run.seconds for run in unmodified), default=self.timeout_s)
        limit = min(self.timeout_s, max(_LEAST_LIMIT_S, _SLOWER * longest))
        start = time.monotonic()
        printed = _run(command, limit, "the application")
        seconds = time.monotonic() - start
        missing = [str(path) for path in self.files if not path.is_file()]
        if missing:
            raise ApplicationError(f"the application did not write {', '.join(missing)}", where=shlex.join(command))
        if self.verify_command is not None:
            arguments = [argument.replace("{binary}", str(binary)) for argument in shlex.split(self.verify_command)]
            _run(arguments, self.timeout_s, "the command of --verify")
        return RunOutputs({"standard output": printed, **{str(path): path.read_bytes() for path in self.files}}, seconds)

    def require_comparable_output(self, first: RunOutputs, second: RunOutputs) -> None:
        """Check that two runs of the unmodified application have content in common.

        Raises:
            ApplicationError: Every output is empty, blank, or different in the two runs.
        """
        if self.verify_command is None and not any(_has_results(first.content[n], second.content[n]) for n in first.content):
            raise ApplicationError(
                "the application has no output that can be compared: it is empty, or differs in every run",
                hint='add --compare-file FILE, or --verify "COMMAND", which exits with 0 if the results are correct',
            )

    def verify(self, first: RunOutputs, second: RunOutputs, new: RunOutputs) -> VerificationResult:
        """Compare a rewrite with two runs of the unmodified application.

        Args:
            first: Outputs of the unmodified application.
            second: Outputs of a second run of the unmodified application.
            new: Outputs of the rewrite.

        Returns:
            One check per output. With a verification command, :meth:`run` has already raised if the outputs are wrong.
        """
        if self.verify_command is not None:
            return VerificationResult((_check("--verify", 0, 1),))
        return VerificationResult(
            tuple(_compare(name, first.content[name], second.content[name], new.content[name]) for name in first.content)
        )


@dataclass(frozen=True)
class _Comparison:
    """Compared and wrong lines or bytes of one output. `first_wrong`: index, actual and expected content."""

    compared: int
    wrong: int
    first_wrong: tuple[int, bytes, bytes] | None


def _run(command: Sequence[str], timeout_s: float, what: str) -> bytes:
    where = shlex.join(command)
    try:
        ended = captured_in_group(command, timeout_s)
    except OSError as error:
        raise ApplicationError(f"{what} cannot be started: {error.strerror}", where=where) from error
    except subprocess.TimeoutExpired as error:
        raise ApplicationError(f"{what} took more than {timeout_s:g} s", where=where, hint="raise job.timeout_s") from error
    if ended.returncode != 0:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        message = f": {lines[-1][:_SHOWN_STDERR]}" if lines else ""
        code = ended.returncode
        how = how_it_ended(code) if code < 0 else f"failed with exit code {code}"
        raise ApplicationError(f"{what} {how}{message}", where=where)
    return ended.stdout


def _is_text(content: bytes) -> bool:
    """Return whether content is UTF-8 without NUL bytes."""
    if b"\0" in content:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), _BLOCK_BYTES):
            decoder.decode(content[start : start + _BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _has_results(first: bytes, second: bytes) -> bool:
    """Return whether two runs have a non-blank line, or a byte of binary content, in common."""
    if _is_text(first) and _is_text(second):
        if first == second:
            return bool(first.strip())
        return _count_lines(first) == _count_lines(second) and any(
            one == other and one.strip() for one, other in zip(_lines(first), _lines(second), strict=True)
        )
    return len(first) == len(second) and any((one == other).any() for one, other in _blocks(first, second))


def _compare(name: str, first: bytes, second: bytes, new: bytes) -> OutputCheck:
    if first == second == new:  # Identical contents need no division into lines or bytes.
        return _check(name, 0, _count_lines(first) if _is_text(first) else len(first))
    is_text = _is_text(first) and _is_text(second)
    unit = "lines" if is_text else "bytes"
    old_count, again_count, new_count = (_count_lines(c) if is_text else len(c) for c in (first, second, new))
    if old_count != again_count:
        return _check(f"{name} (not compared: the number of {unit} differs between two runs of the unmodified application)", 0, 0)
    if old_count != new_count:
        return _check(f"{name} ({new_count:,} {unit} instead of {old_count:,})", max(old_count, 1), max(old_count, 1))
    result = _compare_lines(first, second, new) if is_text else _compare_bytes(first, second, new)
    if result.first_wrong is None:
        return _check(name, 0, result.compared)
    place, found, expected = result.first_wrong
    return _check(f"{name} ({found!r} instead of {expected!r})", result.wrong, result.compared, place)


def _lines(content: bytes) -> Iterator[bytes]:
    """Yield lines, including their newlines."""
    return iter(io.BytesIO(content))


def _count_lines(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


def _compare_lines(first: bytes, second: bytes, new: bytes) -> _Comparison:
    compared = wrong = 0
    first_wrong: tuple[int, bytes, bytes] | None = None
    for number, (one, other, found) in enumerate(zip_longest(_lines(first), _lines(second), _lines(new))):
        if one != other:
            continue
        compared += 1
        if found != one:
            wrong += 1
            first_wrong = first_wrong or (number, found[:_SHOWN_BYTES], one[:_SHOWN_BYTES])
    return _Comparison(compared, wrong, first_wrong)


def _compare_bytes(first: bytes, second: bytes, new: bytes) -> _Comparison:
    compared = wrong = 0
    first_wrong: tuple[int, bytes, bytes] | None = None
    for block, (one, other, found) in enumerate(_blocks(first, second, new)):
        stable = one == other
        differs = stable & (one != found)
        compared += int(np.count_nonzero(stable))
        count = int(np.count_nonzero(differs))
        if count and first_wrong is None:
            place = int(np.argmax(differs))
            at = block * _BLOCK_BYTES + place
            first_wrong = (at, new[at : at + 1], first[at : at + 1])
        wrong += count
    return _Comparison(compared, wrong, first_wrong)


def _blocks(*contents: bytes) -> Iterator[tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], ...]]:
    """Yield corresponding blocks of contents of equal length as arrays of bytes, without copying."""
    arrays = [np.frombuffer(content, np.uint8) for content in contents]
    for start in range(0, len(contents[0]), _BLOCK_BYTES):
        yield tuple(array[start : start + _BLOCK_BYTES] for array in arrays)


def _check(name: str, mismatches: int, elements: int, worst: int = 0) -> OutputCheck:
    return OutputCheck(
        name=name,
        passed=not mismatches,
        mismatches=mismatches,
        elements=elements,
        max_abs_error=0.0,
        max_rel_error=0.0,
        worst_index=(worst,),
        actual=float(bool(mismatches)),
        expected=0.0,
    )
