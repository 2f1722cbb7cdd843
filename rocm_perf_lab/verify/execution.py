"""Execution of trials: builds by source and shape, and launches on a runner."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.device.launch import launch_geometry
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.trials import described, in_place_pairs, trial_launches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.trial_runs import TrialRun, TrialRunner
    from rocm_perf_lab.verify.trials import Trial

    Compile = Callable[[KernelDescription, Path], BuildResult]

_FACTOR_OF_TILES = 8
"""Minimum factor of the budget of a larger launch: a whole tile is computed even if a trial needs only a few of its elements."""
BuildKey = tuple[tuple[str, str], ...]


@dataclass
class TrialExecutor:
    """Builds sources and runs their trials.

    Args:
        description: Kernel.
        compile_source: Compiles a source for a description.
    """

    description: KernelDescription
    compile_source: Compile
    _builds: dict[tuple[Path, BuildKey], BuildResult] = field(default_factory=dict)

    def run(self, trial: Trial, source: Path, poison: int, runner: TrialRunner, budget: int) -> tuple[TrialRun, Launch]:
        """Run a trial of a source.

        Args:
            trial: Trial.
            source: Source file.
            poison: Seed of the content of uninitialised buffers.
            runner: Emulator or device.
            budget: Limit of wave instructions per dispatch; increased if the source requests a larger launch.

        Returns:
            Result and the last launch.

        Raises:
            LabError: The source does not compile or the kernel fails.
        """
        launches = self.launches(trial, source, poison)
        aliases = in_place_pairs(self.description, trial)
        is_high = trial.rounds[-1] % 2 == 1  # so that a rewrite cannot recognise trials by their addresses
        budget *= self._growth(trial, source, launches[-1])
        return runner.run(launches, aliases, budget=budget, has_high_addresses=is_high), launches[-1]

    def _growth(self, trial: Trial, source: Path, launch: Launch) -> int:
        """Return the factor of the budget for a source that requests a launch: the ratio of work-items, or of a whole tile."""
        if with_source_launch(self.description, source) is self.description:
            return 1
        own = prod(launch_geometry(described(self.description, trial)).work_items)
        return max(_FACTOR_OF_TILES, -(-prod(launch.grid) * prod(launch.block) // own))

    def launches(self, trial: Trial, source: Path, poison: int) -> list[Launch]:
        """Return the launches of a trial, one per round; see :meth:`run`.

        The source may request a different launch configuration.

        Raises:
            LabError: The source does not compile, or the description cannot be launched with these params.
        """
        build = self._built(described(self.description, trial), source)
        symbol = find_kernel(build.code_object, self.description.entry).symbol
        return trial_launches(with_source_launch(self.description, source), trial, build, symbol, poison=poison)

    def build(self, source: Path) -> BuildResult:
        """Return the build of a source for the described params.

        Raises:
            LabError: The source does not compile.
        """
        return self._built(self.description, source)

    def build_key(self, trial: Trial) -> BuildKey:
        """Return the values on which the build of a trial depends."""
        return _key_of(described(self.description, trial))

    def forget_builds(self) -> None:
        """Discard builds, because source files may have changed."""
        self._builds.clear()

    def _built(self, description: KernelDescription, source: Path) -> BuildResult:
        """Return the build for a description; trials of one source with equal build keys share it."""
        key = (source, _key_of(description))
        if key not in self._builds:
            self._builds[key] = self.compile_source(description, source)
        return self._builds[key]


def _key_of(description: KernelDescription) -> BuildKey:
    values = find_language(description.language).build_values(description)
    return tuple(sorted((name, str(value)) for name, value in values.items()))
