"""Shapes of a workload: lists, recordings, the joint space, and the selection of few configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rocm_perf_lab.autotune.goals import Goal, Goals
from rocm_perf_lab.autotune.multitask_process import MultiTaskProcess
from rocm_perf_lab.autotune.multitask_search import EarlierTask, MultiTaskSearch
from rocm_perf_lab.autotune.portfolio import select
from rocm_perf_lab.autotune.recorded_shapes import shapes_of_recording
from rocm_perf_lab.autotune.shapes import ShapeError, WorkloadShape, shapes_of
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace, shaped_space
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.strategy import Observations
from rocm_perf_lab.autotune.trials import TrialRecord
from rocm_perf_lab.autotune.workload_result import tuned_workload
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.statistics.racing import RaceResult, RaceStanding

TILES = {"parameters": {"tile": [16, 32, 64, 128], "waves": [1, 2, 4]}, "constraints": ["tile <= n"]}


def space_of_tiles(*sizes: int) -> ShapedSpace:
    shapes = [WorkloadShape({"n": size}) for size in sizes]
    return shaped_space(shapes, lambda shape: build_space(describe({**TILES, "fixed": shape.values}, where="t")), where="shapes")


def test_a_list_has_weights() -> None:
    found = shapes_of([{"m": 8, "n": 4}, {"n": 2, "m": 1, "weight": 3}], where="list")

    assert found == (WorkloadShape({"m": 8, "n": 4}, 1.0), WorkloadShape({"m": 1, "n": 2}, 3.0))
    assert found[1].label == "m=1,n=2"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there are no shapes"),
        ([{"weight": 2}], "a shape maps names to values"),
        ([{"m": 1}, {"n": 1}], "some shapes lack m, n"),
        ([{"m": 1}, {"m": 1}], "m=1 is listed more than once"),
        ([{"m": 1, "weight": 0}], "the weight 0 is not a positive number"),
        ([{"m": [1, 2]}], r"m is \[1, 2\]"),
    ],
)
def test_wrong_lists_are_refused(rows: list[Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        shapes_of(rows, where="list")


def test_the_joint_space_applies_constraints_to_every_shape() -> None:
    space = space_of_tiles(32, 1000)

    assert len(space.rows_of(0)) == 2 * 3  # tiles of 16 and 32
    assert len(space.rows_of(1)) == 4 * 3
    assert space.complete({"shape": "n=32", "tile": 16, "waves": 1})["n"] == 32
    assert space.settings == ("tile", "waves", "n")
    assert space.table.shape == (2, 12)
    assert (space.table[0] == -1).sum() == 6


def test_a_space_cannot_vary_a_shape() -> None:
    with pytest.raises(ShapeError, match="n is a name of the shapes and a parameter of the space"):
        shaped_space(
            [WorkloadShape({"n": 1})], lambda _: build_space(describe({"parameters": {"n": [1, 2]}}, where="t")), where="s"
        )


def test_few_configurations_cover_the_shapes_with_the_least_weighted_slowdown() -> None:
    unknown = np.inf
    slowdown = np.array([[1.0, 1.2, unknown], [3.0, 1.1, 1.0], [2.0, 1.3, 1.0]])

    one, two = select(slowdown, [0.2, 0.4, 0.4], 1), select(slowdown, [0.2, 0.4, 0.4], 2)

    assert one.columns == (1,)  # the only one that runs for all
    assert one.choice == (1, 1, 1)
    assert set(two.columns) == {0, 2}  # 1.0 for every shape
    assert two.choice == (0, 2, 2)


def test_a_shape_without_a_running_configuration_has_none() -> None:
    found = select(np.array([[1.0, 2.0], [np.inf, np.inf]]), [0.5, 0.5], 2)

    assert found.columns == (0,)
    assert found.choice == (0, -1)


VECTOR_ADD: dict[str, Any] = {
    "name": "add",
    "source": "add.hip",
    "entry": "add",
    "params": {"n": 1000, "block": 256},
    "arguments": [{"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"}],
    "grid": ["ceil_div(n, block)"],
    "block": ["block"],
}


def recording(*launches: tuple[list[int], float]) -> dict[str, Any]:
    rows = [{"grid": grid, "block": [256, 1, 1], "calls": 2, "total_ms": time} for grid, time in launches]
    return {"kernels": [{"name": "void add(int)", "mangled_name": "_Z3addi", "launches": rows}]}


def kernel_with_grid(*grid: str) -> KernelDescription:
    return KernelDescription.model_validate({**VECTOR_ADD, "grid": grid})


def test_a_recording_gives_the_largest_size_with_its_grid_weighted_by_time() -> None:
    kernel, found = kernel_with_grid("ceil_div(n, block)"), recording(([4, 1, 1], 1.5), ([16, 1, 1], 6.0))

    shapes = shapes_of_recording(found, kernel, {}, ("block",), where="r.json")

    assert shapes == (WorkloadShape({"n": 1024}, 1.5), WorkloadShape({"n": 4096}, 6.0))


def test_expressions_say_how_a_grid_determines_the_shape() -> None:
    kernel, found = kernel_with_grid("ceil_div(n, block)"), recording(([4, 3, 1], 1.0))

    shapes = shapes_of_recording(found, kernel, {"n": "grid_x * block_x", "m": "grid_y"}, ("block",), where="r.json")

    assert shapes == (WorkloadShape({"n": 1024, "m": 3}, 1.0),)


def test_a_recording_without_the_kernel_has_no_shapes() -> None:
    with pytest.raises(ShapeError, match="the recording has no launches of add, so no shapes"):
        shapes_of_recording({"kernels": [{"name": "other"}]}, kernel_with_grid("n"), {}, (), where="r.json")


def test_a_grid_of_two_sizes_does_not_determine_them() -> None:
    content = {**VECTOR_ADD, "params": {"n": 8, "m": 8}, "grid": ["m * n"], "block": [64]}
    content["arguments"] = [{"name": name, "kind": "scalar", "dtype": "i32", "value": name} for name in ("m", "n")]

    with pytest.raises(ShapeError, match=r"m \* n depends on m and n"):
        shapes_of_recording(recording(([4, 1, 1], 1.0)), KernelDescription.model_validate(content), {}, (), where="r.json")


def test_the_model_takes_what_it_learned_about_one_task_to_an_alike_one() -> None:
    inputs = np.linspace(0, 1, 9)
    valley = (inputs - 0.3) ** 2
    points = np.vstack([np.column_stack([inputs, np.zeros(9)]), [[0.0, 0.1]]])
    process = MultiTaskProcess(1, 1)

    process.tune(points, np.append(valley, valley[0] + 1.0) * 10)
    process.fit(points, np.append(valley, valley[0] + 1.0) * 10)
    mean = process.predict(np.column_stack([inputs, np.full(9, 0.1)]).astype(np.float32)).mean

    assert abs(inputs[np.argmin(mean)] - 0.3) < 0.15  # its valley, seen in the other task only


def test_the_gradient_of_the_joint_model_is_that_of_its_loss() -> None:
    from rocm_perf_lab.autotune.multitask_process import _levels

    random = np.random.default_rng(0)
    tasks = random.random((4, 2))[random.integers(0, 4, 12)]
    process, targets = MultiTaskProcess(3, 2), random.standard_normal(12)
    steps, trend = process._steps(random.random((12, 3)))
    rest = (targets, steps, steps**2, trend, (tasks[:, None] - tasks) ** 2, _levels(tasks, tasks))
    theta = process._theta + 0.1

    _, gradient = process._joint_loss(theta, *rest)

    for position in range(len(theta)):
        step = np.zeros(len(theta))
        step[position] = 1e-6
        difference = (process._joint_loss(theta + step, *rest)[0] - process._joint_loss(theta - step, *rest)[0]) / 2e-6
        assert gradient[position] == pytest.approx(difference, abs=1e-4)


@dataclass(frozen=True)
class Workload:
    """Times that grow with n, with the best tile near the square root of n."""

    space: ShapedSpace

    def time(self, row: int) -> float:
        values = self.space.complete(self.space.configuration(row))
        n, tile, waves = (float(values[name]) for name in ("n", "tile", "waves"))
        return float(n * 1e-3 * (1 + abs(np.log2(tile / n**0.5)) + 0.2 * (waves - 1)))

    def search(self, strategy: MultiTaskSearch, budget: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        while len(found) < budget:
            rows = [row for row, _ in found]
            choice = strategy.choose(Observations(np.array(rows, np.int64), np.array([self.time(row) for row in rows])))
            if choice is None:
                break
            found.append((choice.row, choice.phase))
        return found


def test_a_search_finds_the_best_of_each_shape_and_repeats_nothing() -> None:
    space = space_of_tiles(256, 1024, 4096, 16384)
    workload = Workload(space)

    found = workload.search(MultiTaskSearch(space, budget=28), 28)

    rows = [row for row, _ in found]
    assert len(set(rows)) == 28
    for task in range(4):
        best = min(workload.time(row) for row in space.rows_of(task))
        assert min(workload.time(row) for row in rows if space.tasks[row] == task) == best


def test_the_last_measurements_complete_the_selected_configurations() -> None:
    space = space_of_tiles(256, 1024, 4096, 16384)

    found = Workload(space).search(MultiTaskSearch(space, most=1, budget=20), 20)

    measured = {(int(space.tasks[row]), int(space.configurations[row])) for row, _ in found}
    assert any(all((task, column) in measured for task in range(4)) for column in range(space.table.shape[1]))


def test_results_of_another_gpu_help() -> None:
    space = space_of_tiles(256, 1024, 4096, 16384)
    workload = Workload(space)
    earlier = [
        EarlierTask(
            space.shapes[task].values,
            "other",
            tuple((space.configuration(row), 3 * workload.time(row)) for row in space.rows_of(task).tolist()),
        )
        for task in range(4)
    ]

    found = workload.search(MultiTaskSearch(space, budget=16, earlier=earlier, gpu="this"), 16)

    for task in range(4):
        best = min(workload.time(row) for row in space.rows_of(task))
        assert min(workload.time(row) for row, _ in found if space.tasks[row] == task) <= 1.2 * best


def trial(number: int, size: int, tile: int, runtime_ms: float, **details: Any) -> TrialRecord:
    parameters = {"shape": f"n={size}", "tile": tile, "waves": 1}
    return TrialRecord(number, parameters, "seed", runtime_ms, None, {}, None, None, details)


def test_a_workload_is_selected_by_its_objective_and_loses_a_share_of_the_best_value() -> None:
    space = space_of_tiles(64, 128)
    rates = [(64, 16, 200.0), (64, 32, 100.0), (128, 16, 40.0), (128, 32, 50.0)]
    trials = [trial(i, size, tile, 1.0, rate=rate) for i, (size, tile, rate) in enumerate(rates)]

    one = tuned_workload(space, trials, 1, Goals((Goal("rate", maximise=True),)))
    each = tuned_workload(space, trials, None, Goals((Goal("rate", maximise=True),)))

    assert one.configurations == ({"tile": 16, "waves": 1},)
    assert [shape.regret for shape in one.shapes] == [0.0, pytest.approx(0.2)]  # 40 instead of 50
    assert each.weighted_regret == 0.0
    assert [shape.best.value for shape in each.shapes if shape.best] == [200.0, 50.0]


def test_values_of_any_sign_select_as_well() -> None:
    space = space_of_tiles(64)
    trials = [trial(0, 64, 16, 1.0, gain=-2.0), trial(1, 64, 32, 1.0, gain=0.0), trial(2, 64, 64, 1.0, gain=-1.0)]

    (shape,) = tuned_workload(space, trials, None, Goals((Goal("gain"),))).shapes

    assert shape.chosen is not None and (shape.chosen.trial.number, shape.chosen.value) == (0, -2.0)


def test_the_winner_of_a_race_is_selected_with_the_time_of_the_race() -> None:
    space = space_of_tiles(64)
    trials = [trial(0, 64, 16, 1.00), trial(1, 64, 32, 1.01), trial(2, 64, 64, 1.09)]
    standings = [RaceStanding(1, "winner", 1.20, 30, 6), RaceStanding(0, "slower", 1.25, 30, 6)]  # the clock is slower now

    tuned = tuned_workload(space, trials, None, None, {"n=64": RaceResult(tuple(standings))})

    (shape,) = tuned.shapes
    assert tuned.configurations == ({"tile": 32, "waves": 1},)
    assert shape.chosen is not None and shape.chosen.trial.runtime_ms == 1.20
    assert shape.regret == 0.0
