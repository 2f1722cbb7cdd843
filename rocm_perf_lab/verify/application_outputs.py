"""Is a rewritten application right? Its printed output and files against those of two runs of the unmodified one.

What differs between those two runs (times, addresses) may differ in a rewrite too; everything else has to be the same. A
command of the user's own may say it instead.
"""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.verify.outputs import OutputCheck, VerificationResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SHOWN = 80
_LONGEST = 200


class ApplicationError(LabError):
    """The user's command, build or check does not do what it should."""


@dataclass(frozen=True)
class Outputs:
    """What one run left: bytes by name, `standard output` and files."""

    content: Mapping[str, bytes]


@dataclass(frozen=True)
class OutputJudge:
    """Compares runs.

    Args:
        files: That the application writes.
        verify: Command that says by its exit code whether the outputs are right; None compares them.
        timeout_s: Of one run.
    """

    files: tuple[Path, ...]
    verify: str | None
    timeout_s: float

    def run(self, command: Sequence[str], binary: Path) -> Outputs:
        """Run it once; files of earlier runs are removed first, so that none can be taken for new.

        Raises:
            ApplicationError: It fails, hangs, or does not write a file.
        """
        for path in self.files:
            path.unlink(missing_ok=True)
        printed = _run(command, self.timeout_s, "the application")
        missing = [str(path) for path in self.files if not path.is_file()]
        if missing:
            raise ApplicationError(f"the application did not write {', '.join(missing)}", where=shlex.join(command))
        if self.verify is not None:
            words = [word.replace("{binary}", str(binary)) for word in shlex.split(self.verify)]
            _run(words, self.timeout_s, "the check of --verify")
        return Outputs({"standard output": printed, **{str(path): path.read_bytes() for path in self.files}})

    def require_something_to_compare(self, first: Outputs, second: Outputs) -> None:
        """Refuse an application that shows nothing of its results.

        Raises:
            ApplicationError: Nothing is the same in both runs.
        """
        if self.verify is None and not any(_stable(first.content[name], second.content[name]).any() for name in first.content):
            raise ApplicationError(
                "the application's output says nothing of its results: it is empty, or differs in every run",
                hint='add --compare-file FILE for what it writes, or --verify "COMMAND", which ends with 0 where all is right',
            )

    def judge(self, first: Outputs, second: Outputs, new: Outputs) -> VerificationResult:
        """What is the same in both runs of the unmodified application has to be the same in the new one."""
        if self.verify is not None:
            return VerificationResult((_check("--verify", 0, 1),))
        return VerificationResult(
            tuple(_compare(name, first.content[name], second.content[name], new.content[name]) for name in first.content)
        )


def _run(command: Sequence[str], timeout_s: float, what: str) -> bytes:
    where = shlex.join(command)
    try:
        ended = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise ApplicationError(f"{what} does not run: {error.strerror}", where=where) from error
    except subprocess.TimeoutExpired as error:
        raise ApplicationError(f"{what} took more than {timeout_s:g} s", where=where, hint="raise job.timeout_s") from error
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        raise ApplicationError(
            f"{what} ended with exit code {ended.returncode}" + (f": {said[-1][:200]}" if said else ""), where=where
        )
    return ended.stdout


def _parts(content: bytes) -> list[bytes]:
    """Lines of text, or bytes of anything else."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return [content[at : at + 1] for at in range(len(content))]
    return content.splitlines(keepends=True)


def _stable(first: bytes, second: bytes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which parts are the same in both; none where their number differs."""
    one, two = _parts(first), _parts(second)
    if len(one) != len(two):
        return np.zeros(len(one), dtype=bool)
    return np.array([a == b and bool(a.strip()) for a, b in zip(one, two, strict=True)], dtype=bool)


def _compare(name: str, first: bytes, second: bytes, new: bytes) -> OutputCheck:
    stable = _stable(first, second)
    if not stable.any():
        return _check(name, 0, 0)
    old, found = _parts(first), _parts(new)
    if len(old) != len(found):
        return _check(f"{name} ({len(found)} parts instead of {len(old)})", len(old), len(old))
    wrong = [at for at in np.flatnonzero(stable).tolist() if old[at] != found[at]]
    if not wrong:
        return _check(name, 0, int(stable.sum()))
    at = wrong[0]
    told = f"{name} ({found[at][:_SHOWN]!r} instead of {old[at][:_SHOWN]!r})"
    return _check(told, len(wrong), int(stable.sum()), at)


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
