"""The emulator as a device: launches run on this CPU and are recorded in a rocpd database, as by rocprofv3.

Instruction counters are exact. Times and memory counters are estimates of the timing model; the agent in the database is
marked as emulated.
"""

from __future__ import annotations

import os
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab import __version__
from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.choice import missing_for_gpu
from rocm_perf_lab.device.emulated_thread_trace import emulated_trace, partial
from rocm_perf_lab.device.emulated_time import ClockMode, estimate_launch
from rocm_perf_lab.device.instruction_counts import ExecutionCount
from rocm_perf_lab.device.launch_record import launch_record
from rocm_perf_lab.device.protocol import BufferValue, DeviceIdentity, DeviceRun, Finding
from rocm_perf_lab.rocprof.att.writer import write_trace
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.toolchain.descriptor import splits_workgroups
from rocm_perf_lab.toolchain.source_lines import line_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.emulator.checks import CheckKind
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.machine import EmulatedGpu
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.sampling import SamplePolicy
    from rocm_perf_lab.emulator.timing.engine import TimingEstimate
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_CACHE_STATES = ("warm", "cold")


class EmulatorDevice:
    """Device that executes code objects instruction by instruction on the CPU.

    Args:
        target: The GPU whose limits, caches and rates are emulated.
        max_instructions: Limit of wavefront instructions per launch; a kernel that exceeds it is considered endless.
        threads: Threads that run workgroups; 0 means one per core. Results do not depend on it.
        traced_workgroups: Maximum number of workgroups whose instruction stream the timing model replays.
        sample: `strata` chooses them at random from strata of equal work, `all` traces every workgroup.
        sample_seed: Seed of the choice; None is a fixed seed, which jobs that judge sources replace by a secret one.
        check: `none`, `all`, or checks by name (see :class:`~rocm_perf_lab.emulator.checks.Check`); a checked launch runs
            on one thread.
        clock: Shader clock: `max`, `load` for that under sustained load, or a number of MHz up to the maximum.
        time_limit_s: Limit of wall-clock time per launch; None: unlimited.
        cache: `warm` if the same launch ran before, so that the memory-side cache still holds its data, `cold` otherwise.

    Raises:
        LabError: A check does not exist, or the sample, the clock or the state of the cache is invalid.
    """

    deterministic = True

    def __init__(
        self,
        *,
        target: Target,
        max_instructions: int = 20_000_000_000,
        threads: int = 0,
        traced_workgroups: int = 16,
        sample: str = "strata",
        sample_seed: int | None = None,
        check: str | Sequence[str] = "none",
        cache: str = "warm",
        clock: str | int = "max",
        time_limit_s: float | None = None,
    ) -> None:
        from rocm_perf_lab.emulator.checks import parse_checks
        from rocm_perf_lab.emulator.sampling import sample_policy

        self._checks = parse_checks(check)
        self._target = target
        self._max_instructions = max_instructions
        self._time_limit_s = time_limit_s
        self._threads = threads or os.cpu_count() or 1
        self._sample = sample_policy(sample, traced_workgroups, sample_seed)
        self._has_own_seed = sample_seed is not None
        if cache not in _CACHE_STATES:
            raise LabError(f"unknown state of the caches {cache!r}", where="device.cache", hint="Use warm or cold.")
        self._warm = cache == "warm"
        self._clock = _clock_mode(clock, target)

    @cached_property
    def identity(self) -> DeviceIdentity:
        """Name, version and the reason for using the emulator."""
        return DeviceIdentity(
            name="emulator",
            emulated=True,
            reason=missing_for_gpu() or "chosen by the configuration",
            versions={"rocm-perf-lab": __version__},
            has_times=self._target.timing is not None,
        )

    @property
    def exact_counters(self) -> tuple[str, ...]:
        """Names of counters with exact values."""
        from rocm_perf_lab.emulator.counters import exact_counters
        from rocm_perf_lab.emulator.isa.instruction_set import instruction_set

        return exact_counters(instruction_set(self._target.architecture))

    @property
    def estimated_counters(self) -> tuple[str, ...]:
        """Names of counters that the timing model estimates."""
        from rocm_perf_lab.emulator.timing.memory_counters import estimated_counters

        if self._target.timing is None:
            return ()
        exact, counter_set = set(self.exact_counters), load_architecture(self._target.architecture).counter_set
        return tuple(name for name in estimated_counters(counter_set) if name not in exact)

    @property
    def max_instructions(self) -> int:
        """Limit of wavefront instructions per launch."""
        return self._max_instructions

    @property
    def threads(self) -> int:
        """Number of threads that run workgroups."""
        return self._threads

    @property
    def sample(self) -> SamplePolicy:
        """Number of traced workgroups, and the seed of their selection."""
        return self._sample

    def with_sample_seed(self, seed: int) -> EmulatorDevice:
        """Return this device with another seed, unless its configuration sets one."""
        if self._has_own_seed:
            return self
        device = copy(self)
        device._sample = replace(self._sample, seed=seed)
        return device

    def with_time_limit(self, seconds: float) -> EmulatorDevice:
        """Return this device with a limit of wall-clock time per launch."""
        device = copy(self)
        device._time_limit_s = seconds
        return device

    def machine(self) -> EmulatedGpu:
        """Return a new emulated GPU with the settings of this device; the caller closes it."""
        from rocm_perf_lab.emulator.machine import EmulatedGpu

        return EmulatedGpu(
            self._target,
            max_instructions=self._max_instructions,
            threads=self._threads,
            sample=self._sample,
            checks=self._checks,
            time_limit_s=self._time_limit_s,
        )

    def run(self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str], att: Path | None = None) -> DeviceRun:
        """Execute once and record `runs` equal dispatches; see :meth:`Device.run`.

        A thread trace holds the wavefronts that the timing model replayed. Without a timing model there is none, and dispatches
        have neither times nor estimated counters.

        Raises:
            EmulationError: The kernel did something that it must not do.
            LabError: The launch is impossible on the target.
        """
        kernel = next(k for k in launch.code_object.kernels if k.symbol == launch.symbol)
        with self.machine() as machine:
            buffers = _allocate(machine, launch)
            loaded = machine.load(launch.code_object)
            for variable in launch.variables:
                loaded.fill_global(variable.name, variable.data.tobytes())
            result = launch_loaded(machine, loaded, launch, buffers)
            timing = self._timing(kernel, launch, result, list(buffers.values()), thread_trace=att is not None)
            outputs = _read_outputs(machine, launch, buffers)
        values = {**(timing.counters if timing is not None else {}), **result.counters}
        wanted = {name: float(values[name]) for name in counters if name in values}
        durations = [timing.duration_ns if timing is not None else 0] * runs
        record = launch_record(self._target, self.identity, launch, durations, wanted, result.sample_seed)
        write_database(database, record)
        if att is not None and timing is not None:
            waves = timing.thread_trace
            trace = emulated_trace(result.program, waves, launch.code_object, kernel, device=self.identity.name)
            write_trace(partial(trace) if timing.is_thread_trace_partial else trace, att)
        findings = tuple(Finding(f.check, str(f), f.source) for f in result.findings)
        limits = (*_model_notes(kernel, self._target), *_limits_of_checks(result.program, self._checks))
        limits = (*_host_call_notes(result.host_calls), *limits)
        notes = (*limits, *(f"{f.check.replace('_', ' ')}: {f}" for f in result.remarks))
        counts = _instruction_counts(result)
        return DeviceRun(outputs, database, counts, findings, result.printed, result.host_calls, notes)

    def _timing(
        self, kernel: KernelMetadata, launch: Launch, result: LaunchResult, buffers: list[Allocation], *, thread_trace: bool
    ) -> TimingEstimate | None:
        """Return the estimate of the timing model, or None if there is none for the target."""
        if self._target.timing is None:
            return None
        return estimate_launch(
            self._target,
            kernel,
            result,
            block=launch.block,
            dynamic_lds_bytes=launch.dynamic_lds_bytes,
            buffers=buffers,
            thread_trace=thread_trace,
            warm=self._warm,
            clock=self._clock,
        )


def _clock_mode(clock: str | int, target: Target) -> ClockMode:
    match clock:
        case "max":
            return "max"
        case "load":
            return "load"
    if isinstance(clock, int) and 0 < clock <= target.max_clock_mhz:
        return clock
    raise LabError(
        f"invalid clock {clock!r}", where="device.clock", hint=f"Use max, load, or a number of MHz up to {target.max_clock_mhz}."
    )


def launch_loaded(
    machine: EmulatedGpu, loaded: LoadedCodeObject, launch: Launch, buffers: Mapping[str, Allocation]
) -> LaunchResult:
    """Execute a launch whose code object is loaded and whose buffers are allocated.

    Raises:
        EmulationError: The kernel made an invalid operation, or cannot be executed.
    """
    return machine.launch(
        loaded,
        launch.symbol,
        launch.grid,
        launch.block,
        [buffers[a.name] if isinstance(a, BufferValue) else a.encoded for a in launch.arguments],
        launch.dynamic_lds_bytes,
        remainder=launch.remainder,
        cooperative=launch.cooperative,
        source_line=_source_lines(launch.code_object),
    )


def _model_notes(kernel: KernelMetadata, target: Target) -> tuple[str, ...]:
    if not splits_workgroups(kernel.descriptor, target.architecture):
        return ()
    return ("compiled with -mtgsplit: the emulated time assumes that the wavefronts of a workgroup share a CU",)


def _host_call_notes(host_calls: int) -> tuple[str, ...]:
    if not host_calls:
        return ()
    calls = "1 call" if host_calls == 1 else f"{host_calls:,} calls"
    return (f"{calls} of the host (printf, malloc): the emulated time excludes the host, which dominates on a GPU",)


def _instruction_counts(result: LaunchResult) -> tuple[ExecutionCount, ...]:
    """Return the counts of all reachable instructions, in address order."""
    counts = []
    executions, lanes = result.block_executions.tolist(), result.block_active_lanes.tolist()
    for block in result.program.blocks:
        times, lane_sum = executions[block.index], lanes[block.index]
        vector_alu = sum(instruction.is_vector_alu for instruction in block.instructions)
        mean = lane_sum / (times * vector_alu) if times and vector_alu else None
        counts += [ExecutionCount(instruction.address, times, mean) for instruction in block.instructions]
    return tuple(sorted(counts, key=lambda count: count.address))


def _allocate(machine: EmulatedGpu, launch: Launch) -> dict[str, Allocation]:
    buffers = {}
    for argument in launch.arguments:
        if isinstance(argument, BufferValue):
            buffers[argument.name] = machine.allocate(argument.name, argument.data.nbytes)
            machine.write(buffers[argument.name], argument.data)
            if argument.data.flags.c_contiguous:
                machine.memory.set_image(buffers[argument.name], argument.data)
            if not argument.is_set:
                machine.forget_content(buffers[argument.name])
    return buffers


def _read_outputs(machine: EmulatedGpu, launch: Launch, buffers: Mapping[str, Allocation]) -> dict[str, NDArray[Any]]:
    return {
        a.name: np.frombuffer(machine.read(buffers[a.name]), dtype=a.data.dtype).reshape(a.data.shape)
        for a in launch.arguments
        if isinstance(a, BufferValue) and a.written
    }


def _source_lines(code_object: CodeObject) -> Callable[[int], str | None]:
    """Return a lookup of source lines; the line table is read on first use, by an error."""

    def line_of(address: int) -> str | None:
        found = line_table(code_object)(address)
        return f"{found.file}:{found.line}" if found is not None else None

    return line_of


def _limits_of_checks(program: Program, chosen: frozenset[CheckKind]) -> tuple[str, ...]:
    from rocm_perf_lab.emulator.checks import limits_of_checks

    limits = limits_of_checks(program.isa, chosen)
    return () if limits is None else (limits,)
