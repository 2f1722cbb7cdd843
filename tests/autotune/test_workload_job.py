"""`job=autotune` with several shapes, on the emulator: one search, its files, an earlier result, and wrong settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.jobs.autotune.resume import resume

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "shapes.schema.json"
KERNEL = ["job=autotune", "kernel=vector_add", "space=vector_add", "tracking=none", "device=emulator"]
SHAPES = "autotune.shapes=[{n: 256},{n: 1024,weight: 2},{n: 4096}]"


def tuned(directory: Path, *words: str) -> Any:
    assert run_lab([*KERNEL, f"hydra.run.dir={directory}", *words]) == 0
    content = json.loads((directory / "shapes.json").read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)
    return content


@pytest.mark.slow
def test_a_workload_is_tuned_in_one_search_and_resumed_and_reused(tmp_path: Path) -> None:
    first = tuned(tmp_path / "first", SHAPES, "autotune.configurations=1", "autotune.budget=9")

    assert [shape["weight"] for shape in first["shapes"]] == [0.25, 0.5, 0.25]
    assert len(first["configurations"]) == 1
    assert first["evaluated_configs"] == len(first["trials"]) == 9
    for shape in first["shapes"]:
        label = f"n={shape['shape']['n']}"
        times = [trial["runtime_ms"] for trial in first["trials"] if trial["parameters"]["shape"] == label]
        assert shape["regret"] == pytest.approx(shape["runtime_ms"] / min(times) - 1)
        assert shape["runtime_ms"] in times  # measured, not predicted
    params = yaml.safe_load((tmp_path / "first" / "kernel_params.yaml").read_text())["params"]
    use = [f"kernel.params.{name}={value}" for name, value in {**params, "n": 256}.items()]
    assert run_lab(["job=profile", *use, *KERNEL[1:], "passes.plots=false", f"hydra.run.dir={tmp_path / 'use'}"]) == 0
    assert json.loads((tmp_path / "use" / "profile.json").read_text())["kernel"]["block"] == [params["block"], 1, 1]

    resume(tmp_path / "first", {"autotune.budget": 10})
    again = json.loads((tmp_path / "first" / "shapes.json").read_text())
    assert again["evaluated_configs"] == 10
    assert again["trials"][:9] == first["trials"]

    other = tuned(
        tmp_path / "other", "autotune.shapes=[{n: 512},{n: 2048}]", f"autotune.prior={tmp_path / 'first'}", "autotune.budget=5"
    )
    assert other["evaluated_configs"] == 5


@pytest.mark.slow
def test_a_workload_has_limits_and_a_stopping_rule(tmp_path: Path) -> None:
    limits = ["autotune.limits=['block <= 128', 'vgpr <= 512']", "autotune.stop_when={better_than: 0.02, probability: 0.9}"]

    found = tuned(tmp_path / "run", "autotune.shapes=[{n: 256},{n: 512},{n: 1024},{n: 2048}]", *limits)

    assert all(configuration["block"] <= 128 for configuration in found["configurations"])
    assert found["stop_reason"] == "with 10% probability nothing is more than 2% better"
    assert found["evaluated_configs"] < found["search_space_size"]


@pytest.mark.slow
def test_every_shape_of_a_workload_has_a_front_of_several_objectives(tmp_path: Path) -> None:
    objectives = "autotune.objectives=[runtime_ms,{metric: block,direction: maximise}]"

    found = tuned(tmp_path / "run", SHAPES, objectives, "autotune.configurations=1", "autotune.budget=12")

    assert found["objective"] == "minimise runtime_ms"
    assert len(found["configurations"]) == 1
    for shape in found["shapes"]:
        label = f"n={shape['shape']['n']}"
        own = [trial for trial in found["trials"] if trial["parameters"]["shape"] == label]
        costs = {trial["trial"]: (trial["runtime_ms"], -trial["parameters"]["block"]) for trial in own}
        assert shape["regret"] is not None  # the selected configuration was measured for the shape
        assert shape["best_ms"] == min(cost[0] for cost in costs.values())
        for member in shape["front"]:
            cost = costs[member["trial"]]
            assert member["values"] == {"runtime_ms": cost[0], "block": -cost[1]}
            assert not any(other[0] <= cost[0] and other[1] <= cost[1] and other != cost for other in costs.values())
        largest = max(trial["parameters"]["block"] for trial in own)
        assert largest in [member["parameters"]["block"] for member in shape["front"]]


@pytest.mark.slow
def test_shapes_are_tuned_with_features_of_the_compiled_configurations(tmp_path: Path) -> None:
    found = tuned(
        tmp_path / "run", "autotune.shapes=[{n: 256},{n: 1024}]", "autotune.features=[parameters,compiled]", "autotune.budget=6"
    )

    assert found["evaluated_configs"] == 6
    assert all(shape["regret"] is not None for shape in found["shapes"])


def test_tables_check_constraints_for_shapes_that_were_not_tuned(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    limits = ["block <= n", "log2(rounded) >= log2(block)", "block >= 64"]
    space.write_text(yaml.safe_dump({"parameters": {"block": [64, 128]}, "derived": {"rounded": "2 * n"}, "constraints": limits}))

    tuned(tmp_path / "run", f"autotune.space={space}", "autotune.shapes=[{n: 64},{n: 256}]", "autotune.budget=4")

    header = (tmp_path / "run" / "configurations.hpp").read_text()
    assert "(static_cast<long long>(configuration_.block) <= static_cast<long long>(n))" in header
    assert "// Not checked for shapes that were not tuned:\n//   log2(rounded) >= log2(block)\n" in header
    table = (tmp_path / "run" / "triton_configs.py").read_text()
    assert "(values['block'] <= values['n'])" in table
    assert "Not checked" not in table  # Python has the logarithm
    assert ">= 64" not in table + header  # holds for every shape


def test_a_recording_names_the_shapes(tmp_path: Path) -> None:
    launches = [{"grid": [4, 1, 1], "block": [256, 1, 1], "calls": 1, "total_ms": 1.0}]
    path = tmp_path / "recording.json"
    path.write_text(json.dumps({"kernels": [{"name": "vector_add(float*)", "mangled_name": "vector_add", "launches": launches}]}))

    found = tuned(tmp_path / "run", f"autotune.shapes={path}", "autotune.budget=2")

    assert [shape["shape"] for shape in found["shapes"]] == [{"n": 1024}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["autotune.shapes=[]"], "there are no shapes"),
        (["autotune.shapes=[{rows: 4}]"], "has no parameter 'rows'"),
        (["autotune.shapes=[{block: 4}]"], "block, a name of the shapes"),
        ([SHAPES, "autotune.budget=3"], "3 evaluations are too few for 3 shapes"),
        ([SHAPES, "autotune.model=classic"], "this setting is for the search of one shape"),
        ([SHAPES, "autotune.objectives=[vgpr]", "autotune.prior=nowhere"], "earlier results are times"),
        ([SHAPES, "autotune.prior=nowhere"], "not the result of a search for shapes"),
        (["autotune.shapes={empty}"], "no launches of vector_add, so no shapes"),
        (["autotune.shapes=missing.yaml"], "cannot read the shapes"),
    ],
)
def test_wrong_settings_are_one_error(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"kernels": []}')

    code = run_lab([*KERNEL, f"hydra.run.dir={tmp_path / 'run'}", *(word.replace("{empty}", str(empty)) for word in words)])

    shown = " ".join(capsys.readouterr().err.split())
    assert code == 2
    assert message in shown
    assert not (tmp_path / "run" / "shapes.json").exists()
