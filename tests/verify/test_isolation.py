"""Isolated execution: results, errors, limits, crashes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.bench import GateError
from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits
from rocm_perf_lab.verify.isolation import IsolationError, run_isolated

MIB = 1 << 20
PLENTY = SandboxLimits(seconds=30, memory_bytes=1024 * MIB)


def test_a_result_is_returned_completely() -> None:
    values = np.arange(3_000_000)

    assert (run_isolated(lambda: values * 2, PLENTY) == values * 2).all()


def test_changes_to_memory_stay_in_the_child() -> None:
    kept: dict[str, int] = {}

    assert run_isolated(lambda: kept.setdefault("written", 1), PLENTY) == 1
    assert kept == {}


def test_lab_errors_keep_their_type_and_text() -> None:
    def action() -> None:
        raise GateError("a race", where="k.hip:3", hint="add a barrier")

    with pytest.raises(GateError) as error:
        run_isolated(action, PLENTY)

    assert error.value.lines() == LabError("a race", where="k.hip:3", hint="add a barrier").lines()


def test_other_exceptions_become_runtime_errors_with_their_traceback() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_isolated(lambda: 1 // 0, PLENTY)


def test_an_endless_run_is_stopped() -> None:
    start = time.monotonic()

    with pytest.raises(IsolationError, match=r"took more than 0\.5 s"):
        run_isolated(lambda: time.sleep(60), SandboxLimits(seconds=0.5))

    assert time.monotonic() - start < 50


def test_a_crash_is_an_isolation_error() -> None:
    with pytest.raises(IsolationError, match="ended without a result: SIGKILL"):
        run_isolated(lambda: os.kill(os.getpid(), signal.SIGKILL), PLENTY)


def test_additional_memory_is_limited() -> None:
    with pytest.raises(IsolationError, match=r"exceeded optimizer\.isolation\.memory_mb"):
        run_isolated(lambda: len(bytearray(2048 * MIB)), PLENTY)

    assert run_isolated(lambda: len(bytearray(256 * MIB)), PLENTY) == 256 * MIB


def test_files_are_limited(tmp_path: Path) -> None:
    def action() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        return (tmp_path / "large").write_bytes(bytes(2 * MIB))

    with pytest.raises(RuntimeError, match="File too large"):
        run_isolated(action, SandboxLimits(seconds=30, file_bytes=MIB))


@pytest.mark.skipif(not Sandbox().protection().network, reason="user namespaces are not permitted here")
def test_there_is_no_network() -> None:
    def interfaces() -> str:
        return Path("/proc/self/net/dev").read_text()

    assert "eth" not in run_isolated(interfaces, PLENTY)
    assert run_isolated(interfaces, PLENTY) != interfaces()
