"""The space that a configuration names: `autotune.space`, else the group `space`, else the space.yaml of the kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.shapes import ShapeError
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.shaped_space import shaped_space
from rocm_perf_lab.autotune.spaces.space import Space, SpaceError
from rocm_perf_lab.autotune.spaces.space_files import read_space
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.autotune.shapes import WorkloadShape
    from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.autotune.spaces.space_description import SpaceDescription
    from rocm_perf_lab.config.lab import LabConfig

_SHIPPED = ("conf", "experiments")


def configured_space(config: LabConfig) -> Space:
    """Return the configured space.

    Raises:
        SpaceError: No space is configured, or it is contradictory.
        ExpressionError: A constraint cannot be evaluated.
    """
    found, where = _described(config)
    if isinstance(found, Space):
        return found
    return build_space(found.model_copy(update={"fixed": {**_read_params(config, found), **found.fixed}}), where=where)


def shaped(config: LabConfig, shapes: Sequence[WorkloadShape], *, where: str) -> tuple[ShapedSpace, Configuration | None]:
    """Return the joint space of the configured space and some shapes, and the configuration to measure first.

    Raises:
        SpaceError: No space is configured, or it is empty for a shape.
        ShapeError: The space varies a value of the shapes.
        ExpressionError: A constraint cannot be evaluated.
    """
    found, place = _described(config)

    def space_of(shape: WorkloadShape) -> Space:
        if isinstance(found, Space):
            return replace(found, fixed={**found.fixed, **shape.values}, defaults=None)
        if clash := sorted(shape.values.keys() & {*found.parameters, *found.derived}):
            raise ShapeError(f"the space varies {clash[0]}, a name of the shapes", where=where, hint="remove it from one of them")
        fixed = {**_read_params(config, found), **found.fixed, **shape.values}
        named = f"{place}, shape {shape.label}"
        return build_space(found.model_copy(update={"fixed": fixed, "defaults": {}}), where=named)

    start = found.defaults
    return shaped_space(shapes, space_of, where=where), dict(start) if start else None


def varied_names(config: LabConfig) -> tuple[str, ...]:
    """Return the names of the parameters that the configured space varies."""
    found, _ = _described(config)
    return found.names if isinstance(found, Space) else tuple(found.parameters)


def _described(config: LabConfig) -> tuple[SpaceDescription | Space, str]:
    """Return the configured space as it is described, and its origin."""
    if config.autotune.space is not None:
        path = find_space(config.autotune.space)
        return read_space(path), str(path)
    if config.space.parameters:
        return config.space, "space"
    own = config.kernel.directory / "space.yaml"
    if own.is_file():
        return read_space(own), str(own)
    raise SpaceError(
        "no search space is configured",
        where="autotune.space",
        hint="name a file (autotune.space=conf/space/gemm.yaml) or an option (space=gemm)",
    )


def _read_params(config: LabConfig, found: SpaceDescription) -> Configuration:
    """Return the parameters of the kernel that expressions of the space read, and that the space does not define."""
    if config.job.arguments.get("command"):
        return {}
    read = set(re.findall(r"\w+", " ".join((*found.derived.values(), *found.constraints))))
    own = {*found.parameters, *found.derived, *found.fixed}
    return {name: value for name, value in config.kernel.params.items() if name in read - own}


def find_space(path: Path) -> Path:
    """Return the file itself, or the installed file of that name."""
    if not path.is_absolute() and not path.is_file() and path.parts[0] in _SHIPPED:
        shipped = resource_dir(path.parts[0]).joinpath(*path.parts[1:])
        return shipped if shipped.is_file() else path
    return path
