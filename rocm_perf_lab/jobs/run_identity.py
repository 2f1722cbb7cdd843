"""Identity of a run: its command and commit, and the names and tags that distinguish tracking runs."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import Document
from rocm_perf_lab.report.run_view import ORIGIN

if TYPE_CHECKING:
    from rocm_perf_lab.config.lab import LabConfig

_LONGEST_SHAPE = 80


class OriginDocument(Document):
    """`origin.json`: how a run was started, to repeat it."""

    command: str | None
    """Command line that repeats the run; null if `config/overrides.yaml` or the job stores it."""
    git_commit: str | None
    """Commit of the kernel's repository when the run started; null outside a repository."""


def write_origin(directory: Path, origin: OriginDocument) -> None:
    """Write `origin.json` into the directory of a run."""
    write_text(directory / ORIGIN, origin.model_dump_json(indent=2) + "\n")


def export_schema(directory: Path) -> Path:
    """Write the JSON Schema of `origin.json`, and return its path."""
    return write_schema(directory / "origin.schema.json", OriginDocument, "serialization")


def shape_of(config: LabConfig) -> str:
    """Return the parameters of the kernel, for example `rows=512 cols=1024`; long ones are cut."""
    shape = " ".join(f"{name}={value}" for name, value in config.kernel.params.items())
    return shape if len(shape) <= _LONGEST_SHAPE else f"{shape[: _LONGEST_SHAPE - 1]}…"


def run_name(job: str, config: LabConfig) -> str:
    """Return the name of a run, for example `profile softmax rows=512 cols=1024 on mi300x`, or `autotune app on mi300x`."""
    command = config.job.arguments.get("command")
    if isinstance(command, str) and command.split():
        return f"{job} {Path(command.split()[0]).name} on {config.target.name}"
    return " ".join(part for part in (job, config.kernel.name, shape_of(config), "on", config.target.name) if part)


def user_name() -> str:
    """Return the login name, or `unknown`, as in containers that run as a user without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
