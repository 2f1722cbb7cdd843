"""The models of every config group. Hydra and OmegaConf types stop here: the lab sees :class:`LabConfig`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from rocm_perf_lab.autotune.space import SpaceDescription
from rocm_perf_lab.components import Component, ComponentError, accepted_arguments, resolve
from rocm_perf_lab.config_errors import ConfigError, explain_validation_error, unknown_key
from rocm_perf_lab.device.kernel import KernelDescription
from rocm_perf_lab.target.model import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.config_errors import Origins


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PassesConfig(_Strict):
    """What is collected, and how often a dispatch is repeated on a device whose times vary."""

    runs: PositiveInt = 10
    counters: tuple[str, ...] = ()
    helper_kernels: tuple[str, ...] = ()
    thread_trace: bool = False
    """Also trace single wavefronts, instruction by instruction."""
    roofline_csv: Path | None = None
    """Measured peaks of the GPU, as rocprof-compute writes them; the theoretical ones are taken without it."""
    plots: bool = True
    """The profile job draws roofline.png and roofline.html."""


class AutotuneConfig(_Strict):
    """How a space is searched."""

    space: Path | None = None
    budget: PositiveInt | None = None
    seed: NonNegativeInt = 0


class OptimizerConfig(_Strict):
    """Transforms, guards and the acceptance policy of the closed loop."""

    min_improvement: float = Field(0.02, ge=0, lt=1)
    max_iterations: PositiveInt = 10
    max_proposals: PositiveInt = 40
    transforms: tuple[Component, ...] = ()
    guards: tuple[Component, ...] = ()


class ToolchainConfig(_Strict):
    """Compilers in order of preference, and what every compilation gets."""

    compilers: tuple[str, ...] = ("hipcc", "clang", "pip")
    optimisation: str = "-O3"


class LabConfig(_Strict):
    """One composed configuration: everything that a job needs to know."""

    target: Target
    device: Component
    kernel: KernelDescription
    passes: PassesConfig
    autotune: AutotuneConfig
    space: SpaceDescription
    optimizer: OptimizerConfig
    tracking: Component
    job: Component
    toolchain: ToolchainConfig = ToolchainConfig()
    display: Literal["table", "json", "runtime"] = "table"


def parse_config(composed: Mapping[str, Any], origins: Origins) -> LabConfig:
    """Validate a composed configuration (plain data).

    Raises:
        ConfigError: The first wrong key or value, with its path, the nearest valid key and where it was written.
    """
    try:
        config = LabConfig.model_validate(composed)
    except ValidationError as error:
        raise explain_validation_error(error, LabConfig, origins) from error
    _check_components(config, origins)
    return config


def _check_components(config: LabConfig, origins: Origins) -> None:
    rows = [("device", config.device), ("tracking", config.tracking), ("job", config.job)]
    rows += [(f"optimizer.transforms[{i}]", row) for i, row in enumerate(config.optimizer.transforms)]
    rows += [(f"optimizer.guards[{i}]", row) for i, row in enumerate(config.optimizer.guards)]
    for where, row in rows:
        _check_component(row, where, origins)


def _check_component(row: Component, where: str, origins: Origins) -> None:
    try:
        accepted = accepted_arguments(resolve(row, where=where))
    except ComponentError as error:
        raise ConfigError(error.what, where=origins.describe(f"{where}._target_"), remedy=error.remedy) from error
    for name, value in row.arguments.items():
        if name not in accepted:
            raise unknown_key(f"{where}.{name}", accepted, origins)
        if isinstance(value, dict) and "_target_" in value:
            _check_component(Component.model_validate(value), f"{where}.{name}", origins)
