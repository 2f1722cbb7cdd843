"""The part of the configuration that every run needs, including profiles of applications, which have no kernel and space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from rocm_perf_lab.config.errors import ConfigError, explain_validation_error, unknown_key
from rocm_perf_lab.core.components import Component, ComponentError, accepted_arguments, resolve
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.profiling.config import PassesConfig
from rocm_perf_lab.target.model import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.config.errors import Origins

    Model = TypeVar("Model", bound=BaseModel)


class RunConfig(StrictModel):
    """GPU, passes, job, tracking and display of a run."""

    target: Target
    passes: PassesConfig
    tracking: Component
    job: Component
    display: Literal["table", "json", "runtime", "none"] = "table"


def parse_run_config(composed: Mapping[str, Any], origins: Origins) -> RunConfig:
    """Validate the part of a composed configuration (plain data) that every run needs.

    Raises:
        ConfigError: The first wrong key or value, with its path, its origin and the nearest valid key.
    """
    config = validated(RunConfig, {name: composed[name] for name in RunConfig.model_fields if name in composed}, origins)
    for where, row in (("tracking", config.tracking), ("job", config.job)):
        check_component(row, where, origins)
    return config


def validated(model: type[Model], composed: Mapping[str, Any], origins: Origins) -> Model:
    """Validate plain data.

    Raises:
        ConfigError: The first wrong key or value, with its path, its origin and the nearest valid key.
    """
    try:
        return model.model_validate(composed)
    except ValidationError as error:
        raise explain_validation_error(error, model, origins) from error


def check_component(row: Component, where: str, origins: Origins) -> None:
    """Check that a component can be imported and accepts the arguments of its row.

    Raises:
        ConfigError: The component cannot be imported, or an argument is unknown.
    """
    try:
        accepted = accepted_arguments(resolve(row, where=where))
    except ComponentError as error:
        raise ConfigError(error.what, where=origins.describe(f"{where}._target_"), hint=error.hint) from error
    for name, value in row.arguments.items():
        if name not in accepted:
            raise unknown_key(f"{where}.{name}", accepted, origins)
        if isinstance(value, dict) and "_target_" in value:
            check_component(Component.model_validate(value), f"{where}.{name}", origins)
