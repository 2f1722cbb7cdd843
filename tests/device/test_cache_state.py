"""State of the caches before an emulated launch: `device.cache`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue
from rocm_perf_lab.rocprof.reader import read_database
from tests.builders.kernels import VEC_COPY, build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

N = 1 << 16


def duration_ns(directory: Path, cache: str) -> int:
    code_object = build_hip(VEC_COPY, directory).code_object
    buffers = tuple(BufferValue(name, np.zeros(N), name == "c") for name in "abc")
    sizes = tuple(ScalarValue(name, np.int32(value).tobytes()) for name, value in (("n", N), ("stride", 1)))
    launch = Launch(code_object, code_object.kernels[0].symbol, (N // 256, 1, 1), (256, 1, 1), 0, (*buffers, *sizes))
    run = EmulatorDevice(target=mi300x(), cache=cache, sample_seed=1).run(
        launch, database=directory / f"{cache}.db", runs=1, counters=()
    )
    return int(read_database(run.database).dispatches.duration_ns[0])


def test_a_launch_with_cold_caches_takes_longer(tmp_path: Path) -> None:
    assert duration_ns(tmp_path, "cold") > duration_ns(tmp_path, "warm")


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(LabError, match="unknown state of the caches 'hot'"):
        EmulatorDevice(target=mi300x(), cache="hot")
