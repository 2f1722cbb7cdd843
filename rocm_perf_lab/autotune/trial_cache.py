"""Cache of measurements, keyed by code object, launch, inputs, device and versions.

Configurations with equal code objects and launches share an entry. Only loaded sections of the code object count, not line
tables.
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
    """Directory with one file per result. Damaged files are ignored."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, key: str) -> Measurement | Infeasible | None:
        """Return the result for a key, or None."""
        entry = read_model(self._directory / key, _Entry)
        if entry is None:
            return None
        if entry.runtime_ms is None:
            return Infeasible(entry.reason or "", stage=entry.stage)
        return Measurement(entry.runtime_ms, entry.details)

    def store(self, key: str, result: Measurement | Infeasible) -> None:
        """Store a result."""
        if isinstance(result, Infeasible):
            entry = _Entry(reason=result.reason, stage=result.stage)
        else:
            entry = _Entry(runtime_ms=result.runtime_ms, details=result.details)
        write_model(self._directory / key, entry)


def launch_key(launch: Launch, **circumstances: Any) -> str:
    """Return the cache key of a launch.

    Args:
        launch: Code, geometry and arguments with their content.
        circumstances: Device, versions, target, tolerances, number of measurements, as plain data.
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
    """Return the SHA-256 of the loaded sections: instructions, descriptors, constants and metadata."""
    file = parse_elf(code_object)
    found = hashlib.sha256()
    for section in file.sections:
        if section.is_loaded:
            found.update(f"{section.name} {section.address} {section.size}\0".encode() + file.content(section))
    return found.hexdigest()


def digest(content: Mapping[str, Any] | list[Any]) -> str:
    """Return the SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
