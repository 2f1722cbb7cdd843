"""Runners of trials: the emulator with all checks enabled, or the measuring device.

A runner executes the launches of one trial and returns the content of all buffers and the findings of the checks.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import launch_loaded
from rocm_perf_lab.device.protocol import BufferValue, Finding
from rocm_perf_lab.verify.placement import place_buffer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Device, Launch
    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage
    from rocm_perf_lab.emulator.machine import EmulatedGpu
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.emulator.translation import KernelTranslator
    from rocm_perf_lab.target.model import Target

_CANARY_BYTES = 4096
DEFAULT_BUDGET = 2_000_000_000


@dataclass(frozen=True)
class TrialRun:
    """Result of a trial.

    Args:
        buffers: Content after the last dispatch, by buffer name.
        findings: Findings of all dispatches.
        instructions: Wave instructions of the longest dispatch; 0 if not counted.
        covered: Outcomes of branches in all dispatches; None if they were not recorded.
    """

    buffers: Mapping[str, NDArray[Any]]
    findings: tuple[Finding, ...] = ()
    instructions: int = 0
    covered: BranchCoverage | None = None


class TrialRunner(Protocol):
    """Executes the launches of a trial."""

    @property
    def most_trials(self) -> int | None:
        """Maximum number of trials; None for any number."""
        ...

    def release(self) -> None:
        """Free all resources that are kept between trials of the same code."""
        ...

    def run(
        self, launches: Sequence[Launch], aliases: Mapping[str, str], *, budget: int, has_high_addresses: bool = False
    ) -> TrialRun:
        """Dispatch the launches one after another on the same memory.

        Args:
            launches: At least one launch; all have the same buffers.
            aliases: Buffers that share the memory of another buffer.
            budget: Limit of wave instructions per dispatch, if they are counted.
            has_high_addresses: Whether buffers have addresses like those on a GPU, if selectable, instead of lower ones.

        Raises:
            LabError: The kernel failed, for example with an access out of bounds.
        """
        ...


class EmulatorRunner:
    """Runs trials on the emulator with all checks: bounds, races, uninitialised reads, barriers, alignment."""

    most_trials: int | None = None

    def __init__(self, target: Target) -> None:
        self._target = target
        self._translators: dict[str, KernelTranslator] = {}

    def release(self) -> None:
        """Free the native code of the kernels that ran."""
        self._translators.clear()

    def run(
        self,
        launches: Sequence[Launch],
        aliases: Mapping[str, str],
        *,
        budget: int = DEFAULT_BUDGET,
        has_high_addresses: bool = False,
    ) -> TrialRun:
        """Run the launches; see :class:`TrialRunner`.

        Raises:
            LabError: An access is out of bounds, or the budget is exceeded.
        """
        from rocm_perf_lab.emulator.checks import CheckKind
        from rocm_perf_lab.emulator.machine import EmulatedGpu

        findings: list[Finding] = []
        longest = 0
        covered: BranchCoverage | None = None
        translator = self._translator(launches[0])
        checks = frozenset(CheckKind)
        with EmulatedGpu(self._target, max_instructions=budget, checks=checks, translator=translator) as machine:
            loaded = machine.load(launches[0].code_object)
            if has_high_addresses:
                machine.memory.use_high_addresses()
            buffers = _allocated(machine, launches[0], aliases)
            for launch in launches:
                _fill(machine, launch, buffers, aliases)
                for variable in launch.variables:
                    loaded.fill_global(variable.name, variable.data.tobytes())
                result = launch_loaded(machine, loaded, launch, buffers)
                findings += [Finding(f.check, str(f), f.source) for f in result.findings]
                longest = max(longest, int(result.counters.get("SQ_INSTS", 0)))
                covered = result.coverage if covered is None else covered.merged(result.coverage)
            contents = {
                a.name: np.frombuffer(machine.read(buffers[a.name]), a.data.dtype).reshape(a.data.shape)
                for a in launches[-1].arguments
                if isinstance(a, BufferValue)
            }
        return TrialRun(contents, tuple(findings), longest, covered)

    def _translator(self, launch: Launch) -> KernelTranslator:
        """Return the translator of a code object, whose address is fixed because each emulated GPU loads it first."""
        from rocm_perf_lab.emulator.build import load_runtime
        from rocm_perf_lab.emulator.translation import KernelTranslator

        key = launch.code_object.sha256
        if key not in self._translators:
            self._translators[key] = KernelTranslator(load_runtime())
        return self._translators[key]


class DeviceRunner:
    """Runs trials on the measuring device, with a canary after every buffer to detect writes past its end."""

    most_trials: int | None = 32

    def __init__(self, device: Device) -> None:
        self._device = device

    def release(self) -> None:
        """Do nothing: a device keeps no code."""

    def run(
        self,
        launches: Sequence[Launch],
        aliases: Mapping[str, str],
        *,
        budget: int = DEFAULT_BUDGET,
        has_high_addresses: bool = False,
    ) -> TrialRun:
        """Run only the last launch; effects of one launch on the next are checked on the emulator.

        Raises:
            LabError: The kernel failed or wrote past the end of a buffer, or there are aliases.
        """
        launch = launches[-1]
        if aliases:
            raise LabError("only the emulator supports trials with an output in the place of an input", where="optimizer.gate")
        padded = replace(launch, arguments=tuple(_padded(a) if isinstance(a, BufferValue) else a for a in launch.arguments))
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
            run = self._device.run(padded, database=Path(directory) / "trial.db", runs=1, counters=())
        contents = {}
        for argument in launch.arguments:
            if isinstance(argument, BufferValue):
                raw = np.frombuffer(run.outputs[argument.name].tobytes(), np.uint8)
                end = argument.data.nbytes
                if not np.array_equal(raw[end:], _canary(argument.name)):
                    raise LabError(f"the kernel writes past the end of buffer {argument.name!r}", where=launch.symbol)
                contents[argument.name] = raw[:end].view(argument.data.dtype).reshape(argument.data.shape)
        return TrialRun(contents, run.findings)


def _allocated(machine: EmulatedGpu, launch: Launch, aliases: Mapping[str, str]) -> dict[str, Allocation]:
    values = [a for a in launch.arguments if isinstance(a, BufferValue)]
    own = {
        a.name: place_buffer(machine.memory, a.name, a.data.nbytes, a.alignment, index)
        for index, a in enumerate(values)
        if a.name not in aliases
    }
    return own | {name: own[target] for name, target in aliases.items()}


def _fill(machine: EmulatedGpu, launch: Launch, buffers: Mapping[str, Allocation], aliases: Mapping[str, str]) -> None:
    for argument in launch.arguments:
        if isinstance(argument, BufferValue) and argument.name not in aliases:
            machine.write(buffers[argument.name], argument.data)
            if not argument.is_set:
                machine.forget_content(buffers[argument.name])


def _padded(argument: BufferValue) -> BufferValue:
    raw = np.frombuffer(argument.data.tobytes(), np.uint8)
    return replace(argument, data=np.concatenate([raw, _canary(argument.name)]))


def _canary(name: str) -> NDArray[np.uint8]:
    return np.random.default_rng(list(name.encode())).integers(0, 256, _CANARY_BYTES, np.uint8)
