"""device=rocm with its harness inside AMD's HIP runtime, on an emulated GPU.

rocprofv3 itself is not part of the ROCm root: a program that records emulated dispatches takes its place.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.device import rocm
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.rocm import RocmDevice, RocmDeviceError
from rocm_perf_lab.device.rocprofv3 import ProfilerError
from rocm_perf_lab.rocprof.reader import read_databases
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.verify.reference import expected_outputs
from tests.builders.descriptions import describe
from tests.builders.emulated_profiler import write_profiler
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.device.protocol import Launch

SOURCE = """#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
__constant__ float weights[2];
extern "C" __global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
extern "C" __global__ void weighted(signed char which, const float* x, float* y) {
  int i = blockIdx.x * 256 + threadIdx.x;  // the last workgroup is partial: its blockDim.x is 232
  y[i] = weights[which] * x[i] + i;
}
extern "C" __global__ void shifted(int* x, int n) {
  extern __shared__ int tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = x[(i + 1) % n];
  cooperative_groups::this_grid().sync();
  x[i] = tile[threadIdx.x];
}
"""
SCALE: dict[str, Any] = {}
WEIGHTED: dict[str, Any] = {
    "name": "weighted",
    "entry": "weighted",
    "arguments": [
        {"name": "which", "kind": "scalar", "dtype": "i8", "value": 1},
        {"name": "x", "kind": "buffer", "dtype": "f32", "shape": ["n"], "init": {"kind": "normal", "seed": 3}},
        {"name": "y", "kind": "buffer", "dtype": "f32", "shape": ["n"], "access": "out"},
    ],
    "variables": [{"name": "weights", "dtype": "f32", "shape": [2], "init": {"kind": "arange"}}],
    "grid": (),
    "work_items": ["n"],
    "reference": {"y": "x + arange(n)"},
}
SHIFTED: dict[str, Any] = {
    "name": "shifted",
    "entry": "shifted",
    "params": {"n": 1024, "block": 256},
    "arguments": [
        {"name": "x", "kind": "buffer", "dtype": "i32", "shape": ["n"], "access": "inout", "init": {"kind": "arange"}},
        {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
    ],
    "dynamic_lds_bytes": "4 * block",
    "cooperative": True,
    "reference": {"x": "roll(x, -1)"},
}


def launch_of(changes: dict[str, Any], directory: Path) -> tuple[Launch, dict[str, np.ndarray[Any, np.dtype[Any]]]]:
    """Compile the kernel of a description; return its launch and the expected outputs."""
    description = describe(**changes)
    flags = ("-fno-offload-uniform-block",) if description.work_items else ()
    built = build_hip(SOURCE, directory, flags=flags)
    launch = build_launch(description, built.code_object, description.entry)
    expected = expected_outputs(description, launch)
    assert expected is not None
    return launch, expected


@pytest.fixture
def device(rocm_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RocmDevice:
    """Return the device with the recording program as rocprofv3."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(write_profiler(programs, rocm_root).parent), prepend=":")
    monkeypatch.setattr(rocm, "missing_for_gpu", lambda: None)
    return RocmDevice(target=load_target("mi300x"), timeout_s=600)


@pytest.mark.parametrize(
    ("changes", "waves"),
    [
        pytest.param(SCALE, 16, id="buffers"),  # 4 workgroups of 256 work-items
        pytest.param(WEIGHTED, 16, id="variable and partial workgroup", marks=pytest.mark.slow),  # 3 of 256, 1 of 232
        pytest.param(SHIFTED, 16, id="cooperative", marks=pytest.mark.slow),
    ],
)
def test_outputs_of_the_harness_are_right_and_its_dispatches_recorded(
    device: RocmDevice, changes: dict[str, Any], waves: int, tmp_path: Path
) -> None:
    launch, expected = launch_of(changes, tmp_path)

    result = device.run(launch, database=tmp_path / "run.db", runs=2, counters=["SQ_WAVES"])

    assert result.outputs.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(result.outputs[name], values)
    trace = read_databases([tmp_path / "run.db"])
    own = [index for index, kernel in enumerate(trace.dispatches.kernel) if trace.kernels[kernel].mangled_name == launch.symbol]
    assert [trace.counters_of(index) for index in own] == [{"SQ_WAVES": waves}] * 2


@pytest.mark.slow
def test_an_error_of_hip_is_reported_with_the_function(device: RocmDevice, tmp_path: Path) -> None:
    launch, _ = launch_of(SCALE, tmp_path)
    other = build_hip(SOURCE, tmp_path, architecture="gfx90a").code_object
    object.__setattr__(launch, "code_object", other)

    with pytest.raises(ProfilerError, match="hipModuleLoadData failed with HIP error 209"):
        device.run(launch, database=tmp_path / "run.db", runs=1, counters=[])


AMDSMI = """
import time

class AmdSmiException(Exception): pass

def amdsmi_init(): pass

def amdsmi_get_processor_handle_from_bdf(bus_id):
    assert bus_id.count(":") == 2, bus_id
    return bus_id

def amdsmi_get_energy_count(gpu):  # a GPU that uses 300 W, with the resolution of an MI300X
    ticks = int(300e6 * time.perf_counter() / 15.259)
    return {"energy_accumulator": ticks, "counter_resolution": 15.259, "timestamp": 0}
"""


def inside(root: Path) -> tuple[str, ...]:
    """Return the command of the harness on the emulated GPU."""
    return (sys.executable, "-m", "rocm_perf_lab.cli", "run", "--root", str(root), "--", *rocm.HARNESS)


@pytest.mark.slow
def test_the_energy_of_a_dispatch_is_that_of_the_gpu_while_it_dispatches(
    device: RocmDevice, rocm_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulated GPU has no energy counter: a stand-in for amdsmi counts 300 W of wall-clock time."""
    launch, _ = launch_of(SCALE, tmp_path)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "amdsmi.py").write_text(AMDSMI)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=":")
    monkeypatch.setattr(rocm, "HARNESS", inside(rocm_root))

    energy_mj = device.energy_mj(launch)

    dispatch_s = energy_mj / 300e3
    assert 1e-6 < dispatch_s < 0.1  # an emulated launch takes some 100 us


@pytest.mark.slow
def test_a_gpu_without_an_energy_counter_is_one_error(
    device: RocmDevice, rocm_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, _ = launch_of(SCALE, tmp_path)
    monkeypatch.setenv("ROCM_PATH", str(rocm_root / "usr"))
    monkeypatch.setattr(rocm, "HARNESS", inside(rocm_root))

    with pytest.raises(RocmDeviceError, match="energy is not measured: this GPU has no energy counter that amdsmi can read"):
        device.energy_mj(launch)


@pytest.mark.slow
def test_energy_without_amdsmi_is_one_error(
    device: RocmDevice, rocm_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, _ = launch_of(SCALE, tmp_path)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setattr(rocm, "HARNESS", inside(rocm_root))

    with pytest.raises(RocmDeviceError, match="energy needs the Python package amdsmi of ROCm"):
        device.energy_mj(launch)
