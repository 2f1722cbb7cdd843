"""Trials: shapes, inputs, initial memory content, and runners."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.faults import InstructionBudgetExceeded
from rocm_perf_lab.languages.arguments import BufferArgument, ConstantInit, NormalInit, ScalarArgument
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.verify.inputs import InputKind
from rocm_perf_lab.verify.plan import TrialPlan
from rocm_perf_lab.verify.trial_runs import DeviceRunner, EmulatorRunner
from rocm_perf_lab.verify.trials import (
    Trial,
    described,
    in_place_pairs,
    reseeded,
    scalar_choices,
    summary_of,
    trial_launches,
    trial_of,
)
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.baseline import BaselineRecorder

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


def test_names_state_what_differs_and_the_seed() -> None:
    plain = trial_of(KERNEL, KERNEL.params, 1)
    other = trial_of(KERNEL, {**KERNEL.params, "cols": 7}, 1, InputKind("huge", 1024.0), rounds=3)

    assert plain.name == f"described shape; random inputs; seed {plain.rounds[0]}"
    assert other.name == (f"cols=7; huge inputs, 1024 times as large; 3 dispatches in a row; seed {other.rounds[-1]}")


def test_trials_have_different_inputs_that_depend_on_the_seed() -> None:
    shapes = [{**KERNEL.params, "cols": cols} for cols in range(1, 40)]
    first, again, other = ([r for p in shapes for r in trial_of(KERNEL, p, seed, rounds=2).rounds] for seed in (1, 1, 2))

    assert len(set(first)) == len(first) == 78
    assert first == again
    assert not set(first) & set(other)


def test_a_summary_counts_trials() -> None:
    trials = [trial_of(KERNEL, {**KERNEL.params, "cols": n}, 1, shape="residues") for n in (3, 4)]

    summary = summary_of([trial_of(KERNEL, KERNEL.params, 1, InputKind("zeros")), *trials])

    assert summary == "3 trials (described shape 1, shapes with all residues 2; random inputs 2, all inputs zero 1)"


def test_only_random_inputs_are_redrawn() -> None:
    other = reseeded(KERNEL, 5)

    assert other.arguments[0] != KERNEL.arguments[0]
    assert other.arguments[1:] == KERNEL.arguments[1:]
    assert described(KERNEL, small()).params["cols"] == 10


def test_uninitialised_outputs_differ_between_runs(copy: BuildResult) -> None:
    (first,), (second,) = contents(copy, small(), 1), contents(copy, small(), 2)

    assert first["x"].tobytes() == second["x"].tobytes()
    assert first["y"].tobytes() != second["y"].tobytes()


def test_scalars_are_changed_by_their_params_or_their_values() -> None:
    scalars = (
        ScalarArgument(kind="scalar", name="scale", dtype="f32", value="scale"),
        ScalarArgument(kind="scalar", name="offset", dtype="i32", value=3),
        ScalarArgument(kind="scalar", name="half", dtype="f32", value=0.5),
    )
    scaled = KERNEL.model_copy(update={"arguments": (*KERNEL.arguments, *scalars), "params": {**KERNEL.params, "scale": 2.0}})

    choices = scalar_choices(scaled)

    assert [c.params["scale"] for c in choices if c.params] == [0.0, 1.0, -2.0, 3.0, 2048.0, 2.0**-24, 1e-39]
    assert [c.arguments["offset"] for c in choices if "offset" in c.arguments] == [0, 1, -1, 2, 1000]
    assert [c.arguments["half"] for c in choices if "half" in c.arguments] == [0.0, 1.0, -0.5, 0.75, 1024.0, 2.0**-24, 1e-39]
    trial = trial_of(scaled, scaled.params, 1, scalars=choices[-1])
    assert described(scaled, trial).arguments[5].value == 1e-39  # type: ignore[union-attr]
    assert described(scaled, trial).arguments[2:5] == scaled.arguments[2:5]


def test_sizes_are_not_scalars() -> None:
    assert scalar_choices(KERNEL) == ()


def test_accumulated_outputs_have_other_initial_content(copy: BuildResult) -> None:
    sums = BufferArgument(name="y", dtype="f32", shape=("rows", "cols"), access="inout", init=ConstantInit(value=0))
    adding = KERNEL.model_copy(update={"arguments": (KERNEL.arguments[0], sums, KERNEL.arguments[2])})

    (launch,) = trial_launches(adding, small(inputs="content"), copy, "copy", poison=1)

    held = next(a.data for a in launch.arguments if isinstance(a, BufferValue) and a.name == "y")
    assert held.min() >= 1 and held.max() <= 7


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


def test_a_kernel_without_outputs_is_refused(tmp_path: Path) -> None:
    arguments = tuple(a.model_copy(update={"access": "in"}) if isinstance(a, BufferArgument) else a for a in KERNEL.arguments)
    silent = KERNEL.model_copy(update={"arguments": arguments, "directory": tmp_path})

    with pytest.raises(LabError, match="kernel copy has no output") as caught:
        TrialPlan(cast("BaselineRecorder", SimpleNamespace(description=silent)), seed=1).run()
    assert caught.value.hint == "declare the buffers that it writes with access: out or inout"
