"""Objects described in YAML: `_target_` names a class or function, the other keys are its keyword arguments.

Arguments are checked against the signature before the job runs, so that a misspelt key of a job, device, transform or guard is
reported like any other unknown key.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable


class ComponentError(LabError):
    """`_target_` that cannot be imported, or that rejects its arguments."""


class Component(BaseModel):
    """Row with a `_target_`; nested rows remain plain data until :func:`build`."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    target: str = Field(alias="_target_")

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the row."""
        return dict(self.model_extra or {})


def resolve(component: Component, *, where: str) -> Callable[..., Any]:
    """Import the class or function of a row.

    Raises:
        ComponentError: The module or the name does not exist.
    """
    module_name, _, attribute = component.target.rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError) as error:
        raise ComponentError(
            f"cannot import {component.target!r}: {error}",
            where=f"{where}._target_",
            hint="use a dotted Python path",
        ) from error


def accepted_arguments(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword arguments that a row may contain, by name; none are known of an object without a signature (`dict`)."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}
    return {name: p for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def build(component: Component, *, where: str, **context: Any) -> Any:
    """Instantiate a row.

    Args:
        component: The row.
        where: Key path of the row, for errors.
        context: Additional arguments (target, ...), passed if the signature accepts them and the row does not set them.

    Raises:
        ComponentError: A required argument is missing, or a value was rejected.
    """
    factory = resolve(component, where=where)
    accepted = accepted_arguments(factory)
    arguments = {name: _build_nested(value, f"{where}.{name}", context) for name, value in component.arguments.items()}
    arguments |= {name: value for name, value in context.items() if name in accepted and name not in arguments}
    missing = [n for n, p in accepted.items() if p.default is p.empty and n not in arguments]
    if missing:
        raise ComponentError(f"{component.target} needs {', '.join(missing)}", where=where, hint="add it to the YAML")
    try:
        return factory(**arguments)
    except (TypeError, ValueError) as error:
        raise ComponentError(f"{component.target} rejects its arguments: {error}", where=where) from error


def _build_nested(value: Any, where: str, context: dict[str, Any]) -> Any:
    if isinstance(value, dict) and "_target_" in value:
        return build(Component.model_validate(value), where=where, **context)
    if isinstance(value, list):
        return [_build_nested(item, f"{where}[{i}]", context) for i, item in enumerate(value)]
    return value
