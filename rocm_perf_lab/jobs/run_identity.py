"""Names and tags that tell tracking runs apart: kernel, shape, GPU, user."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.config.lab import LabConfig

_LONGEST_SHAPE = 80


def shape_of(config: LabConfig) -> str:
    """Return the parameters of the kernel, for example `rows=512 cols=1024`; long ones are cut."""
    shape = " ".join(f"{name}={value}" for name, value in config.kernel.params.items())
    return shape if len(shape) <= _LONGEST_SHAPE else f"{shape[: _LONGEST_SHAPE - 1]}…"


def run_name(job: str, config: LabConfig) -> str:
    """Return the name of a run, for example `profile softmax rows=512 cols=1024 on mi300x`."""
    return " ".join(part for part in (job, config.kernel.name, shape_of(config), "on", config.target.name) if part)


def user_name() -> str:
    """Return the login name, or `unknown`, as in containers that run as a user without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
