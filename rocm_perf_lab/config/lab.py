"""The whole validated configuration: every job receives a :class:`LabConfig`, not types of Hydra or OmegaConf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from rocm_perf_lab.autotune.config import AutotuneConfig
from rocm_perf_lab.autotune.spaces.space_description import SpaceDescription
from rocm_perf_lab.config.run import RunConfig, check_component, validated
from rocm_perf_lab.core.components import Component
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.config import OptimizerConfig
from rocm_perf_lab.toolchain.config import ToolchainConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.config.errors import Origins


class LabConfig(RunConfig):
    """Composed configuration of a job."""

    device: Component
    kernel: KernelDescription
    autotune: AutotuneConfig
    space: SpaceDescription
    optimizer: OptimizerConfig
    toolchain: ToolchainConfig = ToolchainConfig()
    measure: Literal["run", "replay"] = "run"
    """How autotune and optimize measure candidates; set by `device.measure`."""

    @model_validator(mode="before")
    @classmethod
    def _take_measure(cls, composed: Any) -> Any:
        """Move `device.measure` out of the arguments of the device."""
        device = composed.get("device") if isinstance(composed, dict) else None
        if not isinstance(device, dict):
            return composed
        rows = {name: _without_measure(value) for name, value in _without_measure(device).items()}
        measure = {"measure": device["measure"]} if "measure" in device else {}
        return {**composed, "device": rows, **measure}


def _without_measure(row: Any) -> Any:
    return {name: value for name, value in row.items() if name != "measure"} if isinstance(row, dict) else row


def parse_config(composed: Mapping[str, Any], origins: Origins) -> LabConfig:
    """Validate a composed configuration (plain data).

    Raises:
        ConfigError: The first wrong key or value, with its path, its origin and the nearest valid key.
    """
    config = validated(LabConfig, composed, origins)
    _check_components(config, origins)
    return config


def _check_components(config: LabConfig, origins: Origins) -> None:
    rows = [("device", config.device), ("tracking", config.tracking), ("job", config.job)]
    rows += [("autotune.sampler", config.autotune.sampler)] if config.autotune.sampler else []
    rows += [(f"optimizer.transforms[{i}]", row) for i, row in enumerate(config.optimizer.transforms)]
    rows += [(f"optimizer.guards[{i}]", row) for i, row in enumerate(config.optimizer.guards)]
    for where, row in rows:
        check_component(row, where, origins)
