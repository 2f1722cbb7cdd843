"""SIGTERM and SIGHUP end a command like Ctrl-C: its child processes are terminated, and completed work is kept.

By default, Python ends at once, while the profiled application, which is in a separate process group, continues.
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
    """Termination requested by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    @property
    def exit_code(self) -> int:
        """128 + the number of the signal, as in a shell."""
        return 128 + self.number


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM and SIGHUP in this block; ignored signals remain ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def stop(number: int, _: FrameType | None) -> None:
        if os.getpid() != owner:  # A forked child ends with the default action.
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
