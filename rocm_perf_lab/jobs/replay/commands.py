"""Commands `rocm-perf replay info|verify|reserve-check|full-vm`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.markup import escape
from rich.table import Table

from rocm_perf_lab.core.errors import EXIT_BAD_INPUT, EXIT_NEGATIVE, EXIT_SUCCESS, LabError
from rocm_perf_lab.device.choice import KFD
from rocm_perf_lab.jobs.replay.tracked import track_replay
from rocm_perf_lab.replay.check import require_pointers
from rocm_perf_lab.replay.documents import CaptureInfo, CaptureValidity, ReservationFailure, ReserveCheck, ReservedRange
from rocm_perf_lab.replay.errors import IncompleteCapture, RelocatedReservation, ReplayError, ReservationError
from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
from rocm_perf_lab.replay.reader import capture_problems, open_capture
from rocm_perf_lab.replay.report import replay_document
from rocm_perf_lab.replay.session import ReplaySession
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from rocm_perf_lab.jobs.replay.tracked import TrackingChoice
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import CacheState
    from rocm_perf_lab.replay.report import ReplayDocument
    from rocm_perf_lab.replay.session import DeviceName
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.timing_errors import TimingErrors

DEFAULT_DIRECTORIES = (Path("isolate_capture"), Path("rocm_perf_lab/isolate/tool/isolate_capture"))
"""Default directories of captures; the first one is also the default output."""
_SHOWN_REGIONS = 12


@dataclass(frozen=True)
class ReplayTarget:
    """Capture to replay, and its device. `target` is the GPU to emulate; the default has the captured architecture."""

    capture_dir: Path | None = None
    device: Literal["auto", "rocm", "emulator"] = "auto"
    target: str | None = None
    agent: int | None = None
    library: str | None = None
    timeout_s: float = 600.0

    @property
    def directory(self) -> Path:
        """The selected directory, else the first default directory that exists."""
        if self.capture_dir is not None:
            return self.capture_dir
        return next((directory for directory in DEFAULT_DIRECTORIES if directory.is_dir()), DEFAULT_DIRECTORIES[0])

    @property
    def chosen_device(self) -> DeviceName:
        """The selected device; for `auto`, the GPU of this machine, else the emulator."""
        if self.device != "auto":
            return self.device
        return "rocm" if KFD.exists() or self.library is not None else "emulator"

    def emulated_target(self, capture: Capture) -> Target:
        """Return the GPU to emulate for a capture.

        Raises:
            LabError: The named target has another architecture.
        """
        from rocm_perf_lab.target.catalog import choice_of_targets, load_target, usual_target

        architecture = capture.code_object.architecture
        target = load_target(self.target or usual_target(architecture))
        if self.target is not None and capture.code_object.for_processor(target.architecture).architecture != target.architecture:
            raise LabError(
                f"the capture is of {capture.code_object.described_target}, {target.name} is {target.architecture}",
                where="--target",
                hint=choice_of_targets(architecture),
            )
        return target

    def timing_errors(self, capture: Capture) -> TimingErrors:
        """Return the error bands of emulated times: those of the target, or assumed ones for other emulators of HSA devices."""
        from rocm_perf_lab.target.timing_errors import UNVALIDATED

        return self.emulated_target(capture).timing_errors if self.chosen_device == "emulator" else UNVALIDATED

    def require_times(self, capture: Capture) -> None:
        """Reject a timed replay on the emulator if its architecture has no timing model.

        Raises:
            ReplayError: The architecture has no timing model.
        """
        if self.chosen_device == "emulator" and self.emulated_target(capture).timing is None:
            raise ReplayError(
                f"{NO_EMULATED_TIME}: replays of it cannot be timed",
                where=f"{self.directory} ({capture.code_object.described_target})",
                hint="replay it on a GPU (--device rocm); rocm-perf emulate and profile count its instructions",
            )

    def opened(self) -> Capture:
        """Open and verify the capture.

        Raises:
            CaptureError: It is damaged or incomplete.
        """
        return open_capture(self.directory)

    def session(self, capture: Capture, *, reserve_only: bool = False) -> ReplaySession:
        """Return a replay session for the capture.

        Raises:
            LabError: An agent is selected on the emulator, or the named target has another architecture.
        """
        device = self.chosen_device
        if device == "emulator" and self.agent is not None:
            raise LabError("the emulator has one GPU", where="--agent", hint="Remove --agent, or add --device rocm.")
        return ReplaySession(
            capture,
            device=device,
            target=self.emulated_target(capture) if device == "emulator" else None,
            timeout_s=self.timeout_s,
            agent=self.agent,
            library=self.library,
            reserve_only=reserve_only,
        )


@dataclass(frozen=True)
class FullVmRequest:
    """Arguments of `full-vm`."""

    where: ReplayTarget
    iterations: int | None = None
    warmup: int | None = None
    recopy: bool = True
    hsaco: Path | None = None
    force: bool = False
    check: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    nan: Literal["equal", "exact", "forbid"] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    caches: CacheState = "restored"

    @property
    def job(self) -> ReplayRequest:
        """The request to the session. If a tolerance is set, NaN values compare equal by default."""
        nan = self.nan or ("equal" if self.rtol or self.atol else "exact")
        order = CheckRequest(rtol=self.rtol, atol=self.atol, nan=nan, types=dict(self.types))
        return ReplayRequest(
            iterations=self.iterations,
            warmup=self.warmup,
            recopy=self.recopy,
            hsaco=str(self.hsaco.resolve()) if self.hsaco is not None else None,
            force=self.force,
            check=order if self.check else None,
            caches=self.caches,
        )


def replay_capture(
    request: FullVmRequest, started: Callable[[], None] = lambda: None, tracking: TrackingChoice = "none"
) -> ReplayDocument:
    """Replay a capture without output; return the report.

    Args:
        request: Capture, device and number of replays.
        started: Called after the memory is reconstructed.
        tracking: Whether the replay is a tracking run.

    Raises:
        CaptureError, ReservationError, DeviceFault, OverrideError, ReplayError: See :func:`run_full_vm`.
    """
    capture = request.where.opened()
    request.where.require_times(capture)
    require_pointers(capture, request.types)
    with request.where.session(capture) as session:
        session.start()
        started()
        outcome = session.run(request.job)
    errors = request.where.timing_errors(capture)
    document = replay_document(capture, request.job, outcome, errors, name=str(request.where.directory))
    track_replay(capture, document, tracking)
    return document


def run_full_vm(request: FullVmRequest, console: Console, *, as_json: bool, tracking: TrackingChoice = "none") -> int:
    """Replay a capture and print the report; return the exit code, 1 if the check failed.

    Raises:
        CaptureError: The capture is damaged or incomplete.
        ReservationError: The captured addresses cannot be reserved.
        DeviceFault: The kernel faulted or did not end in time.
        OverrideError: The code object violates a rule of :mod:`~rocm_perf_lab.replay.override`.
        ReplayError: The capture cannot be replayed on this machine, or its architecture has no emulated times.
    """
    document = replay_capture(request, lambda: None if as_json else console.print("Memory reconstructed."), tracking)
    if as_json:
        console.file.write(document.model_dump_json(indent=2) + "\n")
    else:
        _show_replay(document, console)
    failed = document.verification is not None and not document.verification.passed
    return EXIT_NEGATIVE if failed else EXIT_SUCCESS


def run_reserve_check(where: ReplayTarget, console: Console, *, as_json: bool) -> int:
    """Check that every captured address can be reserved; return the exit code: 0 exact, 1 failed, 2 relocated (JSON only).

    Raises:
        ReservationError: An address cannot be reserved exactly, and the output is text.
        ReplayError: There is no suitable device.
    """
    capture = where.opened()
    try:
        with where.session(capture, reserve_only=True) as session:
            session.start()
    except ReservationError as error:
        is_relocated = isinstance(error, RelocatedReservation)
        exit_code = EXIT_BAD_INPUT if is_relocated else EXIT_NEGATIVE
        if not as_json:
            error.exit_code = exit_code
            raise
        found = ReserveCheck(
            result="relocated" if is_relocated else "failed",
            device=where.chosen_device,
            ranges=tuple(ReservedRange(address=f"{r.base:#x}", size=r.size) for r in capture.regions),
            error=ReservationFailure(what=error.what, where=error.where, hint=error.hint),
        )
        console.file.write(found.model_dump_json(indent=2) + "\n")
        return exit_code
    ranges = tuple(ReservedRange(address=f"{r.base:#x}", size=r.size) for r in capture.regions)
    if as_json:
        found = ReserveCheck(result="exact", device=where.chosen_device, ranges=ranges)
        console.file.write(found.model_dump_json(indent=2) + "\n")
    else:
        console.print(f"[bold]device[/]  {where.chosen_device}")
        console.print(
            f"exact: all {len(ranges)} captured ranges ({_size(capture.total_bytes)}) can be reserved at their addresses"
        )
    return EXIT_SUCCESS


def run_verify(directory: Path, console: Console, *, as_json: bool) -> int:
    """Check all files of a capture and print the problems; return the exit code, 1 if there are problems.

    Raises:
        IncompleteCapture: The directory does not exist.
    """
    if not directory.is_dir():
        what = "this is not a directory" if directory.exists() else "the directory does not exist"
        raise IncompleteCapture(what, where=str(directory), hint="Pass the directory of a capture.")
    problems = capture_problems(directory)
    if as_json:
        found = CaptureValidity(capture=str(directory), valid=not problems, problems=tuple(problems))
        console.file.write(found.model_dump_json(indent=2) + "\n")
    elif problems:
        console.print(
            f"[bold red]{len(problems)} problem{'s' if len(problems) > 1 else ''}[/] in {escape(str(directory))}", soft_wrap=True
        )
        for problem in problems:
            console.print(f"  {escape(problem)}", soft_wrap=True)
    else:
        capture = open_capture(directory, verify=False)
        files = len(capture.manifest.files) if capture.manifest is not None else 0
        kind = f"{files} files, sizes and SHA-256 sums match" if files else f"capture of {capture.layout}, sizes match"
        console.print(f"[green]valid[/]: {kind}, {_size(capture.total_bytes)} of memory")
    return EXIT_NEGATIVE if problems else EXIT_SUCCESS


def run_info(directory: Path, console: Console, *, as_json: bool) -> None:
    """Print the contents of a capture.

    Raises:
        CaptureError: The directory is not a capture, or a damaged one.
    """
    capture = open_capture(directory, verify=False)
    if as_json:
        console.file.write(_info(capture).model_dump_json(indent=2) + "\n")
        return
    dispatch, packet = capture.dispatch, capture.dispatch.packet
    table = Table(title=f"capture {directory}", title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    groups = [-(-items // size) for items, size in zip(packet.grid_size, packet.workgroup_size, strict=True)]
    table.add_row("kernel", escape(dispatch.kernel.name))
    table.add_row("dispatch", f"{dispatch.index.kernel} of this kernel, {dispatch.index.process} of the process (from 0)")
    partial = any(items % size for items, size in zip(packet.grid_size, packet.workgroup_size, strict=True))
    of_all = f", {_by(packet.grid_size)} in all" if partial else ""
    table.add_row("grid", f"{_by(groups)} workgroups of {_by(packet.workgroup_size)} work-items{of_all}")
    table.add_row(
        "LDS, scratch", f"{packet.group_segment_size:,} B per workgroup, {packet.private_segment_size:,} B per work-item"
    )
    table.add_row("GPU", escape(f"{dispatch.gpu.product or dispatch.gpu.name} ({dispatch.gpu.isa})"))
    number = f"{len(capture.regions)} region{'s' if len(capture.regions) != 1 else ''}"
    table.add_row("memory", f"{number}, {_size(capture.total_bytes)}, mode {capture.memory.mode}")
    table.add_row("changed bytes", _size(_changed_bytes(capture)) if capture.has_after else "not captured")
    table.add_row("written by", _writer(capture))
    if dispatch.timing is not None:
        kind = "emulated" if capture.emulated else "measured"
        table.add_row("time", f"{dispatch.timing.duration_us:.2f} us {kind}")
    console.print(table)
    regions = Table("address", "size", "kind", "reached from", title="regions", title_justify="left")
    for region in capture.memory.regions[:_SHOWN_REGIONS]:
        reached = ", ".join(region.reached_from[:3]) + (" …" if len(region.reached_from) > 3 else "")
        regions.add_row(f"{region.base:#x}", _size(region.size), f"{region.kind} ({region.location})", region.error or reached)
    console.print(regions)
    if len(capture.memory.regions) > _SHOWN_REGIONS:
        console.print(f"and {len(capture.memory.regions) - _SHOWN_REGIONS} more; --json lists all")
    for warning in dispatch.warnings:
        console.print(f"[yellow]note[/]: {escape(warning)}", soft_wrap=True)


def _info(capture: Capture) -> CaptureInfo:
    return CaptureInfo(
        capture=str(capture.directory),
        layout=capture.layout,
        kernel=capture.dispatch.kernel.name,
        total_bytes=capture.total_bytes,
        changed_bytes=_changed_bytes(capture) if capture.has_after else None,
        dispatch=capture.dispatch,
        memory=capture.memory,
        provenance=capture.manifest.provenance if capture.manifest is not None else None,
    )


def _writer(capture: Capture) -> str:
    if capture.manifest is None:
        return capture.layout
    provenance = capture.manifest.provenance
    return f"{provenance.writer} {provenance.version}, {provenance.created}{', emulated' if provenance.emulated else ''}"


def _changed_bytes(capture: Capture) -> int:
    return sum(region.after.pages * 4096 for region in capture.regions if region.after is not None)


def _show_replay(document: ReplayDocument, console: Console) -> None:
    """Print the report: iterations and average times first, then details."""
    timing, execution = document.timing, document.execution
    suffix = " (emulated)" if timing.kind == "emulated" else ""
    console.print(f"Iterations: {execution.iterations}")
    console.print(f"Recopy between iterations: {'yes' if execution.mode == 'stateless' else 'no'}")
    console.print(f"Average GPU time: {timing.average / 1e3:.6g} ms{suffix}")
    console.print(f"Total wall time: {document.wall_time_ms:.1f} ms")
    if timing.expected is not None:
        low, high = timing.expected.low / 1e3, timing.expected.high / 1e3
        title = "Expected on hardware" if timing.expected.status == "estimated" else "Assumed for hardware, not validated"
        console.print(f"{title}: {low:.3g} to {high:.3g} ms ({timing.expected.coverage:.0%})")
    console.print(f"Kernel: {escape(document.kernel.name)}", soft_wrap=True)
    console.print(
        f"GPU time min {timing.min / 1e3:.6g}, median {timing.median / 1e3:.6g}, max {timing.max / 1e3:.6g} ms{suffix}"
        f" on {escape(document.environment.gpu_agent)}",
        soft_wrap=True,
    )
    if document.captured is not None and document.captured.agrees:
        console.print(f"Captured dispatch: {document.captured.microseconds / 1e3:.6g} ms")
    for note in document.notes:
        console.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True)
    check = document.verification
    if check is None:
        return
    how = "byte for byte" if check.exact else "within tolerance"
    if not check.baseline_reproduces:
        console.print(f"[yellow]note[/]: the captured code object does not reproduce the {check.compared_with} on this device")
    if check.indeterminate_bytes:
        console.print(
            f"[yellow]note[/]: {check.indeterminate_bytes:,} bytes differ between two replays of the captured code object "
            "and were ignored"
        )
    if check.passed:
        replays = "1 replay equals" if check.checked_replays == 1 else f"{check.checked_replays} replays equal"
        console.print(f"[green]Check passed[/]: {replays} the {check.compared_with} {how}")
        return
    console.print(f"[bold red]Check failed[/]: the memory differs from the {check.compared_with}")
    for mismatch in check.mismatches:
        console.print(f"  {escape(mismatch)}", soft_wrap=True)


def _by(sizes: Any) -> str:
    return " x ".join(str(size) for size in sizes)


def _size(nbytes: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.1f} {unit}"
    return f"{nbytes} B"
