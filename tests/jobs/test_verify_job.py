"""`job=verify`: kernels in Triton, tracking, and verdicts that survive an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.core.resources import resource_dir
from tests.builders.command import rocm_perf
from tests.builders.verify_place import VerifyPlace

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.candidate import CandidateResult

TRITON = resource_dir("experiments") / "softmax_triton" / "kernel.py"


@pytest.mark.slow
def test_triton_candidates_pass_trials_without_guards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TRITON.read_text()
    candidates = {
        "right.py": text.replace("numerator / tl.sum(numerator, axis=0)", "numerator * (1.0 / tl.sum(numerator, axis=0))"),
        "wrong.py": text.replace("x - tl.max(x, axis=0)", "x - tl.max(x, axis=0) + 0.5 * row"),
        "maskless.py": text.replace(", mask=mask)\n", ")\n"),
        "broken.py": text.replace("tl.exp(", "tl.expo("),
    }
    options = []
    for name, content in candidates.items():
        assert content != text
        Path(name).write_text(content)
        options += ["--candidate", name]

    answer = rocm_perf("verify", "kernel=softmax_triton", "kernel.params.rows=8", *options, "--json", "--seed", "1")

    documents = [json.loads(line) for line in answer.out.splitlines()]
    found = {d["candidate"]: (d["verdict"], d["stage"]) for d in documents}
    assert answer.code == 1, answer.err
    assert found["right.py"] == ("correct", "verification"), documents[0]["reason"]
    assert found["maskless.py"][0] == "wrong"
    assert found["broken.py"] == ("refused", "compile")
    assert any(text.startswith("guards: they parse HIP") for text in documents[0]["not_checked"])


@pytest.mark.slow
def test_finished_verdicts_survive_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocm_perf_lab.optimize.candidate import CandidateChecker

    monkeypatch.chdir(tmp_path)
    place = VerifyPlace.made(tmp_path)
    right, wrong = place.candidate("right"), place.candidate("wrong")
    check = CandidateChecker.check
    calls: list[Path] = []

    def interrupted(self: CandidateChecker, source: Path) -> CandidateResult:
        calls.append(source)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return check(self, source)

    monkeypatch.setattr(CandidateChecker, "check", interrupted)

    answer = rocm_perf("verify", "kernel=scale", "--candidate", right, "--candidate", wrong, "--output", "run")

    assert answer.code == 130
    documents: list[Any] = json.loads(Path("run/verify.json").read_text())
    assert [(d["candidate"], d["verdict"]) for d in documents] == [("right.hip", "correct")]


@pytest.mark.slow
def test_a_run_is_tracked_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    place = VerifyPlace.made(tmp_path)
    place.candidate("right")

    answer = rocm_perf(
        "verify", "kernel=scale", "tracking=mlflow", "tracking.uri=sqlite:///runs.db", "--candidate", "right.hip", "--seed", "9"
    )

    assert answer.code == 0, answer.err
    client = MlflowClient("sqlite:///runs.db")
    (experiment,) = client.search_experiments(filter_string="name = 'rocm-perf-lab'")
    runs = {run.data.tags["mlflow.runName"]: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"verify scale n=1000 block=64 on mi300x", "right.hip"}
    assert runs["verify scale n=1000 block=64 on mi300x"].data.metrics == {"correct": 1.0, "wrong": 0.0, "refused": 0.0}
    assert runs["right.hip"].data.tags["verdict"] == "correct"
    assert runs["right.hip"].data.params["seed"] == "9"
