"""Resumption of a search from the configuration and the study in the directory of its run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.storage import open_storage, storage_errors
from rocm_perf_lab.config.errors import Origins
from rocm_perf_lab.config.lab import parse_config
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.autotune.job import STUDY_FILE
from rocm_perf_lab.jobs.autotune.records import TRACKING_RUN
from rocm_perf_lab.jobs.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def resume(run: Path, changes: Mapping[str, Any]) -> None:
    """Continue the search of a run in its directory; finished trials are not repeated.

    Args:
        run: Directory of the run.
        changes: Dotted keys of the configuration, and their new values.

    Raises:
        LabError: The directory is not that of a search, or the search cannot continue.
    """
    content = _configuration(run)
    for key, value in changes.items():
        *parents, last = key.split(".")
        node = content
        for parent in parents:
            node = node[parent]
        node[last] = value
    config = parse_config(content, Origins(files={}, overrides=()))
    Lab.open(config, resolved=content, output_dir=run, resumed=True, tracking_run=_tracking_run(run)).run()


def _tracking_run(run: Path) -> str | None:
    """Return the tracking run of the search, or None if the study is not in the directory of the run."""
    import optuna

    if not (run / STUDY_FILE).is_file():
        return None
    storage = open_storage(None, directory=run)
    with storage_errors(str(run)):
        studies = optuna.get_all_study_summaries(storage)
    known: str | None = studies[0].user_attrs.get(TRACKING_RUN) if studies else None
    return known


def _configuration(run: Path) -> dict[str, Any]:
    hint = "name the directory of an autotune run (outputs/<date>/<time>-autotune-<kernel>)"
    path = run / "config.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        job = str(content["job"]["_target_"])
        storage = content["autotune"]["storage"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError("not the directory of a run", where=str(path), hint=hint) from error
    if not job.endswith(".AutotuneJob"):
        raise LabError("the run is not a search", where=f"{path}, job", hint=hint)
    if storage is None and not (run / STUDY_FILE).is_file():
        raise LabError("the run has no study: it ended before its first trial", where=str(run), hint="start a new run")
    return content
