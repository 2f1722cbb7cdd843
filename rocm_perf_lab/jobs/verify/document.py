"""`verify --json`: versioned document with the verdict on one candidate, and its JSON Schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import Document, Part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME = "verify.json"
SCHEMA_FILE = "verify.schema.json"
Number = int | float | Literal["NaN", "Infinity", "-Infinity"]
JudgeVerdict = Literal["correct", "wrong", "refused"]
JudgeStage = Literal["compile", "guard", "build", "run", "gate", "verification", "coverage"]


class BrokenRule(Part):
    """Guard that rejected a candidate."""

    name: str
    detail: str


class VerifyEvidence(Part):
    """Finding of a stage. Fields that do not apply to the stage are null.

    For `gate` and `verification`: the trial with its shape (`params`) and type of inputs, and the worst element of an output.
    For `run` and `verification` of an application: the `command`; `element` counts lines or bytes from 0.
    """

    trial: str | None = None
    params: dict[str, int | float | str] | None = None
    scalars: dict[str, Number] | None = None
    """Scalar arguments whose values differ from those of the description."""
    inputs: str | None = None
    seed: int | None = None
    output: str | None = None
    element: tuple[int, ...] | None = None
    actual: Number | None = None
    expected: Number | None = None
    wrong_elements: int | None = None
    elements: int | None = None
    source_line: int | None = None
    """Line of the candidate that a memory check or the compiler reported."""
    guards: tuple[BrokenRule, ...] = ()
    command: tuple[str, ...] | None = None


class UntakenBranch(Part):
    """Branch of a correct candidate that was taken in no trial; `line` is null without debug information."""

    line: int | None
    source: str
    kind: str
    message: str


class VerifyDocument(Document):
    """Verdict on one candidate; `rocm-perf verify --json` prints one document per line, in the order of the options.

    `refused`: a compiler or a guard refused the candidate before its code ran. `wrong`: its code ran, and a memory check
    or a comparison found a defect. `correct`: no stage found a defect; `not_checked` lists the limits of this result.
    """

    verdict: JudgeVerdict
    stage: JudgeStage
    """Stage that determined the verdict; for `correct`, the last stage, `verification`."""
    reason: str
    evidence: VerifyEvidence
    candidate: str
    sha256: str
    kernel: str
    source: str
    """The unmodified source."""
    command: tuple[str, ...] | None = None
    """Command line of the application; null for a described kernel."""
    target: str
    architecture: str
    seed: int | None = None
    """Seed of the trials; `--seed` repeats them. Null for an application."""
    trials: int
    """Number of trials, or of command lines of an application, that the unmodified source supports."""
    tried: tuple[str, ...]
    """Summary of the trials, or of the command lines."""
    uncovered: tuple[UntakenBranch, ...] = ()
    assumptions: tuple[str, ...] = ()
    """Conditions on the launch under which the candidate is correct."""
    warnings: tuple[str, ...] = ()
    """Warnings of guards about this candidate."""
    notes: tuple[str, ...] = ()
    """Trials that the unmodified kernel does not support, checks that were not possible, and tolerances."""
    not_checked: tuple[str, ...] = ()
    isolation: str
    """Sandbox of the compiler, and of the process that ran the candidate."""

    def line(self) -> str:
        """Return the document as one line of JSON."""
        return self.model_dump_json()


def write_verdicts(path: Path, documents: Sequence[VerifyDocument]) -> None:
    """Write `verify.json`: a list with one document per evaluated candidate."""
    rows = [document.model_dump(mode="json") for document in documents]
    write_text(path, json.dumps(rows, indent=2) + "\n")


def export_schema(directory: Path) -> Path:
    """Write `verify.schema.json`, the schema of one document."""
    return write_schema(directory / SCHEMA_FILE, VerifyDocument, "serialization")
