"""Progress of a job, reported to a callback instead of a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ProgressConsole(Console):
    """Console without a terminal that passes lines of text and status messages to a callback.

    Args:
        report: Called with one line of plain text; None discards them.
    """

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        super().__init__(file=StringIO(), quiet=True, highlight=False)
        self._report = report

    def print(self, *objects: Any, **options: Any) -> None:
        """Report lines of text; tables are part of the results, not of the progress."""
        if self._report is not None and len(objects) == 1 and isinstance(objects[0], str | Text):
            text = Text.from_markup(objects[0]) if isinstance(objects[0], str) else objects[0]
            self._report(text.plain)

    @contextmanager
    def status(self, status: Any, **options: Any) -> Iterator[StatusLine]:  # type: ignore[override]  # has the used method
        """Report a status message; the yielded object reports updates."""
        line = StatusLine(self)
        line.update(status)
        yield line


class StatusLine:
    """Status message of a running job."""

    def __init__(self, console: ProgressConsole) -> None:
        self._console = console

    def update(self, status: Any) -> None:
        """Report a new status message."""
        self._console.print(status)
