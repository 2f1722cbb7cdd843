"""Rewrites by a model, end to end on the emulator: recorded answers, a live endpoint, an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mlflow import MlflowClient

from rocm_perf_lab.cli.entry import resume_run, run_lab
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.optimize.proposers.transcript import read_transcript
from tests.builders.chat_server import ChatServer, Fails, Says, chat_server

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME = "% less time"
"""In the reason of a measured source; tests of the closed loop check the numbers."""
NARROW = "+target.timing.error.ratio=[{coverage:0.95,factor:1.001}]"
"""Error band of a timing model that hardly errs, so that small differences are accepted."""
SEEDS = ("optimizer.verification.seed=20261121", "device.emulator.sample_seed=1")
SMALL = {"softmax": ["kernel.params.rows=64"], "histogram": []}
EXPECTED = {
    "softmax": [
        ("compile", "softmax.hip:18:69: expected ';' at end of declaration"),
        ("gate", "kernel softmax_kernel: load of 16 bytes"),
        ("verification", "output ["),
        ("measurement", "% more time"),
        ("accepted", TIME),
    ],
    "histogram": [
        ("compile", "histogram.hip:9:33: use of undeclared identifier 'WAVES'"),
        ("verification", "bins ["),
        ("guard", "state: keeps state: known (line 8)"),
        ("measurement", "% more time"),
        ("accepted", TIME),
    ],
}


@dataclass(frozen=True)
class Run:
    """A finished run."""

    directory: Path
    store: str

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads((self.directory / "optimize.json").read_text())
        return summary

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        return [("accepted" if v["accepted"] else v["stage"], v["reason"]) for v in self.summary["verdicts"]]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("llm")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{directory}/mlflow.db")
        patch.delenv("OPENAI_API_KEY", raising=False)
        yield directory


def optimize(workplace: Path, name: str, experiment: str, *words: str) -> Run:
    directory = workplace / name
    small = [*SMALL[experiment], NARROW, *SEEDS]
    given = [f"+experiment={experiment}_llm", *small, f"hydra.run.dir={directory}", "display=runtime", *words]
    assert run_lab(given) == 0
    return Run(directory, f"sqlite:///{workplace}/mlflow.db")


def apart_from_the_cache(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return verdicts without the field that depends on earlier builds of the same source."""
    return [{name: value for name, value in verdict.items() if not name.endswith("_cached")} for verdict in verdicts]


@pytest.fixture(scope="module")
def softmax(workplace: Path) -> Run:
    return optimize(workplace, "softmax", "softmax", "optimizer.proposer=recorded")


@pytest.fixture(scope="module")
def histogram(workplace: Path) -> Run:
    return optimize(workplace, "histogram", "histogram", "optimizer.proposer=recorded", "tracking=none")


@pytest.fixture(scope="module")
def gemm(workplace: Path) -> Run:
    directory = workplace / "gemm"
    assert run_lab(["+experiment=gemm_llm", *SEEDS, f"hydra.run.dir={directory}", "display=runtime"]) == 0
    return Run(directory, f"sqlite:///{workplace}/mlflow.db")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["softmax", "histogram"])
def test_recorded_answers_get_their_expected_verdicts(experiment: str, request: pytest.FixtureRequest) -> None:
    verdicts = request.getfixturevalue(experiment).verdicts

    assert [stage for stage, _ in verdicts] == [stage for stage, _ in EXPECTED[experiment]]
    unexpected = [
        reason for (_, reason), (_, expected) in zip(verdicts, EXPECTED[experiment], strict=True) if expected not in reason
    ]
    assert unexpected == []


@pytest.mark.slow
def test_a_replay_records_answers_and_conversations(softmax: Run) -> None:
    recorded = read_transcript(resource_dir("experiments") / "softmax" / "transcript.jsonl")
    replayed = read_transcript(softmax.directory / "transcript.jsonl")

    assert [call.answer for call in replayed] == [call.answer for call in recorded]
    assert [call.purpose for call in replayed] == ["propose", "repair", "repair", "propose", "repair"]
    assert "expected ';'" in replayed[1].conversation[-1].content  # compiler output
    gate = replayed[2].conversation[-1].content
    assert gate.startswith("This ran into an error, in the trial in brackets: ")
    assert "past the end of buffer 'input'" in gate
    assert "softmax.hip:18" in gate
    told = replayed[3].conversation[-1].content
    assert "rejected at gate" in told
    assert "rejected at verification" in told
    assert "## Hottest loop: softmax.hip:" in told
    assert "max_tokens" not in told
    assert replayed[4].conversation[-1].content.startswith("The results are correct, but it was not accepted: ")


@pytest.mark.slow
def test_a_recorded_evolution_of_the_matrix_product_ends_above_three_times_the_speed(gemm: Run) -> None:
    summary = gemm.summary
    stages = {verdict["stage"] for verdict in summary["verdicts"] if verdict["transform"] == "recorded"}

    assert summary["speedup"] >= 3
    assert summary["final"]["confirmed"] is True
    assert {"compile", "gate", "verification", "measurement"} <= stages
    assert {verdict["transform"] for verdict in summary["verdicts"]} > {"recorded"}  # transforms are in the same lineage
    assert summary["stop_reason"] == "the transcript has only 8 answers"
    assert summary["spending"]["calls"] == 8


@pytest.mark.slow
def test_mlflow_shows_the_lineage_as_a_tree_and_the_gain_beside_the_cost(gemm: Run) -> None:
    client = MlflowClient(tracking_uri=gemm.store)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    (root,) = [r for r in runs if r.data.tags.get("best_proposal") == gemm.summary["best"]["proposal"]]
    below = [r for r in runs if root.info.run_id in (r.data.tags.get("root_run"), r.data.tags.get("mlflow.parentRunId"))]
    by_proposal = {r.data.tags["proposal"]: r for r in below}

    for run in below:
        parent = by_proposal.get(run.data.tags["parent_proposal"], root)
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    curve = [point for point in client.get_metric_history(root.info.run_id, "speedup") if point.step > 0]  # 0: the result
    cost = client.get_metric_history(root.info.run_id, "llm_tokens_so_far")
    gains = [point.value for point in sorted(curve, key=lambda point: point.step)]
    assert gains == sorted(gains)
    assert gains[-1] >= 3
    assert {point.step for point in cost} <= {point.step for point in curve}


@pytest.mark.slow
def test_a_replay_is_deterministic(workplace: Path, softmax: Run) -> None:
    again = optimize(workplace, "again", "softmax", "optimizer.proposer=recorded", "tracking=none")

    assert {**again.summary, "verdicts": apart_from_the_cache(again.summary["verdicts"])} == {
        **softmax.summary,
        "verdicts": apart_from_the_cache(softmax.summary["verdicts"]),
    }
    assert (again.directory / "transcript.jsonl").read_bytes() == (softmax.directory / "transcript.jsonl").read_bytes()


@pytest.mark.slow
def test_the_winner_is_rebuilt_to_the_same_code_object(softmax: Run) -> None:
    rebuild = softmax.summary["rebuild"]

    assert rebuild["identical"] is True
    assert rebuild["measured"] == rebuild["rebuilt"]
    assert "-O3" in rebuild["command"]


@pytest.mark.slow
def test_the_report_names_the_comparison_of_a_deterministic_device(softmax: Run) -> None:
    assert softmax.summary["comparison"]["pairs"] == 1
    assert "error band of the timing model" in softmax.summary["comparison"]["method"]


@pytest.mark.slow
def test_mlflow_has_transcript_verdicts_and_cost(softmax: Run) -> None:
    client = MlflowClient(tracking_uri=softmax.store)
    (experiment,) = [e for e in client.search_experiments() if e.name == "rocm-perf-lab"]
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = [r for r in runs if r.data.tags.get("best_proposal") == softmax.summary["best"]["proposal"]]
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]

    assert "transcript.jsonl" in {a.path for a in client.list_artifacts(parent.info.run_id)}
    assert parent.data.metrics["llm_calls"] == 5
    assert parent.data.params["optimizer.proposer"] == "recorded"
    assert sorted(r.data.tags["verdict.stage"] for r in children) == sorted(
        ["compile", "gate", "verification", "measurement", "measurement"]
    )
    assert sum(r.data.tags["rolled_back"] == "true" for r in children) == 1


def live(server: ChatServer, *words: str) -> list[str]:
    llm = "optimizer.llm"
    return [f"{llm}.base_url={server.url}", f"{llm}.model=scripted", f"{llm}.first_wait_s=0", "tracking=none", *words]


def answers() -> list[str]:
    calls = read_transcript(resource_dir("experiments") / "softmax" / "transcript.jsonl")
    return [call.answer.text for call in calls if call.answer is not None]


@pytest.mark.slow
def test_a_live_endpoint_with_errors_gives_the_same_verdicts(workplace: Path, softmax: Run) -> None:
    first, *others = [Says(text, usage=(1000, 500)) for text in answers()]
    with chat_server([Fails(429), first, Fails(500), *others, Fails(401)]) as server:
        run = optimize(
            workplace, "live", "softmax", *live(server, "optimizer.llm.price_per_million_written=2", "optimizer.llm.max_cost=1")
        )

    assert run.verdicts == softmax.verdicts
    assert run.summary["stop_reason"].startswith("the model did not answer: ")
    given = [call.answer for call in read_transcript(run.directory / "transcript.jsonl") if call.answer is not None]
    assert [len(answer.failures) for answer in given] == [1, 1, 0, 0, 0]
    assert {answer.model for answer in given} == {"scripted"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param("", "the answer is empty", marks=pytest.mark.slow),
        ("Loops should be unrolled.", "the answer has no code block"),
        pytest.param("```\nint a;\n```\n```\nint b;\n```", "2 code blocks, but not the whole file", marks=pytest.mark.slow),
        ('```\n#include <hip/hip_runtime.h>\nextern "C" __global__ void other() {}\n```', "the kernel must keep its name"),
        pytest.param("```\n" + "x" * 1_000_000 + "\n```", "the answer is longer than 262,144 bytes", marks=pytest.mark.slow),
    ],
    ids=["nothing", "prose", "two blocks", "renamed", "megabyte"],
)
def test_an_answer_without_a_usable_source_is_rejected(workplace: Path, answer: str, reason: str) -> None:
    with chat_server([Says(answer)]) as server:
        words = live(server, "optimizer.llm.repairs=0", "optimizer.max_iterations=1", "kernel.params.rows=4")
        run = optimize(workplace, f"answer {len(answer)}", "softmax", *words)

    ((stage, said),) = run.verdicts
    assert (stage, said.startswith(reason)) == ("answer", True)
    assert run.summary["speedup"] == 1.0


def test_an_endpoint_that_never_answers_ends_the_run_with_an_error(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chat_server([Fails(503)]) as server:
        words = live(server, "optimizer.llm.max_retries=1", "kernel.params.rows=4", f"hydra.run.dir={workplace / 'down'}")
        code = run_lab(["+experiment=softmax_llm", "display=json", *words])

    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert "the model did not answer 2 times" in printed.err
    assert not (workplace / "down" / "optimize.json").exists()


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_same_result(workplace: Path, softmax: Run, capsys: pytest.CaptureFixture[str]) -> None:
    directory, store = workplace / "killed", f"sqlite:///{workplace}/killed.db"
    small = [*SMALL["softmax"], NARROW, *SEEDS]
    words = ["+experiment=softmax_llm", *small, "optimizer.proposer=recorded", f"hydra.run.dir={directory}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rocm_perf_lab", *words, f"tracking.uri={store}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    journal = directory / "journal.jsonl"
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b'{"verdict"') >= 3):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = journal.read_bytes()
    capsys.readouterr()

    resume_run(str(directory), display="json")

    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert apart_from_the_cache(verdicts) == apart_from_the_cache(softmax.summary["verdicts"])
    assert journal.read_bytes().startswith(before)
    runs = MlflowClient(tracking_uri=store).search_runs(["1"])
    finished = [r for r in runs if r.info.status == "FINISHED"]
    assert [r for r in runs if r.info.status == "RUNNING"] == []
    assert len([r for r in finished if "mlflow.parentRunId" not in r.data.tags]) == 1
    assert len([r for r in finished if "mlflow.parentRunId" in r.data.tags]) == 5
