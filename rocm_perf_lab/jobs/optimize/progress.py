"""The line at the foot of the terminal that shows what a long job is doing; nothing is printed where there is no terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import TaskID


class JudgingProgress:
    """How many proposals were judged, and which one is being judged now."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def started(self, number: int, description: str) -> None:
        """A proposal is compiled, guarded, checked and measured."""
        self._progress.update(self._task, description=f"proposal {number}: {description}")

    def judged(self) -> None:
        """It has its verdict."""
        self._progress.advance(self._task)


@contextmanager
def judging(console: Console) -> Iterator[JudgingProgress]:
    """Show progress while the closed loop runs."""
    columns = (
        SpinnerColumn(),
        TextColumn("[progress.description]{task.description}"),
        TextColumn("{task.completed:.0f} judged"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield JudgingProgress(progress, progress.add_task("proposals", total=None))
