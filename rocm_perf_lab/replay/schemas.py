"""JSON Schemas of the documents that the replay commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.replay.comparison import ReplayComparison
from rocm_perf_lab.replay.dispatch_list import DispatchList
from rocm_perf_lab.replay.documents import CaptureInfo, CaptureReport, CaptureValidity, ReserveCheck
from rocm_perf_lab.replay.project.document import ProjectDocument
from rocm_perf_lab.replay.report import ReplayDocument, ReplayedPair

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

DOCUMENTS: dict[str, type[BaseModel]] = {
    "replay": ReplayDocument,
    "replay_job": ReplayedPair,
    "replay_list": DispatchList,
    "replay_capture": CaptureReport,
    "replay_info": CaptureInfo,
    "replay_verify": CaptureValidity,
    "replay_reserve_check": ReserveCheck,
    "replay_compare": ReplayComparison,
    "replay_project": ProjectDocument,
}
"""Models by name of the schema."""


def export_schemas(directory: Path) -> tuple[Path, ...]:
    """Write `<name>.schema.json` of each document, and return the paths."""
    return tuple(write_schema(directory / f"{name}.schema.json", model, "validation") for name, model in DOCUMENTS.items())
