"""The sweeper and the search path of the plugin in a Hydra application that is not rocm-perf-lab."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION = """
import os, signal
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    if config.x == 9:
        raise ValueError("nine")
    value = (config.x - 5) ** 2 + config.rate + config.store.cost - 3
    match config.get("outcome"):
        case "exit":
            raise SystemExit(3)
        case "nothing":
            return None
        case "killed" if config.x == 2 and not os.path.exists(config.marker):
            open(config.marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
    return value

if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True)
class Application:
    """An application with two options of the group `store`."""

    directory: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "app.py", *arguments]
        environment = {name: value for name, value in os.environ.items() if name != "HYDRA_FULL_ERROR"}
        return subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False, timeout=300
        )

    def sweep(self, *arguments: str) -> dict[str, Any]:
        self.run("--multirun", "hydra/sweeper=rocm_perf_lab", "hydra.sweep.dir=sweep", *arguments).check_returncode()
        content: dict[str, Any] = yaml.safe_load((self.directory / "sweep" / "optimization_results.yaml").read_text())
        return content


@pytest.fixture
def application(tmp_path: Path) -> Application:
    (tmp_path / "app.py").write_text(APPLICATION)
    store = tmp_path / "conf" / "store"
    store.mkdir(parents=True)
    (tmp_path / "conf" / "config.yaml").write_text("defaults: [store: a, _self_]\nx: 1\nrate: 0.5\n")
    (store / "a.yaml").write_text("cost: 0\n")
    (store / "b.yaml").write_text("cost: -1\n")
    return Application(tmp_path)


@pytest.mark.slow
def test_lists_and_groups_are_searched_and_failed_jobs_do_not_end_the_search(application: Application) -> None:
    found = application.sweep("x=range(1,12)", "store=a,b", "hydra.sweeper.n_trials=18")

    assert (found["best_params"], found["best_value"], found["trials"]) == ({"x": 5, "store": "b"}, -3.5, 18)


def test_all_combinations_are_run_if_they_are_few(application: Application) -> None:
    found = application.sweep("x=4,5,6", "hydra.sweeper.direction=maximize")

    assert (found["best_value"], found["trials"]) == (-1.5, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hydra.sweeper.direction=up"], "unknown direction 'up'"),
        (["hydra.sweeper.n_trials=0"], "n_trials is 0"),
        (["hydra.sweeper.n_jobs=0"], "n_jobs is 0"),
        (["hydra.sweeper.storage=nonsense"], "invalid storage URL: 'nonsense'"),
        (["rate=tag(log,interval(0,1))"], "the override 'rate=tag(log,interval(0,1))'"),
        (["rate=interval(1,0)"], "the override 'rate=interval(1,0)'"),
        (["store=a,absent"], "Could not find 'store/absent'"),
        (["rate=glob(*)"], "glob"),
    ],
)
def test_an_error_is_a_message_without_a_traceback(words: list[str], message: str, application: Application) -> None:
    refused = application.run("--multirun", "hydra/sweeper=rocm_perf_lab", "x=1,2", *words)

    assert refused.returncode == 1
    assert message in refused.stderr and "Traceback" not in refused.stderr
    assert not (application.directory / "multirun").exists()


def test_the_order_of_shuffled_values_has_no_meaning(application: Application) -> None:
    storage = "hydra.sweeper.storage=sqlite:///study.db"
    for count in (2, 6):
        found = application.sweep("x=shuffle(range(1,9))", storage, "hydra.sweeper.n_trials=" + str(count))

    assert (found["best_params"], found["trials"]) == ({"x": 5}, 8)


def test_values_that_python_regards_as_equal_are_all_run(application: Application) -> None:
    assert application.sweep("x=1,1.0,true", "+text='1',1")["trials"] == 6


def test_an_interval_of_one_value_is_run_once(application: Application) -> None:
    assert application.sweep("rate=interval(1,1)", "x=4,5")["trials"] == 2


def test_sweep_overrides_of_the_configuration_are_replaced_by_those_of_the_command_line(application: Application) -> None:
    config = application.directory / "conf" / "config.yaml"
    config.write_text(config.read_text() + 'hydra: {sweeper: {params: {x: "4,5", store: "a,b"}}}\n')

    assert application.sweep("x=6,7")["trials"] == 4


def test_keys_of_rocm_perf_lab_in_another_application_mean_nothing(application: Application) -> None:
    assert application.sweep("x=4,5", "+autotune=true", "+space={a: 1}", "+job=train")["trials"] == 2


def test_a_job_that_exits_is_a_failed_trial(application: Application) -> None:
    found = application.sweep("x=4,5", "+outcome=exit,fine")

    assert (found["best_params"], found["trials"]) == ({"x": 5, "+outcome": "fine"}, 4)


def test_jobs_that_return_nothing_end_the_sweep(application: Application) -> None:
    refused = application.run("--multirun", "hydra/sweeper=rocm_perf_lab", "x=range(1,30)", "+outcome=nothing")

    assert refused.returncode == 1
    assert "trial 2 returned None instead of a number" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_a_killed_sweep_continues_and_measures_the_killed_combination_again(launcher: str, application: Application) -> None:
    words = ["x=range(1,9)", f"hydra/launcher={launcher}", "+outcome=killed", "+marker=marker"]
    words += ["hydra.sweep.dir=sweep", "hydra.sweeper.storage=sqlite:///study.db", "hydra.sweeper.n_jobs=2"]
    killed = application.run("--multirun", "hydra/sweeper=rocm_perf_lab", *words)
    found = application.sweep(*words)

    assert killed.returncode == (-9 if launcher == "basic" else 1)
    assert launcher == "basic" or ("the launcher failed" in killed.stderr and "Traceback" not in killed.stderr)
    assert (found["best_params"]["x"], found["trials"]) == (5, 8)


@pytest.mark.parametrize(
    ("words", "message"),
    [(("x=2,3",), "x has other values in the study"), (("x=1,2", "hydra.sweeper.direction=maximize"), "does not maximize")],
)
def test_a_study_of_another_sweep_is_refused(words: tuple[str, ...], message: str, application: Application) -> None:
    storage = "hydra.sweeper.storage=sqlite:///study.db"
    application.sweep("x=1,2", storage)
    refused = application.run("--multirun", "hydra/sweeper=rocm_perf_lab", storage, *words)

    assert refused.returncode == 1
    assert message in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.slow
def test_intervals_are_searched_in_batches(application: Application) -> None:
    found = application.sweep(
        "rate=tag(log,interval(0.001,10))", "x=int(interval(1,8))", "hydra.sweeper.n_trials=24", "hydra.sweeper.n_jobs=4"
    )

    assert found["best_params"]["x"] == 5
    assert found["best_params"]["rate"] < 0.1
    assert sorted(path.name for path in (application.directory / "sweep").glob("[0-9]*")) == sorted(map(str, range(24)))


def test_the_search_path_of_another_application_is_its_own(application: Application) -> None:
    (application.directory / "experiments").mkdir()

    shown = application.run("--info", "searchpath").stdout

    assert "rocm-perf-lab" not in shown and "experiments" not in shown
