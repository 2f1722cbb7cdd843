"""`project.json`: origin of the source of a project, and its comparison with the captured code object."""

from __future__ import annotations

from typing import Literal

from rocm_perf_lab.core.models import StrictModel

NAME = "project.json"


class ProjectSource(StrictModel):
    """Source of a project; `origin` is the source of its compile command; `files` are relative to the project.

    `machine_code` compares the compiled kernel with the captured one: `identical`, `relocated` (only distances to data and
    functions differ), or `different`.
    """

    language: Literal["hip", "triton", "assembly"]
    origin: str
    original: str | None
    files: tuple[str, ...]
    defines: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    machine_code: Literal["identical", "relocated", "different"]


class ProjectDocument(StrictModel):
    """Result of `rocm-perf replay project`."""

    schema_version: Literal["1.0"] = "1.0"
    project: str
    capture: str
    kernel: str
    symbol: str
    name: str
    """Name of the kernel's description: `kernel=NAME` in the directory of the project."""
    architecture: str
    source: ProjectSource
    data_bytes: int
    """Size in bytes of captured buffers in the project; 0 if they exceed the limit."""
    notes: tuple[str, ...] = ()
