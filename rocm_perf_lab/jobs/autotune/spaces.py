"""The space that a configuration names: `autotune.space`, else the group `space`, else the space.yaml of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.enumeration import build_space
from rocm_perf_lab.autotune.space import SpaceError
from rocm_perf_lab.autotune.space_files import load_space
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.config.lab import LabConfig

_SHIPPED = ("conf", "experiments")


def configured_space(config: LabConfig) -> Space:
    """Return the configured space.

    Raises:
        SpaceError: No space is configured, or it is contradictory.
        ExpressionError: A constraint cannot be evaluated.
    """
    if config.autotune.space is not None:
        return load_space(find_space(config.autotune.space))
    if config.space.parameters:
        return build_space(config.space)
    own = config.kernel.directory / "space.yaml"
    if own.is_file():
        return load_space(own)
    raise SpaceError(
        "no search space is configured",
        where="autotune.space",
        hint="name a file (autotune.space=conf/space/gemm.yaml) or an option (space=gemm)",
    )


def find_space(path: Path) -> Path:
    """Return the file itself, or the installed file of that name."""
    if not path.is_absolute() and not path.is_file() and path.parts[0] in _SHIPPED:
        shipped = resource_dir(path.parts[0]).joinpath(*path.parts[1:])
        return shipped if shipped.is_file() else path
    return path
