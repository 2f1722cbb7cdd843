"""Sweeps and searches over a Slurm cluster of one node."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.builders.slurm import LocalSlurm, SlurmUnavailable, running_slurm
from tests.builders.sweep_place import BLOCKS, SweepPlace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ON_SLURM = ("hydra/launcher=submitit_slurm", "hydra.sweeper.slots=2", "hydra.launcher.signal_delay_s=15")
needs_submitit = pytest.mark.skipif(importlib.util.find_spec("submitit") is None, reason="submitit is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalSlurm]:
    try:
        with running_slurm() as slurm:
            yield slurm
    except SlurmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def place(tmp_path: Path, cluster: LocalSlurm) -> SweepPlace:
    place = SweepPlace(tmp_path)
    place.environment |= {name: cluster.environment[name] for name in ("PATH", "LD_LIBRARY_PATH", "SLURM_CONF")}
    place.environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), place.environment["PYTHONPATH"]])
    return place


@pytest.mark.slow
@needs_submitit
def test_a_cancelled_job_is_measured_once_more_and_one_at_its_time_limit_fails(place: SweepPlace, cluster: LocalSlurm) -> None:
    sweep = place.begin(*ON_SLURM, "hydra.launcher.timeout_min=1", "+job.hang=512", "+job.pause=8")
    try:
        cancelled = _running_job(place, other_than=512)
        cluster.call("scancel", str(cancelled["slurm"]))
        out, err = sweep.communicate(timeout=400)
    finally:
        sweep.kill()

    assert sweep.returncode == 0, err
    assert "2 slots" in out
    result, told = place.result(), place.told()
    assert result["best_config"]["parameters"] == {"block": 256}
    assert Counter(job["block"] for job in told) == Counter([*BLOCKS, cancelled["block"]])
    assert len({job["slurm"] for job in told}) == len(BLOCKS) + 1, "a job of Slurm per trial"
    reasons = {failure["parameters"]["block"]: failure["reason"] for failure in result["failures"]}
    assert reasons.pop(512) == "not finished within 1 min, the time limit of its Slurm job (hydra.launcher.timeout_min)"
    assert not reasons, "the cancelled one ran in another job"
    assert result["evaluated_configs"] == len(BLOCKS)


@pytest.mark.slow
@needs_submitit
def test_a_search_spreads_its_trials_over_slurm(place: SweepPlace) -> None:
    words = ["job=autotune", "kernel=vector_add", "kernel.params.n=64", "space=vector_add", "autotune.budget=3"]
    words += [*ON_SLURM, "device=emulator", "tracking=none", "hydra.sweep.dir=spread", "--multirun"]

    done = subprocess.run(
        [sys.executable, "-m", "rocm_perf_lab", *words],
        cwd=place.directory, env=place.environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    result = place.result("spread")
    assert (result["evaluated_configs"], result["infeasible_configs"]) == (3, 0)
    assert len({trial["details"]["directory"] for trial in result["trials"]}) == 3


@pytest.mark.slow
@needs_submitit
def test_a_refused_submission_ends_the_sweep_with_slurms_reason(place: SweepPlace) -> None:
    done = place.sweep(*ON_SLURM, "hydra.launcher.partition=elsewhere")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: sbatch refused the job of a trial") == 1
    assert "invalid partition specified: elsewhere" in done.stderr
    assert not place.told()


@needs_submitit
def test_a_machine_without_slurm_is_an_error(tmp_path: Path) -> None:
    place = SweepPlace(tmp_path)
    place.environment["PATH"] = "/nowhere"

    done = place.sweep(*ON_SLURM)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Slurm's commands are not on PATH: sbatch, srun, scancel, scontrol" in done.stderr


def _running_job(place: SweepPlace, other_than: int) -> dict[str, object]:
    """Return the record of a job that has just begun."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        for job in place.told():
            if job["block"] != other_than:
                return job
        time.sleep(0.2)
    raise AssertionError("no job has begun")
