"""SIGTERM and SIGHUP end a command as Ctrl-C does: what it started is ended, what was finished is kept.

Left to itself Python ends at once, and the application under the profiler, which is in a process group of its own, goes on.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """A signal asked the lab to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    @property
    def exit_code(self) -> int:
        """As a shell states it."""
        return 128 + self.number


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Raise :class:`Terminated` in this block where a signal asks this process to end; a signal that is ignored stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def stop(number: int, _: FrameType | None) -> None:
        if os.getpid() != owner:  # A forked child has nothing to end.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise Terminated(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number, handler in before.items():
            if handler is signal.SIG_DFL:
                signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            if handler is signal.SIG_DFL:
                signal.signal(number, handler)
