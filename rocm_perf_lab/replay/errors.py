"""What can go wrong with captures and replays, and the exit code of each: what scripts around a replay look at."""

from __future__ import annotations

from rocm_perf_lab.core.errors import LabError

EXIT_SETUP = 1
EXIT_RELOCATED = 2
EXIT_DEVICE = 3
EXIT_MISMATCH = 4


class CaptureError(LabError):
    """A directory that is no capture, or one that was damaged or tampered with."""


class IncompleteCapture(CaptureError):
    """A directory without a manifest: whoever wrote it did not finish."""


class ReplayError(LabError):
    """A capture that cannot be replayed here: no GPU, another architecture, no memory, addresses in use."""

    exit_code = EXIT_SETUP


class RelocationError(ReplayError):
    """The runtime reserved other addresses than those of the capture."""

    exit_code = EXIT_RELOCATED


class DeviceFault(ReplayError):
    """The replayed kernel faulted, hung, or took its process down."""

    exit_code = EXIT_DEVICE


class OverrideError(ReplayError):
    """A code object that cannot stand in for the captured one."""
