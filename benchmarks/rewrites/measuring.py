"""Kernels of the benchmark, their emulated times, and the check of their rewrites."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.optimize.candidate import CandidateChecker
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.policy import TrialPolicy

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.transforms.base import Transform

KERNELS = Path(__file__).parent / "kernels"
_SEED = 20_261_123


@dataclass(frozen=True)
class BenchmarkKernel:
    """Naive kernel and its expert version, in one directory."""

    name: str
    directory: Path

    @cached_property
    def description(self) -> KernelDescription:
        """Description of the naive version."""
        row = yaml.safe_load((self.directory / "kernel.yaml").read_text())
        return KernelDescription.model_validate(row | {"directory": self.directory})

    @property
    def naive(self) -> str:
        """Source of the naive version."""
        return self.description.source_path.read_text()

    @property
    def expert(self) -> str:
        """Source of the expert version, with its launch."""
        return (self.directory / "expert.hip").read_text()

    def checker(self, instructions: int) -> CandidateChecker:
        """Return a checker that has recorded the naive version, with a fixed seed.

        Args:
            instructions: Wave instructions of the naive version in all trials.
        """
        target = load_target("mi300x")
        rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "guards.yaml").read_text())["guards"]
        guards = [build(Component.model_validate(row), where="optimizer.guards", target=target) for row in rows]
        policy = TrialPolicy(seed=_SEED, instructions=instructions)
        return CandidateChecker(self.description, compiler=find_compiler(), target=target, guards=guards, policy=policy)

    def transforms(self) -> list[Transform]:
        """Return all transforms of `optimizer=transforms`, in their order."""
        target = load_target("mi300x")
        rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "transforms.yaml").read_text())["transforms"]
        return [
            build(Component.model_validate(row), where="optimizer.transforms", target=target, kernel=self.description)
            for row in rows
        ]


def kernels(names: list[str] | None = None) -> list[BenchmarkKernel]:
    """Return the kernels of the benchmark by name, or all."""
    found = sorted(path.parent for path in KERNELS.glob("*/kernel.yaml"))
    return [BenchmarkKernel(path.name, path) for path in found if not names or path.name in names]


def emulated_us(kernel: BenchmarkKernel, text: str) -> float:
    """Return the emulated time of a source in us, at the launch that it requests.

    Raises:
        LabError: It does not compile, or faults.
    """
    with tempfile.TemporaryDirectory(prefix="rewrites-") as directory:
        source = Path(directory) / "kernel.hip"
        source.write_text(text)
        description = with_source_launch(kernel.description, source)
        built = compile_description(description, source, architecture="gfx942", compiler=find_compiler)
        symbol = find_kernel(built.code_object, description.entry).symbol
        launch = build_launch(description, built.code_object, symbol, built.contract)
        device = EmulatorDevice(target=load_target("mi300x"))
        run = device.run(launch, database=Path(directory) / "run_results.db", runs=1, counters=())
        return float(read_database(run.database).dispatches.duration_ns[0]) / 1000


def rejection(checker: CandidateChecker, text: str) -> str | None:
    """Return the reason why the guards or the trials reject a source, or None."""
    with tempfile.TemporaryDirectory(prefix="rewrites-") as directory:
        source = Path(directory) / "kernel.hip"
        source.write_text(text)
        result = checker.check(source)
        return None if result.stage == "right" else f"{result.stage}: {result.reason}"
