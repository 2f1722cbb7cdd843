"""Request to capture dispatches of an application, and its validation: `CaptureRequest`."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine
    from rocm_perf_lab.replay.format import CaptureMode

_SHORTEST_EXPRESSION = 3  # characters, with the slashes
_REG_EXTENDED = 1
_REGEX_BYTES = 256
"""Size in bytes, sufficient for `regex_t`."""


class ApplicationCaptureError(LabError):
    """Application run that produced no capture."""


@dataclass(frozen=True)
class WantedDispatch:
    """Dispatch of a kernel, by index from 0, among those of one shape if `shape` is set.

    `shape` is "<grid>/<workgroup>" in work-items, "4096x1x1/256x1x1"; empty for any.
    """

    kernel: str
    dispatch: int = 0
    shape: str = ""


@dataclass(frozen=True)
class CaptureRequest:
    """Dispatch of an application to capture.

    Args:
        command: Program and arguments.
        kernel: Name of the kernel, mangled or demangled, with or without parameters and template arguments; or /expression/.
        output: Directory to create.
        dispatch: Index among the matching dispatches, from 0.
        mode: `reachable` captures memory reachable from the arguments, `full` all memory of the process, `arguments` only
            the memory that the arguments point to.
        limit_bytes: Largest size of the capture; 0 for no limit.
        timeout_s: Time limit in seconds for other work on the GPU, and for the dispatch.
        application_timeout_s: Time limit of the application in seconds; None for no limit.
        preload: Load the tool with LD_PRELOAD, for applications that overwrite HSA_TOOLS_LIB.
        rocprofiler_sdk: Load the tool through rocprofiler-sdk, for runtimes that do not load tools themselves.
        low_addresses: Request low addresses, which are free in a replay process (HSA_RESERVE_SVM, unless the environment sets
            it); they limit the memory of all GPUs to 1 TiB.
        record_command: Store the command line in the capture; otherwise its arguments are omitted.
        shape: Shape of the dispatch, see :class:`WantedDispatch`.
        lists: Time every dispatch instead, see :mod:`rocm_perf_lab.replay.dispatch_list`.
        others: Additional dispatches to capture in the same run; `output` is then a directory of captures.
        when_captured: Action after the last capture: `wait` for the application, `stop` it, or `detach` from it; its further
            output is then written to a file next to the output.
    """

    command: tuple[str, ...]
    kernel: str
    output: Path
    dispatch: int = 0
    mode: CaptureMode = "reachable"
    limit_bytes: int = 0
    timeout_s: float = 60.0
    application_timeout_s: float | None = None
    preload: bool = False
    rocprofiler_sdk: bool = False
    low_addresses: bool = False
    record_command: bool = False
    shape: str = ""
    others: tuple[WantedDispatch, ...] = ()
    lists: bool = False
    when_captured: Literal["wait", "stop", "detach"] = "wait"

    @property
    def wanted(self) -> tuple[WantedDispatch, ...]:
        """All dispatches to capture."""
        return (WantedDispatch(self.kernel, self.dispatch, self.shape), *self.others)


def check_request(request: CaptureRequest, machine: EmulatedMachine | None) -> None:
    """Check that the application can be started as requested.

    Raises:
        ApplicationCaptureError: The program, a kernel or an index is invalid, or the output exists.
    """
    if not request.command:
        raise ApplicationCaptureError(
            "no application to capture from", hint="rocm-perf replay capture --kernel NAME -- ./app [arguments]"
        )
    in_root = machine is not None and machine.root is not None
    if not in_root and shutil.which(request.command[0]) is None:
        raise ApplicationCaptureError(
            f"{request.command[0]!r} is not an executable program",
            where="the application",
            hint="Pass the path of the program: ./app",
        )
    if not request.lists and not all(wanted.kernel for wanted in request.wanted):
        raise ApplicationCaptureError("no kernel to capture", where="--kernel", hint="Pass the name of the kernel.")
    for wanted in request.wanted:
        reason = _expression_error(wanted.kernel)
        if reason is not None:
            raise ApplicationCaptureError(f"{wanted.kernel} is not a regular expression: {reason}", where="--kernel")
    lowest = min(wanted.dispatch for wanted in request.wanted)
    if lowest < 0:
        raise ApplicationCaptureError(f"dispatch {lowest} does not exist", where="--dispatch", hint="Dispatches count from 0.")
    require_new_output(request.output)


def require_new_output(output: Path) -> None:
    """Check that the output of a capture does not exist.

    Raises:
        ApplicationCaptureError: The output exists.
    """
    if output.exists() or output.is_symlink():
        raise ApplicationCaptureError(
            "the output directory already exists",
            where=str(output),
            hint=f"Remove it (rm -r {output}), or choose another one with --output.",
        )


def _expression_error(kernel: str) -> str | None:
    """Return the error in /kernel/ as a POSIX extended regular expression; None for names and valid expressions."""
    if len(kernel) < _SHORTEST_EXPRESSION or not (kernel.startswith("/") and kernel.endswith("/")):
        return None
    library = ctypes.CDLL(None)
    compiled, reason = ctypes.create_string_buffer(_REGEX_BYTES), ctypes.create_string_buffer(128)
    status = library.regcomp(compiled, kernel[1:-1].encode(), _REG_EXTENDED)
    if status == 0:
        library.regfree(compiled)
        return None
    library.regerror(status, compiled, reason, ctypes.c_size_t(len(reason)))
    return reason.value.decode()
