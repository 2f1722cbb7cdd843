"""JSON of the replay commands, tracking runs, clocks, and the list of kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console

from rocm_perf_lab.cli import main
from rocm_perf_lab.jobs.replay.application import show_list
from rocm_perf_lab.jobs.replay.tracked import is_tracked
from rocm_perf_lab.replay.dispatch_list import DispatchList, ListedDispatch, ListedKernel
from rocm_perf_lab.replay.errors import RelocatedReservation, ReservationError
from rocm_perf_lab.replay.hsa.clocks import read_clocks
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.report import captured_time
from rocm_perf_lab.replay.session import ReplaySession
from tests.builders.captures import scale_capture

if TYPE_CHECKING:
    from click.testing import Result

    from rocm_perf_lab.replay.capture import Capture

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scale_capture(tmp_path_factory.mktemp("documents") / "scale", n=64)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def document(result: Result, schema: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(content, json.loads((SCHEMAS / f"{schema}.schema.json").read_text()))
    return content


def test_info_and_verify_print_documents_with_a_schema(captured: Path) -> None:
    info, verify = run("info", captured, "--json"), run("verify", captured, "--json")

    assert document(info, "replay_info")["kernel"] == "scale"
    assert document(verify, "replay_verify") == {
        "schema_version": "1.0",
        "capture": str(captured),
        "valid": True,
        "problems": [],
    }


@pytest.mark.parametrize(
    ("error", "exit_code", "result"),
    [(ReservationError("in use"), 1, "failed"), (RelocatedReservation("relocation"), 2, "relocated")],
)
def test_exit_codes_of_reserve_check_distinguish_relocation(
    captured: Path, monkeypatch: pytest.MonkeyPatch, error: ReservationError, exit_code: int, result: str
) -> None:
    def refuse(_: ReplaySession) -> int:
        raise type(error)(error.what)

    monkeypatch.setattr(ReplaySession, "start", refuse)

    as_text = run("reserve-check", "--capture-dir", captured, "--device", "emulator")
    as_json = run("reserve-check", "--capture-dir", captured, "--device", "emulator", "--json")

    assert (as_text.exit_code, as_json.exit_code) == (exit_code, exit_code)
    found = document(as_json, "replay_reserve_check")
    assert (found["result"], found["error"]["what"]) == (result, error.what)


def test_reserve_check_succeeds_with_exact_addresses(captured: Path) -> None:
    checked = run("reserve-check", "--capture-dir", captured, "--device", "emulator", "--json")

    assert checked.exit_code == 0
    assert document(checked, "replay_reserve_check")["result"] == "exact"


def with_duration(capture: Capture, ticks: int) -> Capture:
    """Return the capture with a dispatch of that many ticks of a microsecond."""
    from dataclasses import replace

    from rocm_perf_lab.replay.format import DispatchTiming

    timing = DispatchTiming(start=0, end=ticks, frequency=1_000_000)
    return replace(capture, dispatch=capture.dispatch.model_copy(update={"timing": timing}))


@pytest.mark.parametrize(("median_us", "agrees"), [(100.0, True), (109.0, True), (112.0, False), (85.0, False)])
def test_replays_agree_with_the_captured_time_within_ten_percent(captured: Path, median_us: float, agrees: bool) -> None:
    capture = with_duration(open_capture(captured), 100)

    found = captured_time(capture, median_us, emulated=True)

    assert found is not None
    assert (found.microseconds, found.agrees) == (100.0, agrees)
    assert found.ratio == pytest.approx(median_us / 100)


def test_measured_replays_are_not_compared_with_an_emulated_dispatch(captured: Path) -> None:
    assert captured_time(with_duration(open_capture(captured), 100), 50.0, emulated=False) is None


def test_clocks_are_those_that_the_driver_shows(tmp_path: Path) -> None:
    monitor = tmp_path / "0001:c1:00.0" / "hwmon" / "hwmon3"
    monitor.mkdir(parents=True)
    (monitor / "freq1_input").write_text("2100000000\n")

    assert read_clocks(1, 0xC100, tmp_path) == {"shader": 2100.0}
    assert read_clocks(0, 0xC100, tmp_path) == {}


def test_tracking_is_on_if_there_is_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert (is_tracked("auto"), is_tracked("mlflow"), is_tracked("none")) == (False, True, False)

    (tmp_path / "mlflow.db").touch()
    assert is_tracked("auto")
    assert not is_tracked("none")


@pytest.mark.slow
def test_a_replay_is_a_tracking_run(captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocm_perf_lab.api import runs

    store = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("ROCM_PERF_LAB_TRACKING", "foreground")

    assert run("full-vm", "--capture-dir", captured, "--device", "emulator", "--check").exit_code == 0

    table = runs(uri=store)
    assert list(table["job"]) == ["replay"]
    assert list(table["verdict"]) == ["correct"]
    assert table["runtime_us"][0] > 0


def test_the_list_states_the_argument_of_dispatch_for_every_choice(capsys: pytest.CaptureFixture[str]) -> None:
    def one(index: int, time_us: float) -> ListedDispatch:
        return ListedDispatch(index=index, shape="64x1x1/64x1x1", time_us=time_us)

    busy = ListedKernel(
        name="busy", calls=3, total_us=9, shapes={"64x1x1/64x1x1": 3}, first=one(0, 1), median=one(2, 3), slowest=one(1, 5)
    )

    show_list(DispatchList(time_kind="measured", kernels=(busy,), application_exit_code=0), Console(width=60))

    printed = capsys.readouterr().out
    assert "100%" in printed
    assert "slowest 5.00 us (--dispatch 1), median 3.00 us (--dispatch 2), first 1.00 us (--dispatch 0)" in printed
