"""References of a kernel: expressions and functions over arguments and params."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.code_object import CodeObject
from rocm_perf_lab.verify.reference import KernelReferenceError, expected_outputs

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def expected(reference: Any, directory: Path) -> NDArray[Any]:
    """Return the reference of a kernel out = scale * in + offset, whose input has a Python keyword as its name."""
    arguments = [
        {"name": "in", "kind": "buffer", "dtype": "f32", "shape": ["n"], "init": {"kind": "arange"}},
        {"name": "out", "kind": "buffer", "dtype": "f32", "shape": ["n"], "access": "out"},
        {"name": "scale", "kind": "scalar", "dtype": "f32", "value": 0.1},
        {"name": "offset", "kind": "scalar", "dtype": "i32", "value": "n // 2"},
    ]
    values = {"name": "k", "source": "k.hip", "entry": "k", "params": {"n": 8}, "grid": [1], "block": [64]}
    description = KernelDescription.model_validate(
        {**values, "arguments": arguments, "reference": reference, "directory": directory}
    )
    launch = build_launch(description, CodeObject(data=b"", architecture="gfx942", target_id="gfx942", kernels=()), "k")
    outputs = expected_outputs(description, launch)
    assert outputs is not None
    return outputs["out"]


WANTED = (np.float64(np.float32(0.1)) * np.arange(8) + 4).astype(np.float32)
"""0.1 is rounded to f32 before the kernel sees it."""


def test_an_expression_may_name_scalars_and_a_python_keyword(tmp_path: Path) -> None:
    np.testing.assert_array_equal(expected({"out": "scale * in + offset"}, tmp_path), WANTED)


@pytest.mark.parametrize(
    "signature",
    ["in_, scale, offset", "in_, out, scale, offset, n", "*, in_, scale, offset, **others"],
    ids=["some names", "all names", "any name"],
)
def test_a_function_receives_the_names_that_it_has_parameters_for(signature: str, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(f"def f({signature}):\n    return scale * in_ + offset\n")

    np.testing.assert_array_equal(expected("reference.py:f", tmp_path), WANTED)


def test_a_parameter_that_no_argument_fills_is_an_error_with_the_known_names(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text("def f(scal):\n    return scal\n")

    with pytest.raises(KernelReferenceError, match="missing 1 required positional argument: 'scal'") as caught:
        expected("reference.py:f", tmp_path)

    assert "scale, offset" in (caught.value.hint or "")
