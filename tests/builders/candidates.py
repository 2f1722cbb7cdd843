"""Checkers of candidates with the configured guards."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import yaml

from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.candidate import CandidateChecker
from rocm_perf_lab.toolchain.compilers import Compiler, find_compiler
from rocm_perf_lab.verify.policy import TrialPolicy, seeded
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.guards import Guard


_SEED = 20_261_121


@cache
def the_compiler() -> Compiler:
    """Return the first compiler found on this machine."""
    return find_compiler()


def described(directory: Path, **params: int) -> KernelDescription:
    """Return the kernel of a directory with other params."""
    data = yaml.safe_load((directory / "kernel.yaml").read_text())
    return KernelDescription.model_validate({**data, "directory": directory, "params": {**data["params"], **params}})


def configured_guards() -> list[Guard]:
    """Return the guards of `conf/optimizer/guards.yaml`."""
    rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "guards.yaml").read_text())["guards"]
    return [build(Component.model_validate(row), where="optimizer.guards", target=mi300x()) for row in rows]


def checker_of(description: KernelDescription, *, policy: TrialPolicy | None = None) -> CandidateChecker:
    """Return a checker that has recorded the unmodified kernel; without a seed in the policy, trials have a fixed one."""
    fixed = seeded(policy if policy is not None else TrialPolicy(), _SEED)
    return CandidateChecker(description, compiler=the_compiler(), target=mi300x(), guards=configured_guards(), policy=fixed)
