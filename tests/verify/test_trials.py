"""Trials: shapes, inputs, initial memory content, and runners."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.faults import InstructionBudgetExceeded
from rocm_perf_lab.languages.arguments import BufferArgument, ConstantInit, NormalInit, ScalarArgument
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.verify.trial_runs import DeviceRunner, EmulatorRunner
from rocm_perf_lab.verify.trials import Trial, described, in_place_pairs, planned_trials, reseeded, trial_launches
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.build import BuildResult

KERNEL = KernelDescription(
    name="copy",
    source="copy.hip",  # type: ignore[arg-type]
    entry="copy",
    params={"rows": 100, "cols": 1000, "block": 64},
    defines={"BLOCK": "block"},
    arguments=(
        BufferArgument(name="x", dtype="f32", shape=("rows", "cols"), init=NormalInit(seed=7)),
        BufferArgument(name="y", dtype="f32", shape=("rows", "cols"), access="out"),
        ScalarArgument(kind="scalar", name="n", dtype="i32", value="rows * cols"),
    ),
    grid=("rows",),
    block=("block",),
)
COPY = """#include <hip/hip_runtime.h>
extern "C" __global__ void copy(const float* x, float* y, int n) {{
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n + {more}; i += gridDim.x * 64) y[i] = x[i < n ? i : 0];
}}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    """y = x, and not one element more."""
    return build_hip(COPY.format(more=0), tmp_path_factory.mktemp("copy"))


def small(**changes: object) -> Trial:
    trial = Trial("small", {"rows": 2, "cols": 10, "block": 64}, (1,))
    return replace(trial, **changes)  # type: ignore[arg-type]


def contents(build: BuildResult, trial: Trial, poison: int = 1) -> list[dict[str, np.ndarray]]:
    launches = trial_launches(KERNEL, trial, build, "copy", poison=poison)
    return [{a.name: a.data for a in launch.arguments if isinstance(a, BufferValue)} for launch in launches]


def test_only_sizes_without_macros_are_changed() -> None:
    shapes = [t.params for t in planned_trials(KERNEL, 1) if t.name.startswith("other shape")]

    assert shapes
    assert all(shape["block"] == 64 for shape in shapes)
    assert all((shape["rows"], shape["cols"]) != (100, 1000) for shape in shapes)
    assert {"rows": 5, "cols": 133, "block": 64} in shapes


def test_one_shape_is_larger_than_the_measured_one() -> None:
    (larger,) = [t.params for t in planned_trials(KERNEL, 1) if t.name.startswith("larger shape")]

    assert (larger["rows"], larger["cols"], larger["block"]) == (113, 1126, 64)


def test_shapes_of_the_description_replace_generated_ones() -> None:
    given = KERNEL.model_copy(update={"trials": ({"rows": 3}, {"rows": 4, "cols": 8})})

    shapes = [t.params for t in planned_trials(given, 1) if t.name.startswith("other shape")]

    assert [(s["rows"], s["cols"]) for s in shapes] == [(3, 1000), (4, 8)]


def test_trials_have_different_inputs_that_depend_on_the_seed() -> None:
    rounds = [r for t in planned_trials(KERNEL, 1) for r in t.rounds]

    assert len(set(rounds)) == len(rounds)
    assert planned_trials(KERNEL, 1) == planned_trials(KERNEL, 1)
    assert not set(rounds) & {r for t in planned_trials(KERNEL, 2) for r in t.rounds}


def test_only_random_inputs_are_redrawn() -> None:
    other = reseeded(KERNEL, 5)

    assert other.arguments[0] != KERNEL.arguments[0]
    assert other.arguments[1:] == KERNEL.arguments[1:]
    assert described(KERNEL, small()).params["cols"] == 10


def test_uninitialised_outputs_differ_between_runs(copy: BuildResult) -> None:
    (first,), (second,) = contents(copy, small(), 1), contents(copy, small(), 2)

    assert first["x"].tobytes() == second["x"].tobytes()
    assert first["y"].tobytes() != second["y"].tobytes()


def test_inputs_contain_special_values_or_zeros(copy: BuildResult) -> None:
    (special,) = contents(copy, small(params={"rows": 20, "cols": 50, "block": 64}, inputs="special"))
    (zeros,) = contents(copy, small(inputs="zeros"))

    assert np.isnan(special["x"]).sum() == 1
    assert np.isinf(special["x"]).sum() == 2
    assert not zeros["x"].any()


def test_large_inputs_have_mixed_negative_and_positive_rows(copy: BuildResult) -> None:
    (large,) = contents(copy, small(params={"rows": 8, "cols": 50, "block": 64}, inputs="large", factor=64.0))

    drawn, below, above = large["x"][[0, 4]], large["x"][1], large["x"][[2, 3, 5, 6, 7]]
    assert (drawn > 0).any() and (drawn < 0).any()
    assert below.max() <= -128
    assert above.min() >= 128


def test_only_the_first_supported_trial_of_a_family_is_used() -> None:
    family = [t for t in planned_trials(KERNEL, 1) if t.family == "large"]

    assert [t.factor for t in family] == [64.0, 64.0, 8.0, 8.0, 1.0, 1.0]  # each at a long shape, then at a small one


def test_long_shapes_have_one_large_size() -> None:
    long = [t.params for t in planned_trials(KERNEL, 1) if t.name.startswith("long shape")]

    assert [(p["rows"], p["cols"]) for p in long] == [(5, 8001)]  # 801 rows would be 801 workgroups


def test_only_floating_point_scalars_are_changed() -> None:
    scale = ScalarArgument(kind="scalar", name="scale", dtype="f32", value="2 * 3.0")
    scaled = KERNEL.model_copy(update={"arguments": (*KERNEL.arguments, scale)})
    (trial,) = [t for t in planned_trials(scaled, 1) if "other scalars" in t.name]

    changed = described(scaled, trial).arguments

    assert changed[3].value == "(2 * 3.0) * 1.5"  # type: ignore[union-attr]
    assert changed[2] == KERNEL.arguments[2]


def test_accumulated_outputs_have_other_initial_content(copy: BuildResult) -> None:
    sums = BufferArgument(name="y", dtype="f32", shape=("rows", "cols"), access="inout", init=ConstantInit(value=0))
    adding = KERNEL.model_copy(update={"arguments": (KERNEL.arguments[0], sums, KERNEL.arguments[2])})
    (trial,) = [t for t in planned_trials(adding, 1) if t.inputs == "content"]

    (launch,) = trial_launches(adding, trial, copy, "copy", poison=1)

    held = next(a.data for a in launch.arguments if isinstance(a, BufferValue) and a.name == "y")
    assert set(np.unique(held)) == {1, 2, 3, 4, 5, 6, 7}
    assert not [t for t in planned_trials(KERNEL, 1) if t.inputs == "content"]


def test_in_place_outputs_share_an_input_of_their_shape() -> None:
    assert in_place_pairs(KERNEL, small(in_place=True)) == {"y": "x"}
    assert in_place_pairs(KERNEL, small()) == {}


def test_repeated_dispatches_share_memory(copy: BuildResult) -> None:
    trial = small(rounds=(1, 2, 3))
    launches = trial_launches(KERNEL, trial, copy, "copy", poison=1)

    run = EmulatorRunner(mi300x()).run(launches, {}, budget=10**6)

    assert run.findings == ()
    assert run.buffers["y"].tobytes() == contents(copy, trial)[-1]["x"].tobytes()
    assert run.instructions > 0


def test_an_endless_kernel_is_stopped(copy: BuildResult) -> None:
    with pytest.raises(InstructionBudgetExceeded):
        EmulatorRunner(mi300x()).run(trial_launches(KERNEL, small(), copy, "copy", poison=1), {}, budget=3)


def test_a_canary_detects_writes_past_a_buffer(copy: BuildResult, tmp_path: Path) -> None:
    runner = DeviceRunner(EmulatorDevice(target=mi300x()))
    beyond = build_hip(COPY.format(more=1), tmp_path)

    run = runner.run(trial_launches(KERNEL, small(), copy, "copy", poison=1), {})

    assert run.buffers["y"].tobytes() == run.buffers["x"].tobytes()
    assert run.buffers["y"].shape == (2, 10)
    with pytest.raises(LabError, match="writes past the end of buffer 'y'"):
        runner.run(trial_launches(KERNEL, small(), beyond, "copy", poison=1), {})


def test_trials_read_all_buffers_back(copy: BuildResult) -> None:
    (launch,) = trial_launches(KERNEL, small(), copy, "copy", poison=1)
    plain = build_launch(described(KERNEL, small()), copy.code_object, "copy", None)

    assert [a.written for a in launch.arguments if isinstance(a, BufferValue)] == [True, True]
    assert [a.written for a in plain.arguments if isinstance(a, BufferValue)] == [False, True]
