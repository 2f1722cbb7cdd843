"""Option `hydra/sweeper=rocm_perf_lab` of every Hydra application."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class SweeperConfig:
    """Settings of the sweeper.

    With a space (autotune.space=FILE or space=NAME), --multirun of rocm-perf-lab searches it; without, it runs all combinations
    of a=1,2. In other applications --multirun searches the sweep overrides.
    """

    _target_: str = "hydra_plugins.rocm_perf_lab_plugins.sweeper.SpaceSweeper"
    slots: int | None = None
    """Number of concurrent jobs; None: the setting of the launcher (joblib: n_jobs, submitit: array_parallelism, basic: 1)."""
    gpus: list[Any] | None = None
    """GPU ids, assigned to the slots in turn; None: the GPUs of this machine, if jobs run on it."""
    n_trials: int | None = None
    """Other applications: number of jobs; None: all combinations, 50 at most."""
    n_jobs: int | None = None
    """Other applications: number of jobs that the launcher gets at a time; None: as many as it runs concurrently."""
    direction: str = "minimize"
    """Other applications: minimize or maximize the value that a job returns."""
    seed: int = 0
    storage: str | None = None
    study_name: str | None = None
    params: dict[str, str] = field(default_factory=dict)
    """Other applications: sweep overrides as in the sweepers of Hydra, `{x: "1,2,3"}`; those on the command line replace them."""
