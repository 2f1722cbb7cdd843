"""JSON documents of `rocm-perf replay capture|info|verify|reserve-check`; that of `list` is in :mod:`.dispatch_list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.replay.format import CaptureProvenance, DispatchDocument, MemoryDocument

if TYPE_CHECKING:
    from rocm_perf_lab.replay.capture import Capture


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal["1.0"] = "1.0"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CapturedDispatch(_Section):
    """One capture: `dispatch` counts the dispatches of the kernel from 0, `shape` is "<grid>/<workgroup>" in work-items."""

    directory: str
    kernel: str
    symbol: str
    dispatch: int
    shape: str
    gpu: str
    pid: int
    total_bytes: int
    time_us: float | None
    emulated: bool

    @classmethod
    def of(cls, capture: Capture) -> CapturedDispatch:
        """Return the summary of a capture."""
        dispatch = capture.dispatch
        sizes = ("x".join(map(str, size)) for size in (dispatch.packet.grid_size, dispatch.packet.workgroup_size))
        return cls(
            directory=str(capture.directory),
            kernel=dispatch.kernel.name,
            symbol=dispatch.kernel.mangled_name,
            dispatch=dispatch.index.kernel,
            shape="/".join(sizes),
            gpu=dispatch.gpu.product or dispatch.gpu.name,
            pid=dispatch.environment.pid,
            total_bytes=capture.total_bytes,
            time_us=dispatch.timing.duration_us if dispatch.timing is not None else None,
            emulated=capture.emulated,
        )


class CaptureReport(_Document):
    """`capture --json`. `missing` are requested dispatches that were not captured, with the reason."""

    captures: tuple[CapturedDispatch, ...]
    missing: tuple[str, ...]
    warnings: tuple[str, ...]
    application_exit_code: int | None
    """Null if the application continues or was stopped by a time limit."""
    wall_time_s: float


class CaptureInfo(_Document):
    """`info --json`. `changed_bytes` is null if the memory after the dispatch was not captured."""

    capture: str
    layout: str
    kernel: str
    total_bytes: int
    changed_bytes: int | None
    dispatch: DispatchDocument
    memory: MemoryDocument
    provenance: CaptureProvenance | None


class CaptureValidity(_Document):
    """`verify --json`."""

    capture: str
    valid: bool
    problems: tuple[str, ...]


class ReservedRange(_Section):
    """Captured range."""

    address: str
    size: int


class ReservationFailure(_Section):
    """Error that prevents a replay."""

    what: str
    where: str | None
    hint: str | None


class ReserveCheck(_Document):
    """`reserve-check --json`: exit codes 0 for `exact`, 1 for `failed`, 2 for `relocated`."""

    result: Literal["exact", "failed", "relocated"]
    device: Literal["emulator", "rocm"]
    ranges: tuple[ReservedRange, ...]
    error: ReservationFailure | None = None
