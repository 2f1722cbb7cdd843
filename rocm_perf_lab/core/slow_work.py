"""Message on standard error about slow work: `slow_work("building the emulated driver")`."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 1.0
"""Minimum duration in seconds of reported work."""


@contextmanager
def slow_work(what: str) -> Iterator[None]:
    """Report the block's work on standard error if it takes longer than :data:`PATIENCE_S`.

    Args:
        what: The work as a present participle: "compiling main.hip".
    """
    timer = threading.Timer(PATIENCE_S, _say, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _say(what: str) -> None:
    print(f"rocm-perf: {what} ...", file=sys.stderr, flush=True)
