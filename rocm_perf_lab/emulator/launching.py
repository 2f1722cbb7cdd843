"""Prepared launches: `EmulatedGpu.prepare(...)` creates one, `run()` executes it once or several times.

Translation, registers, packet and the registry of allocations are prepared once, so that a repeated run costs only the kernel.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.emulator.branch_coverage import branch_coverage
from rocm_perf_lab.emulator.checks import UNINITIALISED, CheckKind, Checks
from rocm_perf_lab.emulator.counters import launch_counters
from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.execution import execute
from rocm_perf_lab.emulator.faults import KernelTrap, assertion_error, describe_miss, fault_error, time_limit_error, wavefront_of
from rocm_perf_lab.emulator.memory_rewind import MemoryRewind
from rocm_perf_lab.emulator.probes import PROBE_WORDS
from rocm_perf_lab.emulator.sampled_run import SampledRun, run_sampled
from rocm_perf_lab.emulator.structures import FaultKind
from rocm_perf_lab.emulator.unused_reads import MemoryBeforeLaunch

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from numpy.typing import NDArray

    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage
    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.checks import CheckFinding
    from rocm_perf_lab.emulator.execution import Dispatch, Execution
    from rocm_perf_lab.emulator.footprint import LineFootprint
    from rocm_perf_lab.emulator.host_services import LaunchServices
    from rocm_perf_lab.emulator.memory import DeviceMemory
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.sampled_run import Sampling
    from rocm_perf_lab.emulator.structures import FaultRecord
    from rocm_perf_lab.emulator.timing.strata import WorkgroupSample
    from rocm_perf_lab.emulator.translation import TranslatedKernel
    from rocm_perf_lab.emulator.unused_reads import Content


@dataclass(frozen=True)
class LaunchResult:
    """Result of one launch.

    `counters` are exact and named as in rocprofv3; `memory` has those of the runtime (bytes requested and the like).
    `block_executions` and `block_active_lanes` are (n_blocks) of `program`. `traces[k][wave]` are the words of one
    wavefront (see `runtime/wave.h`) of workgroup `sample.chosen[k]`; `sample` is None if the launch was not traced, and
    `sample_seed` reproduces it. `workgroup_counts` is (workgroups) of
    :data:`~rocm_perf_lab.emulator.timing.strata.WORKGROUP_COUNTS`. `waves_per_workgroup` is that of a whole workgroup.
    `findings` are defects, `remarks` are other observations of the checks. `host_calls` counts the packets that wavefronts sent
    to the host, whose time is not estimated; `printed` is their text. `footprint` are sampled lines that all workgroups accessed.
    """

    program: Program
    counters: dict[str, int]
    memory: dict[str, int]
    block_executions: NDArray[np.uint64]
    block_active_lanes: NDArray[np.uint64]
    workgroup_counts: NDArray[np.void]
    sample: WorkgroupSample | None
    sample_seed: int | None
    traces: list[list[NDArray[np.uint64]]]
    workgroups: int
    waves: int
    waves_per_workgroup: int
    lds_bytes: int
    findings: tuple[CheckFinding, ...] = ()
    remarks: tuple[CheckFinding, ...] = ()
    printed: tuple[PrintedPiece, ...] = ()
    host_calls: int = 0
    footprint: LineFootprint | None = None
    code: str = ""
    """SHA-256 of the code object."""
    probe_words: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, PROBE_WORDS), np.uint64))
    """Outcomes of the conditions, see :attr:`coverage`."""

    @property
    def coverage(self) -> BranchCoverage:
        """Outcomes of branches, predicates and comparisons in this launch."""
        return branch_coverage(self.code, self.program, self.probe_words, self.block_executions)


class PreparedLaunch:
    """Launch whose memory is set up; a context manager that frees it.

    The allocations of the device memory must not change between two calls of :meth:`run`.
    """

    def __init__(
        self,
        *,
        dispatch: Dispatch,
        translated: TranslatedKernel,
        code: str,
        runtime: Runtime,
        memory: DeviceMemory,
        checks: frozenset[CheckKind],
        owned: ExitStack,
        services: LaunchServices | None,
        source_line: Callable[[int], str | None] | None,
        named_barriers: bool = True,
        sampling: Sampling | None = None,
        time_limit_s: float | None = None,
    ) -> None:
        self._dispatch = dispatch
        self._time_limit_s = time_limit_s
        self._deadline: float | None = None
        self._sampling = sampling
        self._translated = translated
        self._code = code
        self._runtime = runtime
        self._memory = memory
        self._checks = checks
        self._owned = owned
        self._source_line = source_line
        self._named_barriers = named_barriers
        self._services = services
        self._registry = memory.registry()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the packet and the kernarg segment if it was allocated here."""
        self._owned.close()

    def run(self, *, traced: bool = True, workgroups: tuple[int, ...] | None = None) -> LaunchResult:
        """Run the kernel to its end; without `traced` no workgroup is traced for the timing model, which is faster.

        Args:
            traced: Trace a sample of the workgroups.
            workgroups: Linear ids of the only workgroups to run, in this order, x fastest; then none is traced.

        Raises:
            EmulationError: The kernel faulted, exceeded its budget, or failed an assertion.
        """
        self._deadline = time.monotonic() + self._time_limit_s if self._time_limit_s is not None else None
        dispatch = replace(self._dispatch, chosen_workgroups=workgroups, deadline=self._deadline)
        sampling = self._sampling if traced else None
        sampling = sampling if workgroups is None else None
        if self._services is not None:
            dispatch = replace(dispatch, services=self._services, threads=1)
            self._registry = self._memory.registry()  # earlier runs may have allocated
        with self._services.installed() if self._services is not None else nullcontext():
            run, findings = self._execute(dispatch, sampling)
        if run.execution.fault is not None:
            raise self._error(run.execution.fault)
        result = _result(run, dispatch, self._translated.program, findings, None if sampling is None else sampling.seed)
        result = replace(result, code=self._code)
        if self._services is None:
            return result
        return replace(result, printed=self._services.printed.pieces, host_calls=self._services.calls)

    def _error(self, fault: FaultRecord) -> BaseException:
        services = self._services
        if services is not None and services.error is not None:
            if isinstance(services.error, EmulationError):
                services.error.printed = services.printed.pieces
            return services.error
        if fault.kind == FaultKind.BUDGET and self._deadline is not None and time.monotonic() >= self._deadline:
            return time_limit_error(self._translated.program, self._time_limit_s or 0.0)
        error: EmulationError = fault_error(
            fault,
            self._translated.program,
            partial(describe_miss, self._memory),
            self._translated.resume_address,
            self._dispatch.max_instructions,
            self._source_line,
        )
        if services is None:
            return error
        failed = services.printed.failed_assertion(wavefront_of(fault)) if isinstance(error, KernelTrap) else None
        if failed is not None:
            program, geometry = self._translated.program, self._dispatch.geometry
            error = assertion_error(program.symbol, failed, fault, geometry, program.isa.wave_size)
        error.printed = services.printed.pieces
        return error

    def _execute(self, dispatch: Dispatch, sampling: Sampling | None) -> tuple[SampledRun, tuple[CheckFinding, ...]]:
        def run(one: Dispatch) -> Execution:
            return execute(self._runtime, one, self._registry)

        def run_all(all_of: Dispatch) -> SampledRun:
            images = self._memory.images()
            if sampling is None:
                return SampledRun(run(all_of), [], None)
            # The host must answer a kernel only once, and its answers change the registry.
            repeatable = self._services is None
            rewinding = partial(MemoryRewind, self._runtime, self._registry, images) if repeatable else None
            return run_sampled(run, all_of, sampling, rewinding)

        if not self._checks:
            return run_all(dispatch), ()
        before = None
        if self._checks & UNINITIALISED and self._services is None:
            records_stores = CheckKind.MEMORY_UNINITIALISED in self._checks
            before = MemoryBeforeLaunch.of(self._memory, records_stores=records_stores)
        with Checks(
            self._checks,
            self._runtime,
            self._translated.program,
            self._memory,
            dispatch.workgroups,
            dispatch.waves_per_workgroup,
            named_barriers=self._named_barriers,
        ) as checks:
            done = run_all(replace(dispatch, threads=1, checks=checks.record))
            findings = checks.findings(self._translated.resume_address, self._source_line)
        if before is None or done.execution.fault is not None or not any(f.reads_uninitialised for f in findings):
            return done, findings

        def run_again(content: Content) -> bool:
            again = replace(dispatch, lds_content=content.first, lds_step=content.step, records_lines=False)
            return run(again).fault is None

        if before.depends_on_uninitialised(run_again):
            return done, findings
        return done, tuple(f.without_effect() if f.reads_uninitialised else f for f in findings)


def _result(
    run: SampledRun, dispatch: Dispatch, program: Program, findings: tuple[CheckFinding, ...], seed: int | None
) -> LaunchResult:
    execution = run.execution
    return LaunchResult(
        program=program,
        counters=launch_counters(
            [block.counters for block in program.blocks],
            execution.block_executions,
            execution.block_active_lanes,
            execution.counters,
            program.isa,
        ),
        memory=execution.counters,
        block_executions=execution.block_executions,
        block_active_lanes=execution.block_active_lanes,
        workgroup_counts=execution.workgroup_counts,
        sample=run.sample,
        sample_seed=seed,
        traces=run.traces,
        footprint=execution.footprint,
        probe_words=execution.probe_words,
        workgroups=dispatch.workgroups,
        waves=execution.counters["waves"],
        waves_per_workgroup=dispatch.waves_per_workgroup,
        lds_bytes=dispatch.lds_bytes,
        findings=tuple(finding for finding in findings if finding.is_defect),
        remarks=tuple(finding for finding in findings if not finding.is_defect),
    )
