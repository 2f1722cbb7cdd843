"""Replay session: `ReplaySession(capture, ...)` manages the worker process in which a capture is reconstructed.

One worker executes many requests, each of which starts from restored memory. If a kernel hangs or crashes, only the worker ends,
and the next request starts a new one.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.sampling import DEFAULT_SAMPLE
from rocm_perf_lab.replay.address_space import ATTEMPT_VARIABLE
from rocm_perf_lab.replay.errors import (
    CaptureError,
    DeviceFault,
    OverrideError,
    RelocatedReservation,
    ReplayError,
    ReservationError,
)
from rocm_perf_lab.replay.messages import ReplayOutcome, ReplaySetup, WorkerError

if TYPE_CHECKING:
    from types import TracebackType

    from rocm_perf_lab.emulator.sampling import SamplePolicy
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import ReplayRequest
    from rocm_perf_lab.target.model import Target

DeviceName = Literal["emulator", "rocm"]
_ERRORS: dict[str, type[LabError]] = {
    "CaptureError": CaptureError,
    "ReservationError": ReservationError,
    "RelocatedReservation": RelocatedReservation,
    "DeviceFault": DeviceFault,
    "OverrideError": OverrideError,
    "ReplayError": ReplayError,
    "EmulationError": DeviceFault,
    "LabError": ReplayError,
}
_SHOWN_LINES = 5
_STARTING_S = 600.0
"""Time limit in seconds for reconstructing the memory, which mostly consists of reading files."""
_GRACE_S = 5.0
_MAP_LIMIT = Path("/proc/sys/vm/max_map_count")
_OTHER_MAPPINGS = 5000


class ReplaySession:
    """Context manager around a worker process, which starts with the first request.

    Args:
        capture: Capture to replay, verified by the caller.
        device: Device to replay on.
        target: GPU to emulate.
        timeout_s: Time limit of one request in seconds.
        max_instructions: Instruction limit of one emulated dispatch.
        threads: Threads of the emulator.
        sample: Sample of workgroups for the emulator's timing model.
        agent: Index of the GPU; None selects the captured one, else the first of its architecture.
        library: Path of the HSA runtime; None searches the usual directories.
        reserve_only: Only try to reserve the addresses; such a session accepts no requests.
    """

    def __init__(
        self,
        capture: Capture,
        *,
        device: DeviceName,
        target: Target | None = None,
        timeout_s: float = 600.0,
        max_instructions: int = 20_000_000_000,
        threads: int | None = None,
        sample: SamplePolicy = DEFAULT_SAMPLE,
        agent: int | None = None,
        library: str | None = None,
        reserve_only: bool = False,
    ) -> None:
        self._timeout_s = timeout_s
        self._setup = ReplaySetup(
            capture=str(capture.directory.resolve()),
            device=device,
            ranges=tuple((region.base, region.size) for region in capture.regions),
            target=target.model_dump(mode="json", by_alias=True) if target is not None else None,
            max_instructions=max_instructions,
            threads=threads or os.cpu_count() or 1,
            traced_workgroups=sample.workgroups,
            sample_seed=sample.seed,
            timeout_s=timeout_s,
            agent=agent,
            library=library,
            reserve_only=reserve_only,
        )
        self._process: _Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def start(self) -> int:
        """Start the worker, reconstruct the memory, and return the process id of the worker.

        Raises:
            ReservationError: The captured addresses cannot be reserved.
            ReplayError: The capture cannot be reconstructed on this machine.
        """
        if self._process is None or self._process.has_ended:
            _require_mappings(len(self._setup.ranges))
            self._process = _Process(self._setup)
            deadline = time.monotonic() + max(_STARTING_S, self._timeout_s)
            self._pid = int(self._answer(self._process, deadline, "the memory was not reconstructed")["ready"])
        return self._pid

    def run(self, job: ReplayRequest) -> ReplayOutcome:
        """Execute a replay request.

        Raises:
            DeviceFault: The kernel faulted, hung, or ended its process.
            OverrideError: The replacement code object violates a rule.
            ReplayError: The capture cannot be replayed on this machine for another reason.
        """
        self.start()
        process = self._process
        if process is None:
            raise ReplayError("the session is closed")
        process.send(job.model_dump_json())
        deadline = time.monotonic() + self._timeout_s + _GRACE_S
        answer = self._answer(process, deadline, f"it did not end within {self._timeout_s:g} s")
        return ReplayOutcome.model_validate(answer["outcome"])

    def _answer(self, process: _Process, deadline: float, late: str) -> dict[str, Any]:
        try:
            return process.answer(deadline, late)
        except LabError:
            raise
        except BaseException:  # After an interrupt, the next request would read this answer.
            process.kill()
            raise


def _require_mappings(regions: int) -> None:
    """Check the limit of mappings per process; each region needs up to two, in addition to those of the runtime."""
    try:
        limit = int(_MAP_LIMIT.read_text())
    except (OSError, ValueError):
        return
    if 2 * regions + _OTHER_MAPPINGS > limit:
        raise ReplayError(
            f"the capture has {regions:,} regions, too many for the limit of {limit:,} mappings per process",
            where=str(_MAP_LIMIT),
            hint=f"Raise the limit: sysctl vm.max_map_count={4 * regions + _OTHER_MAPPINGS}",
        )


class _Process:
    """Running worker: its input, its answers and its standard error."""

    def __init__(self, setup: ReplaySetup) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed with the process
        with tempfile.TemporaryFile() as order:
            order.write(setup.model_dump_json().encode())
            order.flush()
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            environment = {name: value for name, value in os.environ.items() if name != ATTEMPT_VARIABLE}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rocm_perf_lab.replay.worker", str(order.fileno()), str(writing)],
                stdin=subprocess.PIPE,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=(order.fileno(), writing),
                env=environment,
            )
            os.close(writing)
        self._reading = reading
        self._pending = b""

    @property
    def has_ended(self) -> bool:
        """Return whether the worker has ended."""
        return self._reading < 0

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def send(self, line: str) -> None:
        try:
            self._input.write(line.encode() + b"\n")
            self._input.flush()
        except BrokenPipeError:
            pass  # The worker ended; `answer` reports the reason.

    def answer(self, deadline: float, late: str) -> dict[str, Any]:
        """Return the next message.

        Raises:
            DeviceFault: The deadline passed, or the worker ended.
            LabError: The worker reported an error.
        """
        line = self._line(deadline, late)
        message: dict[str, Any] = json.loads(line)
        if "error" not in message:
            return message
        failure = WorkerError.model_validate(message["error"])
        error = _ERRORS[failure.kind](failure.what, where=failure.where, hint=failure.hint)
        if failure.fatal:
            self.close()
        raise error

    def _line(self, deadline: float, late: str) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._reading, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.kill()
                    raise DeviceFault(
                        f"the replay was stopped: {late}",
                        hint="The kernel may not terminate. If it only needs more time, raise --timeout.",
                    )
                piece = os.read(self._reading, 1 << 16)
                if not piece:
                    raise self._gone()
                self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _gone(self) -> DeviceFault:
        code = self._process.wait()
        self._errors.seek(0)
        output = self._errors.read().decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        self._tidy()
        how = f"on {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return DeviceFault(
            f"the replay process ended {how}",
            where="\n".join(output) or None,
            hint="The kernel or the runtime crashed; check the capture with rocm-perf replay verify.",
        )

    def close(self) -> None:
        if self.has_ended:
            return
        self._input.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._tidy()

    def kill(self) -> None:
        self._process.kill()
        self._tidy()

    def _tidy(self) -> None:
        self._process.wait()
        if not self._input.closed:
            self._input.close()
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1
        self._errors.close()
