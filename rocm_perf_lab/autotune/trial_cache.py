"""What was measured once: by code object, launch, inputs, device and versions, so that nothing is measured twice.

Two configurations whose code objects and launches are equal are one entry, whatever their parameters are called. Line
tables do not count: only what a GPU loads.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.core.models import read_model, write_model
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.toolchain.elf_file import parse_elf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.device.protocol import Launch

_FORMAT = 1


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    runtime_ms: float | None = None
    details: dict[str, Any] = {}
    reason: str | None = None
    stage: str = "run"


class TrialCache:
    """Results below one directory, each in a file named after its key. A damaged entry is no entry."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, key: str) -> Measurement | Infeasible | None:
        """The result of that key, or None."""
        entry = read_model(self._directory / key, _Entry)
        if entry is None:
            return None
        if entry.runtime_ms is None:
            return Infeasible(entry.reason or "", stage=entry.stage)
        return Measurement(entry.runtime_ms, entry.details)

    def store(self, key: str, result: Measurement | Infeasible) -> None:
        """Keep a result."""
        if isinstance(result, Infeasible):
            entry = _Entry(reason=result.reason, stage=result.stage)
        else:
            entry = _Entry(runtime_ms=result.runtime_ms, details=result.details)
        write_model(self._directory / key, entry)


def launch_key(launch: Launch, **circumstances: Any) -> str:
    """What decides the result of a launch.

    Args:
        launch: Code, geometry and arguments with their content.
        circumstances: Device, versions, target, tolerances, how often is measured: plain data.
    """
    arguments = [
        [a.name, str(a.data.dtype), a.data.shape, a.written, a.is_set, hashlib.sha256(a.data.tobytes()).hexdigest()]
        if isinstance(a, BufferValue)
        else [a.name, a.encoded.hex()]
        for a in launch.arguments
    ]
    geometry = [launch.symbol, launch.geometry.work_items, launch.block, launch.dynamic_lds_bytes, launch.cooperative]
    variables = [[v.name, hashlib.sha256(v.data.tobytes()).hexdigest()] for v in launch.variables]
    return digest([_FORMAT, loaded_sha256(launch.code_object.data), geometry, arguments, variables, circumstances])


def loaded_sha256(code_object: bytes) -> str:
    """Of what a GPU loads: instructions, descriptors, constants, metadata; not of line tables."""
    file = parse_elf(code_object)
    found = hashlib.sha256()
    for section in file.sections:
        if section.is_loaded:
            found.update(f"{section.name} {section.address} {section.size}\0".encode() + file.content(section))
    return found.hexdigest()


def digest(content: Mapping[str, Any] | list[Any]) -> str:
    """Of plain data; equal for equal content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
