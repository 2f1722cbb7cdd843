"""Exit codes, and the error class that users see.

Every anticipated failure is a :class:`LabError`: it states what went wrong, where, and how to fix it. The command line
prints it without a traceback. Any other exception is a defect of rocm-perf-lab.
"""

from __future__ import annotations

EXIT_SUCCESS = 0
EXIT_NEGATIVE = 1
"""Negative result of a completed command: a regression, a finding of a check, wrong output, or an infeasible reservation."""
EXIT_BAD_INPUT = 2
"""Bad input, or something missing on this machine."""
EXIT_INTERNAL = 3
"""Internal error, a defect in rocm-perf-lab."""
EXIT_INTERRUPTED = 130
"""Interrupted by Ctrl-C (SIGINT). SIGTERM ends with 143, SIGHUP with 129."""

_INDENT = "\n       "
"""Continuation lines are aligned with the text after the label."""


class LabError(Exception):
    """Failure that the user can act on.

    Args:
        what: One sentence on what went wrong.
        where: File, key path, instruction or override that caused the error.
        hint: How to fix it.
    """

    exit_code = EXIT_BAD_INPUT

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the message and, if known, its place and a hint, each with its label."""
        lines = [self.what]
        if self.where:
            lines.append(f"   at: {self.where.replace(chr(10), _INDENT)}")
        if self.hint:
            lines.append(f" hint: {self.hint.replace(chr(10), _INDENT)}")
        return lines


class NegativeResult(LabError):
    """Negative result of a completed command: a check found a defect, or an output is wrong."""

    exit_code = EXIT_NEGATIVE
