"""The demo on the emulator: output, files and MLflow runs."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.core.resources import resource_dir
from tests.builders.report_pages import run_data

SOURCE = resource_dir("experiments") / "softmax" / "softmax.hip"
ROUNDS = 1

pytestmark = pytest.mark.slow  # the demo, complete


@dataclass(frozen=True)
class Demo:
    """One finished run of the demo with few rows and one round."""

    printed: str
    directory: Path
    store: str

    @property
    def summary(self) -> dict[str, object]:
        summary: dict[str, object] = json.loads((self.directory / "optimize.json").read_text())
        return summary

    def runs(self) -> list[Run]:
        client = MlflowClient(tracking_uri=self.store)
        (experiment,) = [e for e in client.search_experiments() if e.name == "rocm-perf-lab"]
        return list(client.search_runs([experiment.experiment_id]))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    directory = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as environment:
        patch.chdir(directory)
        environment.setenv("COLUMNS", "80")
        environment.setenv("NO_COLOR", "1")
        environment.delenv("MLFLOW_TRACKING_URI", raising=False)
        with (directory / "printed.txt").open("w") as sink:
            patch.setattr("sys.stdout", sink)
            words = [
                "+experiment=softmax_optimize",
                "optimizer=greedy_unroll",
                "kernel.params.rows=64",
                "kernel.params.cols=4096",
                f"optimizer.max_iterations={ROUNDS}",
                "+target.timing.error.ratio=[{coverage:0.95,factor:1.001}]",
                "device.emulator.sample_seed=1",
                "optimizer.verification.seed=20261121",
            ]
            assert run_lab(words) == 0
    (run,) = (directory / "outputs").glob("*/*")
    return Demo((directory / "printed.txt").read_text(), run, f"sqlite:///{directory / 'mlflow.db'}")


def test_the_device_and_its_reason_are_printed(demo: Demo) -> None:
    assert demo.printed.startswith("device  emulator: ")


def test_every_time_is_labelled_measured_or_emulated(demo: Demo) -> None:
    before, ledger, after = re.split(r"^( *ledger.*\n(?: {2,}.*\n)*)", demo.printed, maxsplit=1, flags=re.MULTILINE)
    times = [line for line in (before + after).splitlines() if " us" in line]

    assert times
    assert all("emulated" in line for line in times)
    assert ledger.startswith("  ledger, times emulated  ")


def test_every_proposal_is_printed_step_by_step(demo: Demo) -> None:
    verdicts = demo.summary["verdicts"]

    assert isinstance(verdicts, list)
    assert len(verdicts) >= 5
    for word in ("guards", "compiled", "check", "verdict", "speed-up", "rolled back", "mlflow ui --backend-store-uri"):
        assert word in demo.printed


def test_the_seeds_and_the_final_comparison_are_recorded(demo: Demo) -> None:
    seeds, final = demo.summary["seeds"], demo.summary["final"]
    journal = json.loads((demo.directory / "journal.jsonl").read_text().splitlines()[0])["begin"]

    assert seeds == {"trials": journal["trial_seed"], "samples": journal["sample_seed"]}
    assert seeds["samples"] == 1
    assert final["confirmed"] is True  # type: ignore[index]
    assert demo.summary["power"] is None  # emulated times do not vary


def test_output_fits_the_terminal_except_paths_and_reasons(demo: Demo) -> None:
    tables = [line for line in demo.printed.splitlines() if line and line[0] in "┃│┡└┏┌├"]

    assert tables
    assert all(len(line) <= 80 for line in tables)


def test_the_best_gains_the_required_improvement(demo: Demo) -> None:
    summary = demo.summary
    accepted = [v for v in summary["verdicts"] if v["accepted"]]  # type: ignore[attr-defined]

    assert len(accepted) == ROUNDS
    assert accepted[0]["improvement"] >= 0.02
    assert summary["speedup"] == pytest.approx(
        summary["baseline"]["runtime_ms"] / accepted[0]["runtime_ms"]  # type: ignore[index]
    )


def test_the_source_is_unchanged_and_the_diff_leads_to_the_best(demo: Demo, tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path / "softmax.hip")
    diff = demo.directory / "best" / "softmax.hip.diff"

    subprocess.run(["patch", "-p1", "-i", str(diff)], cwd=tmp_path, check=True, capture_output=True)

    assert (tmp_path / "softmax.hip").read_text() == (demo.directory / "best" / "softmax.hip").read_text()
    assert "#pragma unroll" not in SOURCE.read_text()


def test_mlflow_has_a_parent_run_and_a_child_for_every_proposal(demo: Demo) -> None:
    runs = demo.runs()
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]

    assert len(parents) == 1
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    assert len(children) == len(demo.summary["verdicts"])  # type: ignore[arg-type]
    assert all(run.info.status == "FINISHED" for run in runs)
    assert parents[0].data.metrics["speedup"] == pytest.approx(demo.summary["speedup"])
    assert parents[0].data.tags["time_kind"] == "emulated"
    assert parents[0].data.params["optimizer.min_improvement"] == "0.02"


def test_a_measured_proposal_keeps_params_metrics_tags_and_artifacts(demo: Demo) -> None:
    accepted = next(run for run in demo.runs() if run.data.tags.get("verdict") == "accepted")
    artifacts = {a.path for a in MlflowClient(tracking_uri=demo.store).list_artifacts(accepted.info.run_id)}

    assert accepted.data.tags["parent_proposal"]
    assert accepted.data.tags["device"] == "emulator"
    assert accepted.data.tags["time_kind"] == "emulated"
    assert accepted.data.params["kernel.rows"] == "64"
    assert accepted.data.metrics["runtime_us"] > 0
    assert {
        "softmax.hip",
        "proposal.diff",
        "kernel.hsaco",
        "kernel.s",
        "profile.json",
        "roofline.json",
        "dag.json",
        "analysis.json",
        "run_results.db",
    } <= artifacts


def test_the_resolved_configuration_is_stored(demo: Demo) -> None:
    stored = json.loads((demo.directory / "config.json").read_text())

    assert stored["kernel"]["params"]["rows"] == 64
    assert stored["optimizer"]["min_improvement"] == 0.02


def test_the_report_shows_the_outcome(demo: Demo) -> None:
    page = run_data(demo.directory / "report.html")

    assert page["optimize"]["speedup"] == demo.summary["speedup"]
    assert page["time_kind"] == "emulated"
    assert page["optimize"]["baseline"]["proposal"] in page["proposals"]
