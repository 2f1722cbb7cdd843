"""Replay device: candidates run on captured memory, with the results and times of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue
from rocm_perf_lab.replay.device import ReplayDevice
from rocm_perf_lab.rocprof.reader import read_database
from tests.builders.captures import code_object, scale_capture
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Iterator

N = 1000


def launch(n: int = N, block: int = 64, factor: float = 3.0) -> Launch:
    return Launch(
        code_object=code_object(),
        symbol="scale",
        grid=(-(-n // block), 1, 1),
        block=(block, 1, 1),
        dynamic_lds_bytes=0,
        arguments=(
            BufferValue("x", np.arange(n, dtype=np.float32), written=False),
            BufferValue("y", np.zeros(n, dtype=np.float32), written=True),
            ScalarValue("factor", np.float32(factor).tobytes()),
            ScalarValue("n", np.int32(n).tobytes()),
        ),
    )


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayDevice]:
    directory = scale_capture(tmp_path_factory.mktemp("device") / "c", n=N)
    made = ReplayDevice(target=mi300x(), device="emulator", capture=str(directory), threads=1)
    yield made
    made.close()


def test_outputs_and_time_are_those_of_a_run(device: ReplayDevice, tmp_path: Path) -> None:
    counters = ("SQ_WAVES", "SQ_INSTS_VALU")
    replayed = device.run(launch(), database=tmp_path / "a.db", runs=2, counters=counters)
    run = EmulatorDevice(target=mi300x(), threads=1).run(launch(), database=tmp_path / "b.db", runs=2, counters=counters)

    one, other = read_database(replayed.database), read_database(run.database)
    assert np.array_equal(replayed.outputs["y"], run.outputs["y"])
    assert one.dispatches.duration_ns.tolist() == other.dispatches.duration_ns.tolist()
    for name in counters:
        assert set(one.counters[name].value) == set(other.counters[name].value)
    assert one.provenance.emulated


def test_a_candidate_has_its_geometry_and_scalars(device: ReplayDevice, tmp_path: Path) -> None:
    run = device.run(launch(block=128, factor=5.0), database=tmp_path / "a.db", runs=1, counters=())

    assert run.outputs["y"].tolist() == [5.0 * i for i in range(N)]


def test_the_captured_result_is_the_expected_output(device: ReplayDevice) -> None:
    known = device.expected_outputs(launch())

    assert known is not None
    assert known["y"].tolist() == [3.0 * i for i in range(N)]


def test_a_larger_problem_is_rejected(device: ReplayDevice, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="buffer 'x' has 8,000 bytes, but the captured buffer has 4,000"):
        device.run(launch(n=2 * N), database=tmp_path / "a.db", runs=1, counters=())
    assert not (tmp_path / "a.db").exists()


def test_a_replay_device_needs_a_capture() -> None:
    with pytest.raises(LabError, match="needs a capture"):
        ReplayDevice(target=mi300x())


@pytest.mark.slow
@pytest.mark.parametrize("where", ["optimizer.measure=replay", "device.measure=replay"])
def test_the_closed_loop_measures_on_a_captured_dispatch(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["kernel.params.rows=16", "kernel.params.cols=512", "tracking=none", "optimizer.max_proposals=1"]
    experiment = ["+experiment=softmax_optimize", "device=emulator", *small]

    assert run_lab([*experiment, where, "hydra.run.dir=replayed"]) == 0
    assert run_lab([*experiment, "hydra.run.dir=run"]) == 0

    replayed, run = (json.loads(Path(name, "optimize.json").read_text()) for name in ("replayed", "run"))
    assert replayed["baseline"]["runtime_ms"] == pytest.approx(run["baseline"]["runtime_ms"])
    assert Path("replayed/capture/manifest.json").is_file()
    assert not Path("run/capture").exists()


@pytest.mark.slow
def test_the_experiment_captures_replays_overrides_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["kernel.params.rows=16", "kernel.params.cols=512", "tracking=none", "device=emulator"]

    assert run_lab(["+experiment=softmax_replay", *small, "hydra.run.dir=out"]) == 0

    document = json.loads(Path("out/replay.json").read_text())
    assert document["captured"]["verification"]["passed"]
    assert document["override"]["verification"]["passed"]
    assert document["time_kind"] == "emulated"
    assert document["speedup"] > 1


@pytest.mark.slow
def test_an_override_with_other_results_fails_the_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = tmp_path / "wrong.hip"
    wrong.write_text(
        "#include <hip/hip_runtime.h>\n"
        'extern "C" __global__ void softmax_kernel(const float* input, float* output, int cols) {\n'
        "  for (int i = threadIdx.x; i < cols; i += blockDim.x) output[blockIdx.x * cols + i] = 0.5f;\n}\n"
    )
    small = ["kernel.params.rows=4", "kernel.params.cols=256", "tracking=none", "device=emulator", f"job.override={wrong}"]

    assert run_lab(["+experiment=softmax_replay", *small]) == 1
    assert "1,024 elements (f32) differ" in capsys.readouterr().err
