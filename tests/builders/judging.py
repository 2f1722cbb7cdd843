"""Judges of kernels, with the guards of the configuration."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import yaml

from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.judge import Judge
from rocm_perf_lab.toolchain.compilers import Compiler, find_compiler
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.verify.policy import TrialPolicy


@cache
def the_compiler() -> Compiler:
    """The first compiler that this machine has."""
    return find_compiler()


def described(directory: Path, **params: int) -> KernelDescription:
    """The `kernel.yaml` of a directory, with other params."""
    data = yaml.safe_load((directory / "kernel.yaml").read_text())
    return KernelDescription.model_validate({**data, "directory": directory, "params": {**data["params"], **params}})


def configured_guards() -> list[Guard]:
    """Those of `conf/optimizer/guards.yaml`."""
    rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "guards.yaml").read_text())["guards"]
    return [build(Component.model_validate(row), where="optimizer.guards", target=mi300x()) for row in rows]


def judge_of(description: KernelDescription, *, policy: TrialPolicy | None = None) -> Judge:
    """A judge that has learned a kernel."""
    return Judge(description, compiler=the_compiler(), target=mi300x(), guards=configured_guards(), policy=policy)
