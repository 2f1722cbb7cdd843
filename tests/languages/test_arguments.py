"""Data types of arguments: names of other systems are suggestions, not aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.languages.arguments import ScalarArgument, nearest_type

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("float32", "f32"),
        ("Float", "f32"),
        ("float16", "f16"),
        ("half", "f16"),
        ("double", "f64"),
        ("bfloat16", "bf16"),
        ("int", "i32"),
        ("int32_t", "i32"),
        ("unsigned int", "u32"),
        ("size_t", "u64"),
        ("uint8", "u8"),
        ("float8_e4m3fnuz", "f8e4m3fnuz"),
        ("f33", "f32"),
        ("quaternion", None),
    ],
)
def test_a_name_of_another_system_suggests_the_data_type(word: str, dtype: str | None) -> None:
    assert nearest_type(word) == dtype


@pytest.mark.parametrize("dtype", ["quaternion", 32, None])
def test_without_a_suggestion_all_data_types_are_listed(dtype: object) -> None:
    with pytest.raises(ValidationError) as caught:
        ScalarArgument.model_validate({"name": "n", "kind": "scalar", "dtype": dtype, "value": 1})

    (error,) = caught.value.errors()
    assert error["ctx"]["hint"].startswith("data types: i8, u8")


def test_a_wrong_data_type_is_one_error_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "experiments" / "scale"
    directory.mkdir(parents=True)
    argument = "{name: x, kind: buffer, dtype: float32, shape: [8], init: {kind: arange}}"
    kernel = f"name: scale\nsource: scale.hip\nentry: scale\narguments:\n  - {argument}\ngrid: [1]\nblock: [64]\n"
    (directory / "kernel.yaml").write_text(kernel)
    monkeypatch.chdir(tmp_path)

    code = run_lab(["job=profile", "kernel=scale", "tracking=none"])

    error = capsys.readouterr().err
    assert code == 2
    assert "kernel.arguments[0].dtype: unknown data type (it is 'float32')" in error
    assert "kernel.yaml:5" in error
    assert "hint: use f32" in error
