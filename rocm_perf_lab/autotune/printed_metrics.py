"""Metrics that a command prints, found by regular expressions in the output of its runs."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.clocks import CommandFailed
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHERE = "autotune.printed"


@dataclass
class PrintedMetrics:
    """Numbers found in the runs of one configuration."""

    patterns: Mapping[str, re.Pattern[str]]
    _found: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> PrintedMetrics:
        """Compile the patterns.

        Raises:
            LabError: A name or a pattern is invalid.
        """
        patterns: dict[str, re.Pattern[str]] = {}
        for name, text in texts.items():
            where = f"{_WHERE}.{name}"
            if not name.isidentifier():
                raise LabError(f"{name!r} cannot be a name", where=where, hint="use letters, digits and _")
            try:
                patterns[name] = re.compile(text, re.MULTILINE)
            except re.error as error:
                raise LabError(f"invalid regular expression {text!r}: {error}", where=where) from error
            if patterns[name].groups != 1:
                hint = r"write one group for the number: 'gflops: ([\d.]+)'"
                raise LabError(f"{text!r} has {patterns[name].groups} groups", where=where, hint=hint)
        return cls(patterns)

    def hear(self, output: str) -> None:
        """Read the output of one run; the last match counts.

        Raises:
            CommandFailed: A pattern does not match, or its group is not a number.
        """
        for name, pattern in self.patterns.items():
            found = pattern.findall(output)
            if not found:
                raise CommandFailed(f"no line of its output matches {pattern.pattern!r}, the metric {name}", where=_WHERE)
            try:
                self._found.setdefault(name, []).append(float(found[-1]))
            except ValueError as error:
                raise CommandFailed(f"prints {found[-1]!r} as {name}, which is not a number", where=_WHERE) from error

    def take(self) -> dict[str, float]:
        """Return the median of each metric, and forget the runs."""
        medians = {name: statistics.median(values) for name, values in self._found.items()}
        self._found = {}
        return medians
