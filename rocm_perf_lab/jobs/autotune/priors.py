"""Earlier results that `autotune.prior` names: a landscape, the directory of a run, a study, an MLflow run, or the emulator."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.landscape import load_landscape
from rocm_perf_lab.autotune.prior import Prior, PriorError
from rocm_perf_lab.autotune.sampler import as_times
from rocm_perf_lab.autotune.storage import open_storage, storage_errors, without_password
from rocm_perf_lab.autotune.trials import TrialRecord, records
from rocm_perf_lab.core.expressions import ExpressionError
from rocm_perf_lab.jobs.autotune.emulated_prior import EMULATED, emulated_trials, note_if_unused, reduced_size
from rocm_perf_lab.tracking.store import read_artifact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocm_perf_lab.autotune.goals import Goals
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space
    from rocm_perf_lab.jobs.lab import Lab

RESULT = "autotune.json"
STUDY = "study.db"
_MLFLOW, _STUDY, _SQLITE = "mlflow:", "study:", "sqlite:///"
_FORMS = "a landscape file, the directory of an autotune run, study:NAME@URL, mlflow:RUN_ID, or emulated"


def configured_prior(lab: Lab, space: Space, goals: Goals | None = None) -> Prior | None:
    """Return the earlier results that the configuration names, or None.

    Args:
        lab: Configuration that names the results, and console.
        space: The search space.
        goals: Objective and limits of the search, with which earlier trials are evaluated; None for the time.

    Raises:
        LabError: The results cannot be read, lack a metric of the objective, or share too few configurations with the space.
    """
    config = lab.config
    text = config.autotune.prior
    note_if_unused(lab)
    if text is None:
        return None
    if text == EMULATED:
        return _prior(space, emulated_trials(lab, space), reduced_size(config), goals)
    if text.startswith(_MLFLOW):
        uri = config.tracking.arguments.get("uri")
        document = read_artifact(text.removeprefix(_MLFLOW), RESULT, uri=str(uri) if uri else None)
        return _prior(space, trials_of(document, text), text, goals)
    if text.startswith(_STUDY):
        name, at, url = text.removeprefix(_STUDY).partition("@")
        if not at:
            raise PriorError(f"{text!r} names no storage", where="autotune.prior", hint="write study:NAME@URL")
        return _of_study(space, url, name, goals)
    return _of_path(space, Path(text), goals)


def _of_path(space: Space, path: Path, goals: Goals | None) -> Prior:
    result = path / RESULT if path.is_dir() else path
    if path.is_dir() and not result.is_file() and (path / STUDY).is_file():
        return _of_study(space, f"sqlite:///{(path / STUDY).absolute()}", None, goals)
    if not result.is_file():
        raise PriorError("no earlier results found", where=str(path), hint=f"name {_FORMS}")
    if result.suffix == ".json" and '"trials"' in (text := result.read_text(encoding="utf-8", errors="replace")):
        return _prior(space, trials_of(text, str(result)), str(result), goals)
    landscape = load_landscape(result)
    if goals is None or goals.is_time:  # a landscape has no metrics, so limits do not apply
        return Prior.from_landscape(space, landscape)
    times = landscape.times_ms.tolist()
    trials = (
        _trial({"trial": row, "parameters": landscape.space.configuration(row), "runtime_ms": time if time < math.inf else None})
        for row, time in enumerate(times)
    )
    return _prior(space, trials, landscape.name, replace(goals, limits=()))


def _of_study(space: Space, url: str, name: str | None, goals: Goals | None) -> Prior:
    """Return the prior of a study by name; None: the only study of the storage."""
    import optuna

    file = Path(url.removeprefix(_SQLITE).partition("?")[0]) if url.startswith(_SQLITE) else None
    if file is not None and not file.is_file():
        raise PriorError("no storage of studies found", where=str(file), hint=f"name {_FORMS}")
    with storage_errors(url):
        storage = open_storage(url, directory=Path())
        names = optuna.get_all_study_names(storage)
        chosen = names[0] if name is None and len(names) == 1 else name
        if chosen is None or chosen not in names:
            found = ", ".join(names) or "none"
            what = f"there is no study {name!r}" if name is not None else "the storage has not exactly one study"
            raise PriorError(what, where=without_password(url), hint=f"studies there: {found}; write study:NAME@URL")
        study = optuna.load_study(study_name=chosen, storage=storage)
        trials = records(study, space)
    return _prior(space, trials, f"study {study.study_name}", goals)


def _prior(space: Space, trials: Iterable[TrialRecord], source: str, goals: Goals | None) -> Prior:
    known = [trial for trial in trials if space.index(trial.parameters) is not None]
    try:
        return Prior.from_results(space, _values(known, goals), source)
    except ExpressionError as error:
        raise PriorError(
            f"the earlier results lack a metric: {error.what}", where=source, hint="remove the prior, or the expression"
        ) from error


def _values(trials: Sequence[TrialRecord], goals: Goals | None) -> Iterator[tuple[Configuration, float]]:
    """Yield configurations with positive values to minimise, infinite for failures and trials beyond a limit."""
    if goals is None:
        yield from ((trial.parameters, math.inf if trial.runtime_ms is None else trial.runtime_ms) for trial in trials)
        return
    costs = goals.costs([goals.values(trial) for trial in trials])[:, 0]
    times = as_times(costs, maximised=goals.goals[0].maximise)
    yield from ((trial.parameters, float(time)) for trial, time in zip(trials, times, strict=True))


def trials_of(text: str, where: str) -> Iterator[TrialRecord]:
    """Yield the trials of an autotune.json.

    Raises:
        PriorError: The text is not the result of a search.
    """
    try:
        trials: list[dict[str, Any]] = json.loads(text)["trials"]
        for trial in trials:
            yield _trial(trial)
    except (ValueError, KeyError, TypeError) as error:
        raise PriorError("not the result of an autotune run", where=where, hint=f"name {_FORMS}") from error


def _trial(row: dict[str, Any]) -> TrialRecord:
    time = None if row["runtime_ms"] is None else float(row["runtime_ms"])
    return TrialRecord(row["trial"], row["parameters"], "", time, None, {}, None, None, row.get("details", {}))
