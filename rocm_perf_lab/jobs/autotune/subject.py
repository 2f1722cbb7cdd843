"""The subject of a search: the configured kernel on the configured device, or any command line."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.candidate import KernelBuilder
from rocm_perf_lab.autotune.clocks import UNITS_IN_MS, PrintedTime, ProfiledTime, WallClock, printed_time
from rocm_perf_lab.autotune.command import CommandObjective, CommandTemplate
from rocm_perf_lab.autotune.cutoff import Cutoff, Cutoffs
from rocm_perf_lab.autotune.features import compile_space
from rocm_perf_lab.autotune.goals import ENERGY, GoalError
from rocm_perf_lab.autotune.kernel_objective import KernelObjective
from rocm_perf_lab.autotune.printed_metrics import PrintedMetrics
from rocm_perf_lab.autotune.repeats import Gate
from rocm_perf_lab.autotune.shapes import SHAPE
from rocm_perf_lab.autotune.trial_cache import TrialCache
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.device.protocol import EnergyDevice
from rocm_perf_lab.device.rocprofv3 import ProfilerError, Rocprofv3
from rocm_perf_lab.jobs.autotune.goals import configured_goals
from rocm_perf_lab.jobs.autotune.records import Origin
from rocm_perf_lab.jobs.profile.application_profiler import ApplicationDevice
from rocm_perf_lab.profiling.application import GpuProfiler
from rocm_perf_lab.runtime.executable import read_executable
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocm_perf_lab.autotune.clocks import Clock
    from rocm_perf_lab.autotune.features import CompiledSpace
    from rocm_perf_lab.autotune.objective import Infeasible, Measurement, Preempted
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import Device
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.languages.description import KernelDescription

TIMINGS = ("auto", "rocprof", "printed", "wall")
_HIP = "libamdhip64.so"
_RUNS = 5
_PROFILED_RUNS = 3


@dataclass(frozen=True)
class TuningSubject:
    """Subject of a search.

    Args:
        name: Name for titles.
        timing: Description of the times.
        objective: Measures a configuration.
        space: The search space, without discarded configurations.
        origin: Returns the provenance of the times, after the last measurement.
        features: Further inputs of the model for each configuration of `space`.
    """

    name: str
    timing: str
    objective: KernelObjective | CommandObjective
    space: Space
    origin: Callable[[], Origin]
    features: Column | None = None


@dataclass(frozen=True)
class CommandSettings:
    """Settings for running and timing a command: the keys of `job` with a `command`."""

    template: str
    timing: str = "auto"
    time_regex: str | None = None
    time_unit: str = "ms"
    kernel: str | None = None
    runs: int | None = None
    timeout_s: float = 600.0
    device: str = "auto"
    root: str | None = None

    def clock(self, config: LabConfig, program: str) -> Clock:
        """Return the time source.

        `auto` is the printed time if there is a pattern, else rocprofv3 or the emulator, else wall-clock time.

        Args:
            config: The configuration.
            program: First word of the command.

        Raises:
            LabError: Settings contradict each other, or rocprofv3 is required but not installed.
        """
        if self.timing not in TIMINGS:
            raise LabError(f"unknown timing {self.timing!r}", where="job.timing", hint=f"one of {', '.join(TIMINGS)}")
        if self.time_unit not in UNITS_IN_MS:
            raise LabError(f"unknown unit {self.time_unit!r}", where="job.time_unit", hint=f"one of {', '.join(UNITS_IN_MS)}")
        if self.timing == "printed" and self.time_regex is None:
            raise LabError("printed times need a pattern", where="job.time_regex", hint=r"--time-regex 'time: ([\d.]+) ms'")
        if self._is_emulated(program):
            return self._emulated_clock(config)
        if self.time_regex is not None and self.timing in ("auto", "printed"):
            return printed_time(self.time_regex, self.time_unit, self.timeout_s)
        if self.timing == "wall":
            return WallClock(self.timeout_s)
        try:
            profiler = GpuProfiler(Rocprofv3.find())
            return ProfiledTime(profiler, self.timeout_s, self._kernel(), config.passes.helper_kernels)
        except ProfilerError as error:
            if self.timing == "rocprof" or self.kernel is not None:
                raise
            return WallClock(self.timeout_s, error.what)

    def _is_emulated(self, program: str) -> bool:
        """Return whether the command runs on an emulated GPU: on request, or if it is a HIP program and there is no GPU."""
        asked = self.device != "auto" or self.root is not None
        if not asked and self.timing == "wall":
            return False
        return self._where.is_emulated and (asked or _uses_hip(program))

    def _emulated_clock(self, config: LabConfig) -> Clock:
        if self.timing == "wall":
            raise LabError(
                "the wall-clock time of an application on an emulated GPU is not that of a GPU",
                where="--timing wall, job.device=emulator",
                hint="leave one of them out",
            )
        profiler = self._where.profiler(config)
        if self.time_regex is not None and self.timing in ("auto", "printed"):
            clock = printed_time(self.time_regex, self.time_unit, self.timeout_s)
            return replace(clock, time_kind="emulated", plain=profiler.plain)
        if config.target.timing is None:
            raise LabError(
                f"{NO_EMULATED_TIME}: autotune cannot rank configurations",
                where=f"target={config.target.name}",
                hint="choose a target with a timing model, for example target=mi300x",
            )
        return ProfiledTime(profiler, self.timeout_s, self._kernel(), config.passes.helper_kernels, time_kind="emulated")

    @property
    def _where(self) -> ApplicationDevice:
        return ApplicationDevice(self.device, None if self.root is None else Path(self.root))

    def _kernel(self) -> re.Pattern[str] | None:
        try:
            return re.compile(self.kernel) if self.kernel is not None else None
        except re.error as error:
            raise LabError(f"invalid regular expression {self.kernel!r}: {error}", where="--kernel") from error


def command_subject(lab: Lab, space: Space, settings: CommandSettings) -> TuningSubject:
    """Return a command as the subject.

    Raises:
        LabError: The template or the settings are invalid.
    """
    template = CommandTemplate.parse(settings.template, space.complete(space.example()))
    clock = settings.clock(lab.config, template.arguments[0])
    printed = PrintedMetrics.of(lab.config.autotune.printed) if lab.config.autotune.printed else None
    if printed is not None:
        if not isinstance(clock, WallClock | PrintedTime):
            hint = "use --timing wall or printed"
            raise LabError("profiled commands have no printed metrics", where="autotune.printed", hint=hint)
        clock = replace(clock, heard=printed.hear)
    goals = configured_goals(lab.config)
    if goals is not None and goals.reads_energy and ENERGY not in (lab.config.autotune.printed or {}):
        raise GoalError(
            "the energy of a command is not measured",
            where="autotune.objectives",
            hint=f"let it print {ENERGY}: autotune.printed",
        )
    is_emulated = clock.time_kind == "emulated"
    runs = settings.runs or (_PROFILED_RUNS if isinstance(clock, ProfiledTime) else _RUNS)
    gate = Gate(runs, lab.config.autotune.max_cv, lab.config.autotune.max_rounds)
    versions = dict(clock.profiler.versions) if isinstance(clock, ProfiledTime) else {}
    provenance = {"device": "command", "command": settings.template, "note": clock.meaning, "versions": versions}
    name = Path(template.arguments[0]).name

    def origin() -> Origin:
        return Origin(name, clock.meaning, clock.time_kind, {**provenance, "emulated": clock.time_kind == "emulated"})

    objective = CommandObjective(
        template,
        clock,
        gate,
        is_emulated,
        printed,
        # Before the first result, a longer --timeout is the limit.
        Cutoff(lab.config.autotune.cutoff, first_s=max(lab.config.autotune.first_cutoff_s, settings.timeout_s)),
    )
    return TuningSubject(name, clock.meaning, objective, space, origin)


def _uses_hip(program: str) -> bool:
    """Return whether a program has GPU code or loads a HIP runtime."""
    path = shutil.which(program)
    if path is None:
        return False
    try:
        executable = read_executable(Path(path))
    except LabError:
        return False
    loaded = executable.libraries(os.environ)
    return bool(executable.architectures()) or any(name.startswith(_HIP) for name in (*loaded.found, *loaded.missing))


def kernel_subject(lab: Lab, space: Space) -> TuningSubject:
    """Return the configured kernel as the subject; with `autotune.features: [compiled]`, compile all configurations first.

    Raises:
        LabError: The kernel does not have the parameters of the space, or no configuration can run.
    """
    config, settings, identity = lab.config, lab.config.autotune, lab.measuring_device.identity
    if not identity.has_times:
        raise LabError(
            f"{NO_EMULATED_TIME}: autotune cannot rank configurations",
            where=f"target={config.target.name}",
            hint="tune on a GPU (device=rocm), or for a target with a timing model, for example target=mi300x",
        )
    objective = kernel_objective(lab, space, config.kernel, lab.measuring_device)
    if "compiled" not in settings.features:
        origin = Origin.of_kernel(config, identity)
        return TuningSubject(config.kernel.name, origin.timing, objective, space, lambda: origin)
    compiled = _compile(lab, space, objective.builder)
    origin = Origin.of_kernel(config, identity, compiled.discarded)
    return TuningSubject(config.kernel.name, origin.timing, objective, compiled.space, lambda: origin, compiled.columns())


def kernel_objective(lab: Lab, space: Space, kernel: KernelDescription, device: Device) -> KernelObjective:
    """Return the objective that compiles configurations of a kernel and measures them on a device.

    Raises:
        LabError: The kernel does not have the parameters of the space.
    """
    config, settings = lab.config, lab.config.autotune
    goals = configured_goals(config)
    timed, energy = goals is not None and goals.timed_compilation, goals is not None and goals.reads_energy
    if energy and not isinstance(device, EnergyDevice):
        raise GoalError(
            f"{device.identity.name} does not measure energy, which is never emulated",
            where="autotune.objectives",
            hint="measure on a GPU (device=rocm), or remove energy_mj",
        )
    compilers, optimisation = config.toolchain.compilers, config.toolchain.optimisation
    builder = KernelBuilder(kernel, config.target, compilers, optimisation, settings.max_spills, timed)
    builder.check(space)
    return KernelObjective(
        builder,
        device,
        Gate(config.passes.runs, settings.max_cv, settings.max_rounds),
        TrialCache(cache_dir() / "trials") if settings.cache else None,
        _circumstances(lab, device),
        Cutoff(settings.cutoff, first_s=settings.first_cutoff_s),
        energy,
    )


def _compile(lab: Lab, space: Space, builder: KernelBuilder) -> CompiledSpace:
    settings = lab.config.autotune
    if len(space) > settings.max_compiled:
        raise LabError(
            f"{len(space):,} configurations are too many to compile",
            where="autotune.features",
            hint=f"add constraints, raise autotune.max_compiled ({settings.max_compiled:,}), or use features: [parameters]",
        )
    with lab.console.status("compiling") as status:
        compiled = compile_space(
            space, builder, workers=settings.workers, told=lambda done, of: status.update(f"compiled {done:,} of {of:,}")
        )
    can_run, cannot = len(compiled.space), compiled.discarded.total
    lab.console.print(f"[bold]compiled[/] {len(space):,} configurations: {can_run:,} can run, {cannot:,} are discarded")
    return compiled


def _circumstances(lab: Lab, device: Device) -> dict[str, Any]:
    """Return further inputs of the cache key: target, settings and implementation of the device."""
    row = lab.config.device
    configured = device is lab.measuring_device
    found: dict[str, Any] = {"device_target": row.target, "settings": row.arguments} if configured else {}
    if device.identity.emulated:
        from rocm_perf_lab.emulator.fingerprint import emulator_fingerprint

        found["emulator"] = emulator_fingerprint()
    return found


@dataclass
class WorkloadObjective:
    """Objective of a joint space: every shape has its own limit of wall-clock time, relative to its own best configuration."""

    objective: KernelObjective | CommandObjective
    _of_shape: dict[Any, KernelObjective | CommandObjective] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the limit of the objective for every shape."""
        self._cutoffs = Cutoffs(self.objective.cutoff)

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible | Preempted:
        """Measure one configuration for its shape."""
        return self._own(configuration)(configuration)

    @property
    def deterministic(self) -> bool:
        """True if all runs of a configuration have equal times."""
        return self.objective.deterministic

    def sample(self, configuration: Configuration, runs: int) -> Sequence[float] | Infeasible:
        """Return further times of a configuration for its shape in ms."""
        return self._own(configuration).sample(configuration, runs)

    def _own(self, configuration: Configuration) -> KernelObjective | CommandObjective:
        shape = configuration[SHAPE]
        if shape not in self._of_shape:
            cutoff = self._cutoffs.of(configuration)
            if isinstance(self.objective, KernelObjective):
                self._of_shape[shape] = replace(self.objective, cutoff=cutoff, _expected={})
            else:
                self._of_shape[shape] = replace(self.objective, cutoff=cutoff)
        return self._of_shape[shape]
