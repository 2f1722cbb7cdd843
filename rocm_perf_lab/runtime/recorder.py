"""Profile of an application while it runs: `DispatchRecorder`.

The translation service requests durations from its clock. After the application has ended, :meth:`DispatchRecorder.finish` writes
the databases and the code objects.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.runtime.application_database import ApplicationKernel, ApplicationRecords, write_databases
from rocm_perf_lab.runtime.emulated_clock import EmulatedClock, TimedKernel, estimate_dispatch, read_detail
from rocm_perf_lab.runtime.selection import DispatchSelection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocm_perf_lab.emulator.timing.thread_trace import TracedWave
    from rocm_perf_lab.runtime.application_database import WrittenDatabases
    from rocm_perf_lab.runtime.kernel_store import ServedKernel
    from rocm_perf_lab.target.model import Target


def application_kernel(kernel: ServedKernel) -> ApplicationKernel:
    """Return a kernel with its instructions.

    Raises:
        LabError: Its code is damaged.
    """
    from rocm_perf_lab.runtime.translation_jobs import decoded

    described, program = decoded(kernel.image, kernel.architecture, kernel.facts.unsupported)
    code = kernel.image.elf.data
    return ApplicationKernel(
        TimedKernel(program, described.kernel),
        kernel.architecture,
        sha256(code).hexdigest(),
        code=b"" if kernel.image.is_raw else code,
    )


class DispatchRecorder:
    """Estimates and records of one run of an application.

    Args:
        target: The emulated GPU; all GPUs of a machine are equal.
        gpus: Number of GPUs.
        directory: Directory of the databases.
        counters: Names of the counters of each dispatch.
        command: Command line of the application.
        details: Directory in which messages about dispatches are kept for thread traces; None keeps none.
        selection: Dispatches that are recorded in detail; all of them by default.
    """

    def __init__(
        self,
        target: Target,
        gpus: int,
        directory: Path,
        counters: Sequence[str],
        command: str,
        details: Path | None = None,
        selection: DispatchSelection | None = None,
    ) -> None:
        self.selection = selection or DispatchSelection()
        self.clock = EmulatedClock(target, counters, details, self.selection)
        """Durations, for the translation service."""
        self._target = target
        self._gpus = gpus
        self._directory = directory
        self._counters = tuple(counters)
        self._command = command
        self._details = details
        self._kernels: dict[int, ApplicationKernel] = {}
        if details is not None:
            details.mkdir(parents=True, exist_ok=True)

    def finish(self, session: Path, kernels: Sequence[ServedKernel]) -> WrittenDatabases:
        """Write the databases of the session's processes, and the code objects of their kernels.

        Args:
            session: Directory with the records of the processes.
            kernels: Kernels of the session.

        Raises:
            LabError: A file of records is damaged, or a file cannot be written.
        """
        targets = [self._target] * self._gpus
        self._kernels = {kernel.number: application_kernel(kernel) for kernel in kernels}
        selected = frozenset(kernel.number for kernel in kernels if self.selection.has_kernel(kernel.facts.name))
        records = ApplicationRecords(session, targets, self._kernels, self.clock.estimates, self._command, selected)
        written = write_databases(records, self._directory, self._counters)
        for kernel in self._kernels.values():
            if kernel.code:
                write_bytes(self._directory / f"{kernel.code_sha256[:16]}.hsaco", kernel.code)
        return written

    @property
    def code_objects(self) -> tuple[Path, ...]:
        """Code objects that :meth:`finish` wrote."""
        return tuple(sorted(self._directory.glob("*.hsaco")))

    def longest(self, symbol: str) -> tuple[ApplicationKernel, int] | None:
        """Return the kernel with a name that has the longest estimate, and the number of the estimate."""
        wanted = symbol.removesuffix(".kd")
        by_time = sorted(self.clock.estimates.items(), key=lambda one: -one[1].duration_ns)
        for number, estimate in by_time:
            kernel = self._kernels[estimate.kernel]
            if kernel.timed.metadata.symbol.removesuffix(".kd") == wanted:
                return kernel, number
        return None

    def estimated(self) -> Iterator[tuple[ApplicationKernel, int]]:
        """Yield the kernel of every estimate and its number."""
        for number, estimate in sorted(self.clock.estimates.items()):
            yield self._kernels[estimate.kernel], number

    def thread_trace(self, kernel: TimedKernel, number: int) -> tuple[tuple[TracedWave, ...], bool]:
        """Replay an estimated dispatch, and record single wavefronts.

        Returns:
            The wavefronts, and whether later ones of the compute unit are missing.

        Raises:
            ValueError: No messages are kept.
            TimingUnavailable: The target has no timing model.
        """
        if self._details is None:
            raise ValueError("messages were not stored")
        estimate = estimate_dispatch(read_detail(self._details, number), kernel, self._target, thread_trace=True)
        return estimate.thread_trace, estimate.is_thread_trace_partial
