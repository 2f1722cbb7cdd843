"""The capture tool under the sanitizers of g++: no data race, no lock order inversion, no bad access, no undefined behaviour.

All of it is instrumented: the tool, the stand-in runtime and the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.replay.application_capture import capture
from rocm_perf_lab.replay.capture_request import ApplicationCaptureError, CaptureRequest
from tests.builders.hsa_stand_in import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocm_perf_lab.replay.format import CaptureMode

SCENARIOS: list[tuple[str, int, str, CaptureMode]] = [
    ("scale", 2, "normal 4", "reachable"),
    ("walk", 1, "normal 4", "full"),
    ("walk", 0, "pinned", "reachable"),
    ("walk", 0, "shared", "reachable"),
    ("walk", 0, "backlog 20", "reachable"),
    ("walk", 0, "opened-by-third", "reachable"),
    ("add_to", 2, "counted", "full"),
    ("scale", 3, "restart 2", "reachable"),
    ("scale", 1, "fork-first", "reachable"),
    ("none", 0, "normal 3", "reachable"),
]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with build.emulator() as variables:
        yield {name: value for name, value in variables.items() if name != "LD_LIBRARY_PATH"}


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["thread", "address,undefined"])
@pytest.mark.parametrize(("kernel", "dispatch", "scenario", "mode"), SCENARIOS)
def test_no_sanitizer_reports_a_problem(
    sanitizers: str, kernel: str, dispatch: int, scenario: str, mode: CaptureMode, environment: dict[str, str], tmp_path: Path
) -> None:
    command = (str(build.application("application", sanitizers)), str(build.kernels()), *scenario.split())
    low = False  # used by the shadow memory of the sanitizers
    request = CaptureRequest(command, kernel, tmp_path / "c", dispatch, mode, application_timeout_s=400.0, low_addresses=low)
    log = tmp_path / "said"
    options = f"log_path={log}:exitcode=66:halt_on_error=0:detect_leaks=0:print_stacktrace=1"
    variables = dict.fromkeys(("TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS"), options)

    try:
        outcome = capture(request, tool=build.capture_tool(sanitizers), environment=environment | variables)
    except ApplicationCaptureError as error:
        said = str(error)
        assert "'none' was never dispatched" in said, said
    else:
        assert outcome.exit_code == 0

    assert "".join(path.read_text() for path in tmp_path.glob("said*")) == ""
