"""Spaces of other tuners."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.autotune.spaces.space import SpaceError
from rocm_perf_lab.autotune.spaces.space_files import load_space
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path


def written(directory: Path, content: Any) -> Path:
    path = directory / "space.json"
    path.write_text(json.dumps(content))
    return path


def t1(parameters: list[dict[str, Any]], conditions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "General": {"BenchmarkName": "GEMM", "FormatVersion": 1},
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": {"Language": "HIP", "KernelName": "gemm"},
    }


def test_a_t1_file_of_kernel_tuner(tmp_path: Path) -> None:
    content = t1(
        [
            {"Name": "block_size_x", "Type": "int", "Values": "[16, 32, 64]", "Default": 16},
            {"Name": "block_size_y", "Type": "int", "Values": [1, 2, 4]},
            {"Name": "layout", "Type": "string", "Values": "['row', 'col']"},
        ],
        [{"Parameters": ["block_size_x", "block_size_y"], "Expression": "32 <= block_size_x * block_size_y <= 128"}],
    )

    space = load_space(written(tmp_path, content))

    assert space.values == {"block_size_x": (16, 32, 64), "block_size_y": (1, 2, 4), "layout": ("row", "col")}
    assert len(space) == 2 * (2 + 3 + 2)  # 16 x {2, 4}, 32 x {1, 2, 4}, 64 x {1, 2}


def test_a_list_of_triton_configurations(tmp_path: Path) -> None:
    content = [
        {"kwargs": {"BLOCK_M": 64, "BLOCK_N": 32}, "num_warps": 4, "num_stages": 2, "maxnreg": None},
        {"kwargs": {"BLOCK_M": 128, "BLOCK_N": 32}, "num_warps": 8, "num_stages": 2, "maxnreg": None},
    ]

    space = load_space(written(tmp_path, content))

    assert [space.configuration(row) for row in range(2)] == [
        {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
        {"BLOCK_M": 128, "BLOCK_N": 32, "num_warps": 8, "num_stages": 2},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (t1([{"Name": "x", "Values": "range(3)"}], []), "ConfigurationSpace.TuningParameters.0.Values: 'range(3)' is not a list"),
        (t1([{"Name": "x"}], []), "ConfigurationSpace.TuningParameters.0.Values: Field required"),
        (t1([{"Name": "x", "Values": "[1]"}] * 2, []), "x is listed twice"),
        ({"ConfigurationSpace": 3}, "not a valid T1 file of Kernel Tuner: ConfigurationSpace"),
        (t1([{"Name": "x", "Values": "[1]"}], [{"Expression": "y > 1"}]), "unknown name 'y'"),
        (t1([{"Name": "x", "Values": "[1]"}], [{"Expression": "x > 1"}]), "'x > 1' excludes all configurations"),
        (t1([{"Name": "x", "Values": "[[1], [2]]"}], []), "invalid space"),
        ([{"kwargs": {"x": [1]}, "num_warps": 4}], "x is [1]"),
    ],
)
def test_an_error_names_the_key(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        load_space(written(tmp_path, content))

    assert message in str(caught.value)
    assert "space.json" in str(caught.value)


def test_a_plain_space_is_not_mistaken_for_a_t1_file(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="is not a key of a space"):
        load_space(written(tmp_path, {"parameters": {"x": [1]}, "General": 1}))
