"""Errors of captures and replays. Their exit codes are those of every command: 1 for a negative answer, 2 for bad input."""

from __future__ import annotations

from rocm_perf_lab.core.errors import EXIT_NEGATIVE, LabError


class CaptureError(LabError):
    """Directory that is not a capture, or a damaged capture."""


class IncompleteCapture(CaptureError):
    """Directory without a manifest, because its writer did not finish."""


class ReplayError(LabError):
    """Capture that cannot be replayed on this machine: no GPU, a different architecture, or insufficient memory."""


class ReservationError(ReplayError):
    """Captured addresses that cannot be reserved exactly: they are in use, or the runtime reserved different ones."""

    exit_code = EXIT_NEGATIVE


class RelocatedReservation(ReservationError):
    """Captured addresses instead of which the runtime reserved different ones."""


class DeviceFault(ReplayError):
    """Replayed kernel that faulted, did not end in time, or ended its process."""

    exit_code = EXIT_NEGATIVE


class OverrideError(ReplayError):
    """Code object that cannot replace the captured one."""
