"""Concurrent sweeps of one study in separate processes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import optuna
import pytest

from rocm_perf_lab.autotune.storage import open_storage
from tests.builders.postgres import running_postgres, server_binaries
from tests.builders.sweep_place import SweepPlace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

BLOCKS = [64 * factor for factor in range(1, 11)]
TPE = "autotune.sampler={_target_: optuna.samplers.TPESampler, n_startup_trials: 4}"
without_postgres = pytest.mark.skipif(
    server_binaries() is None or importlib.util.find_spec("psycopg") is None, reason="no PostgreSQL server, or no psycopg"
)


def storage(kind: str, directory: Path) -> AbstractContextManager[str]:
    if kind == "postgresql":
        return running_postgres()
    return nullcontext({"sqlite": f"sqlite:///{directory}/shared.db", "journal": f"journal:///{directory}/shared.log"}[kind])


@contextmanager
def two_sweeps(place: SweepPlace, *words: str) -> Iterator[None]:
    processes = [place.begin(*words, f"hydra.sweep.dir={name}") for name in ("a", "b")]
    try:
        for process in processes:
            _, err = process.communicate(timeout=400)
            assert process.returncode == 0, err
        yield
    finally:
        for process in processes:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        pytest.param("postgresql", "autotune.seed=1", marks=without_postgres, id="postgresql-own"),
        pytest.param("postgresql", TPE, marks=without_postgres, id="postgresql-tpe"),
        pytest.param("sqlite", TPE, id="sqlite-tpe"),
        pytest.param("journal", "autotune.seed=1", id="journal-own"),
    ],
)
def test_two_processes_share_a_study_without_a_duplicated_trial(kind: str, sampler: str, tmp_path: Path) -> None:
    place = SweepPlace(tmp_path, BLOCKS)
    with (
        storage(kind, tmp_path) as url,
        two_sweeps(
            place,
            sampler,
            f"autotune.storage={url}",
            "autotune.study=shared",
            "+job.pause=0.2",
            "+job.meet=2",
            "autotune.budget=10",
        ),
    ):
        study = optuna.load_study(study_name="shared", storage=open_storage(url, directory=tmp_path))
        trials, best = study.get_trials(), study.best_params

    measured = Counter(trial.params["block"] for trial in trials if trial.params)
    assert measured == Counter(BLOCKS)
    assert best == {"block": 256}
    ran = {name: [job["block"] for job in place.told(name)] for name in ("a", "b")}
    assert Counter(ran["a"]) + Counter(ran["b"]) == Counter(BLOCKS)
    assert ran["a"] and ran["b"], "both took part"
