"""Invalid input is reported before a tracking run is created."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.cli.entry import run_lab

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = 'extern "C" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }\n'
KERNEL = """name: twice
source: twice.hip
entry: twice
params: {n: 64}
arguments:
  - {name: x, kind: buffer, dtype: f32, shape: [n]}
  - {name: y, kind: buffer, dtype: f32, shape: [n], access: out}
grid: [1]
block: [64]
"""
JOBS = ("profile", "autotune", "optimize", "replay_capture", "llm_prompt")


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of an experiment in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    directory = tmp_path / "experiments" / "twice"
    directory.mkdir(parents=True)
    (directory / "twice.hip").write_text(SOURCE)
    (directory / "kernel.yaml").write_text(KERNEL)
    (directory / "space.yaml").write_text("parameters:\n  n: [64, 128]\n")
    return directory


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that has to fail with 2 and without a tracking store; return its error."""
    code = run_lab(["kernel=twice", "device=emulator", *words])
    said = capsys.readouterr().err
    assert code == 2, said
    return said


@pytest.mark.parametrize("job", JOBS)
def test_a_missing_source(job: str, experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (experiment / "twice.hip").unlink()

    assert "source file does not exist" in refused(capsys, f"job={job}")
    assert not (experiment.parents[1] / "runs.db").exists()


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("reference", ["reference: check.py:twice", "reference: {y: 'check.py:twice'}"])
def test_a_missing_file_of_a_reference(job: str, reference: str, experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (experiment / "kernel.yaml").write_text(f"{KERNEL}{reference}\n")

    said = refused(capsys, f"job={job}")

    assert "kernel.reference" in said
    assert str(experiment / "check.py") in said
    assert not (experiment.parents[1] / "runs.db").exists()


def test_a_missing_file_of_an_initial_value(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (experiment / "kernel.yaml").write_text(KERNEL.replace("shape: [n]}", "shape: [n], init: {kind: file, path: x.npy}}", 1))

    assert "kernel.arguments x.init: the file does not exist" in refused(capsys, "job=profile")
    assert not (experiment.parents[1] / "runs.db").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("job=profile", "kernel.nme=x"), "unknown key 'kernel.nme'"),
        (("job=profile", "passes.roofline_csv=missing.csv"), "missing.csv"),
        (("job=profile", "device.check=race"), "device.check"),
        (("job=autotune", "space=null"), "space=none"),
        (("job=profile", "tracking.on_failure=ignore"), "choose error or warn"),
        (("job=autotune", "autotune.space=missing.yaml"), "missing.yaml"),
        (("job=autotune", "autotune.space=broken.yaml"), "broken.yaml"),
        (("job=autotune", "autotune.prior=missing.json"), "missing.json"),
        (("job=autotune", "autotune.prior=broken.yaml"), "broken.yaml"),
        (("--multirun", "job=profile", "autotune.space=broken.yaml"), "broken.yaml"),
        (("--multirun", "job=profile", "autotune.space=twice.yaml", "autotune.prior=missing.json"), "missing.json"),
        (("job=optimize", "optimizer.transforms=[{_target_: no.such.module}]"), "cannot import 'no.such.module'"),
    ],
)
def test_other_invalid_input(words: tuple[str, ...], message: str, experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (experiment.parents[1] / "broken.yaml").write_text("parameters: [")
    (experiment.parents[1] / "twice.yaml").write_text("parameters:\n  n: [64, 128]\n")

    assert message in refused(capsys, *words)
    assert not (experiment.parents[1] / "runs.db").exists()


@pytest.mark.parametrize("job", ["profile", "optimize", "autotune"])
def test_an_unreachable_server_is_one_error_soon(
    job: str, experiment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rocm_perf_lab.tracking.store._LONGEST_ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        start = time.monotonic()

        said = refused(capsys, f"job={job}")

    assert time.monotonic() - start < 60  # the defaults of MLflow repeat requests for minutes
    assert said.count("error:") == 1
    assert "the MLflow store cannot be used: no answer within 0.5 s" in said
