"""The one error class that users see, and its exit code.

Every anticipated failure is a :class:`LabError`: it says what went wrong, where, and how to fix it. The command line
prints it without a traceback and exits with code 2; anything else is a defect of the lab.
"""

from __future__ import annotations

EXIT_BAD_INPUT = 2


class LabError(Exception):
    """A failure that the user can act on.

    Args:
        what: One sentence on what went wrong.
        where: File, key path, instruction or override that it concerns.
        hint: What the user can do about it.
    """

    exit_code = EXIT_BAD_INPUT

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The message, one aspect a line: what, where, how to fix it."""
        lines = [self.what]
        if self.where:
            lines.append(f"  at:    {self.where}")
        if self.hint:
            lines.append(f"  hint:  {self.hint}")
        return lines
