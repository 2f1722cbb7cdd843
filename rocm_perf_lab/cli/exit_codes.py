"""Run a command, print its errors, and map them to the exit codes of :mod:`rocm_perf_lab.core.errors`."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import click

from rocm_perf_lab.core.errors import EXIT_BAD_INPUT, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_SUCCESS, LabError
from rocm_perf_lab.core.interrupts import Terminated, termination_as_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE: the reader of standard output, for example `head`, has exited."""


def answer(action: Callable[[], object], *, debug: bool = False) -> None:
    """Run a command and exit; see :func:`exit_code_of`."""
    sys.exit(exit_code_of(action, debug=debug))


def exit_code_of(action: Callable[[], object], *, debug: bool = False) -> int:
    """Run a command, print its errors to standard error, and return its exit code.

    Args:
        action: Command to run.
        debug: Print the traceback of an error as well.
    """
    try:
        with termination_as_interrupt():
            action()
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Terminated as stop:
        print(f"terminated by signal {stop.number}; completed work is kept", file=sys.stderr)
        return stop.exit_code
    except KeyboardInterrupt:
        print("interrupted; completed work is kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_BAD_INPUT * bool(stop.code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Otherwise the flush at exit fails again.
        return _EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  # the outermost boundary: unexpected exceptions become exit code 3
        return _failed(error, debug)
    return EXIT_SUCCESS


def _failed(error: Exception, debug: bool) -> int:
    """Print an error; return its exit code."""
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
        where = str(error.filename) if error.filename else None
        error = LabError(f"cannot write: {error.strerror}", where=where, hint="free some space, or choose another directory")
    if isinstance(error, LabError):
        _print_error(error)
        return error.exit_code
    text = " ".join(str(error).split())
    kind = type(error).__name__
    advice = "" if debug else ", run with --debug for the traceback"
    print(f"internal error: {kind}{': ' if text else ''}{text}{advice}", file=sys.stderr)
    return EXIT_INTERNAL


def _print_error(error: LabError) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    first, *rest = error.lines()
    console.print(Text.assemble(("error:", "bold red"), " ", first), soft_wrap=True)
    for line in rest:
        console.print(Text(line), soft_wrap=True)
