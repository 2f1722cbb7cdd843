"""Result of one test of a suite, and the file that keeps the results of a suite between runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PASSED, FAILED, SKIPPED, OVER_LIMIT = "passed", "failed", "skipped", "over the time limit"
_LONGEST_REASON = 300
_ENDED = "ended"


@dataclass(frozen=True)
class SuiteTestResult:
    """Result of one test.

    Args:
        name: Name, unique in its suite.
        status: One of the constants of this module.
        seconds: Wall-clock time.
        reason: First lines of the output of a test that did not pass.
    """

    name: str
    status: str
    seconds: float
    reason: str = ""

    @classmethod
    def failure(cls, name: str, seconds: float, lines: Iterable[str], status: str = FAILED) -> SuiteTestResult:
        """Return the result of a test that did not pass, with its output shortened."""
        text = "; ".join(line.strip() for line in lines if line.strip())
        return cls(name, status, round(seconds, 2), text[:_LONGEST_REASON])


class ResultFile:
    """Results of one suite, one line each, so that an interrupted run continues.

    A program whose tests cannot be selected runs as a whole; a line records its end.
    """

    def __init__(self, path: Path, *, is_resumed: bool) -> None:
        """Open the file; without `is_resumed`, earlier results are removed."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = path.read_text(encoding="utf-8") if is_resumed and path.exists() else ""
        # An incomplete line of an interrupted run is removed.
        write_text(path, stored[: stored.rfind("\n") + 1])

    def read(self) -> list[SuiteTestResult]:
        """Return the results so far, the last one of each test."""
        return list({row["name"]: SuiteTestResult(**row) for row in self._rows() if _ENDED not in row}.values())

    def ended(self) -> frozenset[str]:
        """Return the programs that have completed."""
        return frozenset(row[_ENDED] for row in self._rows() if _ENDED in row)

    def append(self, results: Iterable[SuiteTestResult]) -> None:
        """Add results."""
        self._append(asdict(result) for result in results)

    def begin(self, program: str) -> None:
        """Remove the results of an earlier, interrupted run of a program."""
        kept = [row for row in self._rows() if str(row.get("name", row.get(_ENDED))).partition(":")[0] != program]
        write_text(self._path, "".join(json.dumps(row) + "\n" for row in kept))

    def end(self, program: str) -> None:
        """Record that a program has completed."""
        self._append([{_ENDED: program}])

    def _rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]

    def _append(self, rows: Iterable[dict[str, Any]]) -> None:
        with self._path.open("a", encoding="utf-8") as sink:
            for row in rows:
                sink.write(json.dumps(row) + "\n")
                sink.flush()
