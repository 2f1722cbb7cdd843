"""Earlier results named by `autotune.prior`: a landscape file, the directory of a run, a study, or an MLflow run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.landscape import load_landscape
from rocm_perf_lab.autotune.prior import Prior, PriorError
from rocm_perf_lab.autotune.storage import open_storage, storage_errors
from rocm_perf_lab.tracking.store import read_artifact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.autotune.space import Configuration, Space
    from rocm_perf_lab.config.lab import LabConfig

RESULT = "autotune.json"
STUDY = "study.db"
_MLFLOW, _STUDY = "mlflow:", "study:"
_FORMS = "a landscape file, the directory of an autotune run, study:NAME@URL, or mlflow:RUN_ID"


def configured_prior(config: LabConfig, space: Space) -> Prior | None:
    """Return the earlier results that the configuration names, or None.

    Raises:
        LabError: The results cannot be read, or share too few configurations with the space.
    """
    text = config.autotune.prior
    if text is None:
        return None
    if text.startswith(_MLFLOW):
        uri = config.tracking.arguments.get("uri")
        document = read_artifact(text.removeprefix(_MLFLOW), RESULT, uri=str(uri) if uri else None)
        return Prior.from_results(space, results_of(document, text), text)
    if text.startswith(_STUDY):
        name, at, url = text.removeprefix(_STUDY).partition("@")
        if not at:
            raise PriorError(f"{text!r} names no storage", where="autotune.prior", hint="write study:NAME@URL")
        return _of_study(space, url, name)
    return _of_path(space, Path(text))


def _of_path(space: Space, path: Path) -> Prior:
    result = path / RESULT if path.is_dir() else path
    if path.is_dir() and not result.is_file() and (path / STUDY).is_file():
        return _of_study(space, f"sqlite:///{(path / STUDY).absolute()}", None)
    if not result.is_file():
        raise PriorError("no earlier results found", where=str(path), hint=f"name {_FORMS}")
    if result.suffix == ".json" and '"trials"' in (text := result.read_text(encoding="utf-8", errors="replace")):
        return Prior.from_results(space, results_of(text, str(result)), str(result))
    return Prior.from_landscape(space, load_landscape(result))


def _of_study(space: Space, url: str, name: str | None) -> Prior:
    """Return the prior of a study by name; None: the only study of the storage."""
    import optuna

    with storage_errors(url):
        study = optuna.load_study(study_name=name, storage=open_storage(url, directory=Path()))
    return Prior.from_study(space, study)


def results_of(text: str, where: str) -> Iterator[tuple[Configuration, float]]:
    """Yield the configurations and times in ms of an autotune.json."""
    try:
        trials: list[dict[str, Any]] = json.loads(text)["trials"]
        for trial in trials:
            yield trial["parameters"], math.inf if trial["runtime_ms"] is None else float(trial["runtime_ms"])
    except (ValueError, KeyError, TypeError) as error:
        raise PriorError("not the result of an autotune run", where=where, hint=f"name {_FORMS}") from error
