"""Execution counts of the instructions of a kernel, as counted by the emulator, in a file next to a run.

`counts_document` writes and `read_counts` reads `instruction_counts.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


COUNTS_NAME = "instruction_counts.json"
_WAVE_LANES = 64


class CountsError(LabError):
    """Counts that cannot be read, or are of another kernel."""


@dataclass(frozen=True)
class ExecutionCount:
    """Execution count of one instruction, by its address in the code object.

    `executions` is the exact number of wavefronts. `active_lanes` is the mean over the vector ALU instructions of its basic
    block; None if the block has none or was not executed.
    """

    address: int
    executions: int
    active_lanes: float | None


class CountRow(BaseModel):
    """One instruction in instruction_counts.json."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    address: NonNegativeInt
    executions: NonNegativeInt
    active_lanes: Annotated[float, Field(ge=0, le=_WAVE_LANES)] | None


class CountsDocument(BaseModel):
    """instruction_counts.json."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal["1.0"] = "1.0"
    symbol: str
    code_object_sha256: str
    instructions: tuple[CountRow, ...]


def counts_document(symbol: str, code_object_sha256: str, counts: Sequence[ExecutionCount]) -> str:
    """Return the text of instruction_counts.json."""
    document = {
        "schema_version": "1.0",
        "symbol": symbol,
        "code_object_sha256": code_object_sha256,
        "instructions": [vars(count) for count in counts],
    }
    return json.dumps(document, indent=1) + "\n"


def read_counts(path: Path) -> CountsDocument:
    """Read the instruction counts of a run.

    Args:
        path: Directory of the run, a database in it, or instruction_counts.json itself.

    Raises:
        CountsError: The file is missing or damaged.
    """
    file = path / COUNTS_NAME if path.is_dir() else path if path.suffix == ".json" else path.with_name(COUNTS_NAME)
    try:
        return CountsDocument.model_validate_json(file.read_bytes())
    except OSError as error:
        raise CountsError(
            f"cannot read instruction counts: {error.strerror}",
            where=str(file),
            hint="create them with rocm-perf emulate ... --output DIR, then pass DIR",
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the top level"
        raise CountsError(
            f"this is not a valid {COUNTS_NAME}: {first['msg']} at {key}", where=str(file), hint="emulate the kernel again"
        ) from error
