"""Execution of a replay request: restore memory, dispatch, measure and compare."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.replay.check import (
    MemoryCheck,
    MemoryState,
    Tolerances,
    differing_addresses,
    variable_mismatches,
)
from rocm_perf_lab.replay.errors import OverrideError, ReplayError
from rocm_perf_lab.replay.kernarg import ReplayGeometry
from rocm_perf_lab.replay.messages import ReplayOutcome, Verification
from rocm_perf_lab.replay.override import override_violations, replacement_kernel

if TYPE_CHECKING:
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
    from rocm_perf_lab.replay.replayer import Replayer
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata


def run_job(capture: Capture, replayer: Replayer, job: ReplayRequest) -> ReplayOutcome:
    """Execute a replay request.

    Raises:
        OverrideError: The replacement code object violates rules; the message lists all of them.
        DeviceFault: The kernel faulted or did not end in time.
        EmulationError: The emulated kernel faulted or exceeded the instruction limit.
    """
    geometry = chosen_geometry(capture, job)
    code_object, kernel = chosen_code(capture, job, geometry)
    checker = _Checker.prepare(capture, replayer, job.check) if job.check is not None else None
    replayer.load(code_object, kernel, geometry)
    iterations, warmups = job.repetitions(emulated=replayer.environment.emulated)
    replayer.use_caches(job.caches)
    warmup = [_required(replayer.dispatch(), replayer.restore()) for _ in range(warmups)]
    replayer.restore()
    if job.caches == "warm" and not replayer.environment.emulated:
        replayer.dispatch(timed=False)
    samples: list[float] = []
    restored = 0
    dispatch_s = 0.0
    begin = time.perf_counter()
    for iteration in range(iterations):
        if iteration and job.recopy:
            restored += replayer.restore()
        if job.caches == "cold":
            replayer.flush()
        timed = not (replayer.environment.emulated and job.recopy and iteration)  # With equal memory, estimates are equal.
        started = time.perf_counter()
        duration = replayer.dispatch(timed=timed)
        dispatch_s += time.perf_counter() - started
        samples.append(duration if duration is not None else samples[0])
        if checker is not None and (job.recopy or not iteration):
            checker.compare()
    wall_s = time.perf_counter() - begin
    environment = replayer.environment
    return ReplayOutcome(
        samples_us=tuple(samples),
        warmup_us=tuple(warmup),
        wall_ms=wall_s * 1e3,
        dispatch_ms=dispatch_s * 1e3,
        restored_bytes=restored,
        gpu_agent=environment.gpu_agent,
        rocm_version=environment.rocm_version,
        emulated=environment.emulated,
        sample_seed=environment.sample_seed,
        pid=os.getpid(),
        kernel=kernel.name,
        notes=replayer.notes,
        verification=checker.result() if checker is not None else None,
        clocks=dict(replayer.clocks()),
        counters=dict(replayer.counters()),
        read=tuple(base64.b64encode(replayer.read(address, nbytes)).decode() for address, nbytes in job.read),
    )


def chosen_geometry(capture: Capture, job: ReplayRequest) -> ReplayGeometry:
    """Return the geometry of the request, or the captured one."""
    order = job.geometry
    if order is None:
        return ReplayGeometry.captured(capture)
    dimensions = max([1, *(axis + 1 for axis in range(3) if order.grid[axis] > 1)])
    changed = {
        "setup": max(dimensions, capture.dispatch.packet.setup & 3),
        "grid_size": order.grid,
        "workgroup_size": order.workgroup,
    }
    scalars = {offset: bytes.fromhex(content) for offset, content in order.scalars.items()}
    return ReplayGeometry(capture.dispatch.packet.model_copy(update=changed), order.dynamic_lds_bytes, scalars)


def chosen_code(capture: Capture, job: ReplayRequest, geometry: ReplayGeometry) -> tuple[CodeObject, KernelMetadata]:
    """Return the code object and kernel to replay: the captured ones, or their replacement.

    Raises:
        OverrideError: The replacement cannot be read or violates a rule.
    """
    if job.hsaco is None:
        return capture.code_object, capture.kernel
    from rocm_perf_lab.toolchain.code_object import CodeObjectError
    from rocm_perf_lab.toolchain.elf import read_code_object

    path = Path(job.hsaco)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OverrideError(
            f"the code object cannot be read: {error.strerror}", where=str(path), hint="Check --hsaco."
        ) from error
    try:
        code_object = read_code_object(content, bundle_architecture=capture.code_object.architecture)
    except CodeObjectError as error:
        raise OverrideError(error.what, where=error.where or str(path), hint=error.hint) from error
    problems = override_violations(capture, code_object, geometry)
    kernel = replacement_kernel(capture, code_object)
    if kernel is None or (problems and not job.force):
        raise OverrideError(
            "this code object cannot replace the captured one",
            where="\n".join([str(path), *problems]),
            hint="Compile it for the same target, with the same kernel signature.",
        )
    return code_object, kernel


@dataclass
class _Checker:
    """Compares the memory after replays; `prepare` first replays the captured code object twice."""

    capture: Capture
    replayer: Replayer
    tolerances: Tolerances
    check: MemoryCheck
    expected_variables: bytes | None
    compared_with_capture: bool
    indeterminate_bytes: int
    baseline_reproduces: bool
    checked_replays: int = 0
    mismatches: tuple[str, ...] = ()

    @classmethod
    def prepare(cls, capture: Capture, replayer: Replayer, order: CheckRequest) -> _Checker:
        tolerances = Tolerances(rtol=order.rtol, atol=order.atol, nan=order.nan, types=order.types)
        replayer.load(capture.code_object, capture.kernel, ReplayGeometry.captured(capture))
        states = []
        for _ in range(2):
            replayer.restore()
            replayer.dispatch(timed=False)
            states.append(MemoryState.now(capture, replayer))
        indeterminate = differing_addresses(capture, *states)
        expected = MemoryState.captured(capture) if capture.has_after else states[0]
        check = MemoryCheck(capture, expected, tolerances, indeterminate)
        variables = (capture.after_variables or capture.variables) if capture.has_after else None
        return cls(
            capture=capture,
            replayer=replayer,
            tolerances=tolerances,
            check=check,
            expected_variables=variables,
            compared_with_capture=capture.has_after,
            indeterminate_bytes=len(indeterminate),
            baseline_reproduces=not check.mismatches(states[0]),
        )

    def compare(self) -> None:
        """Compare the current memory; mismatches of the first wrong replay are stored."""
        self.checked_replays += 1
        if self.mismatches:
            return
        wrong = [str(mismatch) for mismatch in self.check.mismatches(MemoryState.now(self.capture, self.replayer))]
        if self.expected_variables is not None:
            names = variable_mismatches(self.capture, self.replayer.variables(), self.expected_variables)
            wrong += [f"module variable {name} differs" for name in names]
        self.mismatches = tuple(wrong)

    def result(self) -> Verification:
        """Return the result of all comparisons."""
        return Verification(
            passed=not self.mismatches,
            compared_with="captured result" if self.compared_with_capture else "first baseline replay",
            exact=self.tolerances.is_exact,
            indeterminate_bytes=self.indeterminate_bytes,
            baseline_reproduces=self.baseline_reproduces,
            checked_replays=self.checked_replays,
            mismatches=self.mismatches,
        )


def _required(duration: float | None, _: int) -> float:
    if duration is None:
        raise ReplayError("the device returned no duration")
    return duration
