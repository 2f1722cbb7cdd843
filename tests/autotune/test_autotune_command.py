"""`rocm-perf autotune` on commands: programs timed by their output, under the profiler, or by wall-clock time."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import optuna
import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main
from tests.builders.processes import PATIENCE_S, comes_true
from tests.builders.workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
SCHEMA = REPOSITORY / "docs" / "schemas" / "autotune.schema.json"
SPACE = [{"BLOCK_M": m, "BLOCK_N": n} for m in (16, 32, 64) for n in (16, 32, 64)]
BOWL = """#!{python}
import sys
m, n = (int(word) for word in sys.argv[1:3])
{body}
print("warm-up: time 99 ms")
print(f"time {{1 + abs(m - 32) / 16 + abs(n - 64) / 32:.3f}} ms")
"""
PRINTED = ("--time-regex", r"time ([\w.+]+) ms")


class Directory:
    """Working directory with a space, and a program that is fastest at 32 x 64 with 1 ms."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.space = path / "search_space.json"
        self.space.write_text(json.dumps(SPACE))
        self.run_dir = path / "run"

    def program(self, body: str = "") -> str:
        path = self.path / "kernel"
        path.write_text(BOWL.format(python=sys.executable, body=body))
        path.chmod(0o755)
        return f"{shlex.quote(str(path))} {{BLOCK_M}} {{BLOCK_N}}"

    def arguments(self, template: str, *more: str) -> list[str]:
        return ["autotune", "--space", str(self.space), "--cmd-template", template, "--output", str(self.run_dir), *more]

    def tune(self, template: str, *more: str) -> Any:
        return CliRunner().invoke(main, [*self.arguments(template, *more), "tracking=none"], catch_exceptions=False)

    def result(self) -> Any:
        content = json.loads((self.run_dir / "autotune.json").read_text())
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)
        return content


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    monkeypatch.chdir(tmp_path)
    return Directory(tmp_path)


def test_the_fastest_configuration_by_printed_times(directory: Directory) -> None:
    answer = directory.tune(directory.program(), *PRINTED, "--json", "--runs", "1")

    assert answer.exit_code == 0, answer.output
    result = json.loads(answer.stdout)
    assert result == directory.result()
    assert result["best_config"] == {"parameters": {"BLOCK_M": 32, "BLOCK_N": 64}, "runtime_ms": 1.0, "expected_ms": None}
    assert (result["search_space_size"], result["evaluated_configs"]) == (9, 9)
    assert result["timing"].startswith("time that the command prints, in ms")
    assert result["model"]["name"] == "gaussian_process"
    assert result["phases"]["seed"] > 1 and sum(result["phases"].values()) == 9
    assert result["warning"] in (None, "low_model_confidence")
    assert (directory.run_dir / "report.html").is_file()


def test_times_below_a_nanosecond_keep_their_differences(directory: Directory) -> None:
    body = "print(f'time {(1 + (m - 32) ** 2 + (n - 64) ** 2) * 1e-9} ms'); sys.exit()"

    answer = directory.tune(directory.program(body), "--time-regex", r"time (\S+) ms", "--runs", "1")

    assert answer.exit_code == 0, answer.output
    best = directory.result()["best_config"]
    assert best == {"parameters": {"BLOCK_M": 32, "BLOCK_N": 64}, "runtime_ms": 1e-9, "expected_ms": None}
    assert "0.001 ns measured" in answer.stdout


def test_the_budget_limits_evaluations_and_equal_seeds_measure_equal_configurations(directory: Directory) -> None:
    template = directory.program()
    directory.tune(template, *PRINTED, "--budget", "4", "--seed", "3", "--runs", "1")
    first = [trial["parameters"] for trial in directory.result()["trials"]]
    directory.run_dir = directory.path / "again"
    directory.tune(template, *PRINTED, "--budget", "4", "--seed", "3", "--runs", "1")

    assert len(first) == 4
    assert [trial["parameters"] for trial in directory.result()["trials"]] == first


def test_a_budget_larger_than_the_space_measures_the_space(directory: Directory) -> None:
    answer = directory.tune(directory.program(), *PRINTED, "--budget", "50", "--runs", "1")

    assert answer.exit_code == 0
    assert "the budget of 50 exceeds the space: all 9 are evaluated" in " ".join(answer.stdout.split())
    assert directory.result()["evaluated_configs"] == 9


def test_without_a_profiler_wall_clock_time_is_used_and_reported(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))

    answer = directory.tune(
        directory.program("import time; time.sleep(m / 200)"), "--budget", "2", "--runs", "2", "autotune.max_races=0"
    )

    assert answer.exit_code == 0, answer.output
    result = directory.result()
    assert result["timing"] == "wall-clock time of the whole process (rocprofv3 is not on PATH); no kernel is timed"
    assert result["time_kind"] == "measured"
    for trial in result["trials"]:
        assert trial["runtime_ms"] > 1000 * trial["parameters"]["BLOCK_M"] / 200


@pytest.mark.slow
def test_a_profiled_command_is_timed_by_its_kernel(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Workplace(directory.path)
    place.profiler()
    monkeypatch.setenv("PATH", f"{directory.path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    application = place.application('launch("vector_add", n=256 * int(sys.argv[1]))\nlaunch("softmax", rows=4)')
    directory.space.write_text(json.dumps([{"SIZE": 1}, {"SIZE": 4096}]))

    answer = directory.tune(f"{shlex.quote(str(application))} {{SIZE}}", "--kernel", "vector_add")

    assert answer.exit_code == 0, answer.output
    result = directory.result()
    assert result["timing"].startswith("dispatches of the kernel matching 'vector_add', under rocprofv3")
    assert result["time_kind"] == "emulated"  # as recorded by the fake profiler
    assert result["best_config"]["parameters"] == {"SIZE": 1}


def test_configurations_for_which_the_command_fails_are_infeasible(directory: Directory) -> None:
    answer = directory.tune(directory.program("if m == 32: sys.exit('out of registers')"), *PRINTED, "--runs", "1")

    assert answer.exit_code == 0, answer.output
    result = directory.result()
    assert result["best_config"]["parameters"]["BLOCK_M"] != 32
    assert (result["evaluated_configs"], result["infeasible_configs"]) == (9, 3)
    assert {failure["reason"] for failure in result["failures"]} == {"ended with exit code 1: out of registers"}


def test_a_command_that_always_fails_is_an_error_with_reasons(directory: Directory) -> None:
    answer = directory.tune(directory.program("sys.exit(f'no device for {m}')"), *PRINTED)

    assert answer.exit_code == 2
    assert "all 9 configurations that were tried failed" in answer.stderr
    assert "3 x ended with exit code 1: no device for 16" in answer.stderr
    assert directory.result()["best_config"] is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import time; time.sleep(600)", "takes more than 0.5 s"),
        ("print('nothing'); sys.exit()", "no line of its output matches"),
        ("print('time -1 ms'); sys.exit()", "no line of its output matches"),
        ("print('time 0 ms'); sys.exit()", "prints a time of 0 ms"),
        ("print('time nan ms'); sys.exit()", "prints a time of nan ms"),
        ("print('time inf ms'); sys.exit()", "prints a time of inf ms"),
        ("print('time 3.4e38 ms'); sys.exit()", "prints a time of 3.4e+38 ms"),
        ("print('time 1.2.3 ms'); sys.exit()", "prints '1.2.3', which is not a time"),
        ("import os; os.kill(os.getpid(), 11)", "was killed by signal 11"),
    ],
)
def test_the_reason_describes_the_failure_of_a_command(directory: Directory, body: str, reason: str) -> None:
    directory.space.write_text(json.dumps(SPACE[:1]))

    answer = directory.tune(directory.program(body), *PRINTED, "--timeout", "0.5" if "sleep" in body else "300")

    assert answer.exit_code == 2
    assert reason in answer.stderr


@pytest.mark.parametrize(
    ("template", "options", "message"),
    [
        ("./kernel --bm {BLOCK_X}", (), "the template has the placeholder {BLOCK_X}, which the space does not have"),
        ("./kernel --bm {BLOCK_M.real}", (), "the template has the placeholder {BLOCK_M.real}"),
        ("./kernel --bm {}", (), "the template has the placeholder {}"),
        ("./kernel --bm {BLOCK_M", (), "the command template cannot be read"),
        ("./kernel 'unbalanced", (), "the command template cannot be read"),
        (" ", (), "the command template is empty"),
        ("./kernel {BLOCK_M}", ("--time-regex", "("), "invalid regular expression"),
        ("./kernel {BLOCK_M}", ("--time-regex", "time"), "has 0 groups"),
        ("./kernel {BLOCK_M}", ("--timing", "printed"), "printed times need a pattern"),
        ("./kernel {BLOCK_M}", ("--timing", "rocprof"), "rocprofv3 is not on PATH"),
    ],
)
def test_an_invalid_template_or_option_is_an_error_before_any_run(
    directory: Directory, template: str, options: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))

    answer = directory.tune(template, *options)

    assert answer.exit_code == 2
    assert message in answer.stderr
    assert not (directory.run_dir / "study.db").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- [", "cannot read the space: while parsing"),
        ("just text", "neither a YAML mapping nor a JSON list of configurations"),
        ("[]", "an empty list of configurations"),
        ("parameters: {BLOCK_M: [1]}\nconstraints: [BLOCK_K > 1]", "BLOCK_K"),
        ("parameters: {BLOCK_M: [1]}\nconstraints: ['__import__(\"os\").getcwd() == 1']", "constraints[0]"),
        ("parameters: {BLOCK_M: [1, 2]}\nconstraints: [BLOCK_M > 2]", "BLOCK_M > 2"),
    ],
)
def test_an_invalid_space_is_reported_with_its_file(directory: Directory, content: str, message: str) -> None:
    directory.space.write_text(content)

    answer = directory.tune("./kernel {BLOCK_M}")

    assert answer.exit_code == 2
    assert message in answer.stderr
    assert "search_space.json" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no kernel, command or run to tune"),
        (("--cmd-template", "./kernel {X}"), "a command needs a space"),
        (("kernel=softmax", "--kernel", "x"), "--kernel applies to commands only"),
        (("--resume", "nowhere"), "not the directory of a run"),
        (("--resume", ".", "--seed", "1"), "--seed cannot change in a resumed run"),
        (("kernel=softmax", "tracking=none", "device=emulator"), "no search space is configured"),
        (("kernel=softmax", "--space", "missing.yaml", "tracking=none"), "missing.yaml"),
    ],
)
def test_invalid_combinations_of_arguments(directory: Directory, arguments: tuple[str, ...], message: str) -> None:
    answer = CliRunner().invoke(main, ["autotune", *arguments], catch_exceptions=False)

    assert answer.exit_code == 2
    assert message in answer.stderr


def started(directory: Directory, template: str) -> subprocess.Popen[bytes]:
    """Start the command in a separate process that handles SIGINT even if the tests run in the background."""
    arguments = [*directory.arguments(template, *PRINTED, "--runs", "1"), "tracking=none"]
    begin = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{begin}; sys.path.insert(0, {str(REPOSITORY)!r}); from rocm_perf_lab.cli import main; main({arguments!r})"
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=directory.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def calls(directory: Directory) -> list[str]:
    path = directory.path / "calls"
    return path.read_text().splitlines() if path.exists() else []


RECORDING = "open('calls', 'a').write(f'{m}x{n}\\n'); import time; time.sleep(0.2)"


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_search_resumes_without_repeating_measurements(directory: Directory, sign: signal.Signals) -> None:
    process = started(directory, directory.program(RECORDING))
    assert comes_true(lambda: len(calls(directory)) >= 3)
    process.send_signal(sign)
    assert process.wait(PATIENCE_S) == (-sign if sign == signal.SIGKILL else 130)
    done = len(calls(directory)) - 1  # the last one was running
    if sign == signal.SIGINT:
        assert directory.result()["evaluated_configs"] == done
        assert directory.result()["stop_reason"] == "interrupted"

    answer = CliRunner().invoke(main, ["autotune", "--resume", str(directory.run_dir), "--json"], catch_exceptions=False)

    assert answer.exit_code == 0, answer.output
    result = json.loads(answer.stdout)
    assert result["evaluated_configs"] == 9
    assert result["best_config"]["parameters"] == {"BLOCK_M": 32, "BLOCK_N": 64}
    assert len(calls(directory)) - len(set(calls(directory))) <= 1  # only the running trial is repeated
    assert len(set(calls(directory))) == 9


def failing_store(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Let the MLflow client fail from that run on, as if its server were unreachable."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    created, create = itertools.count(), MlflowClient.create_run

    def refuse(*_: Any, **__: Any) -> Any:
        raise MlflowException("connection refused")

    def counted(*args: Any, **options: Any) -> Any:
        if next(created) >= after:
            for name in ("create_run", "log_batch", "log_artifact", "set_terminated", "search_runs", "get_experiment_by_name"):
                monkeypatch.setattr(MlflowClient, name, refuse)
            refuse()
        return create(*args, **options)

    monkeypatch.setattr(MlflowClient, "create_run", counted)


def test_the_search_continues_if_the_store_fails(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing_store(monkeypatch, after=3)  # the search, two trials
    arguments = directory.arguments(
        directory.program(RECORDING), *PRINTED, "--runs", "1", "--budget", "5", f"tracking.uri=sqlite:///{directory.path}/m.db"
    )

    answer = CliRunner().invoke(main, arguments, catch_exceptions=False)

    assert answer.exit_code == 0, answer.output
    assert directory.result()["evaluated_configs"] == len(calls(directory)) == 5
    assert [record.message for record in caplog.records if "the search continues without tracking" in record.message] == [
        (
            f"the MLflow store cannot be used: connection refused (sqlite:///{directory.path}/m.db); "
            "the search continues without tracking, and keeps its study and files"
        )
    ]

    again = CliRunner().invoke(main, ["autotune", "--resume", str(directory.run_dir), "--budget", "7"], catch_exceptions=False)

    assert again.exit_code == 0, again.output
    assert directory.result()["evaluated_configs"] == len(calls(directory)) == 7


def test_a_finished_run_continues_with_a_larger_budget(directory: Directory) -> None:
    directory.tune(directory.program(RECORDING), *PRINTED, "--runs", "1", "--budget", "2", "autotune.max_races=0")

    answer = CliRunner().invoke(main, ["autotune", "--resume", str(directory.run_dir), "--budget", "5"], catch_exceptions=False)

    assert answer.exit_code == 0, answer.output
    assert directory.result()["evaluated_configs"] == len(calls(directory)) == 5


def test_a_run_does_not_resume_with_another_space(directory: Directory) -> None:
    directory.tune(directory.program(), *PRINTED, "--runs", "1", "--budget", "2")
    other = directory.path / "other.json"
    other.write_text(json.dumps([{"BLOCK_M": 8, "BLOCK_N": 8}, {"BLOCK_M": 16, "BLOCK_N": 8}]))

    answer = CliRunner().invoke(
        main, ["autotune", "--resume", str(directory.run_dir), "--space", str(other)], catch_exceptions=False
    )

    assert answer.exit_code == 2
    assert "the study was started with another space: BLOCK_M is [16, 32, 64] in the study and [8, 16] here" in answer.stderr
    assert len(optuna.load_study(study_name="autotune-kernel", storage=f"sqlite:///{directory.run_dir}/study.db").trials) <= 3
