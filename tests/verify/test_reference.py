"""References of a kernel: expressions and functions over arguments and params."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.verify.reference import KernelReferenceError, expected_outputs
from tests.builders.descriptions import buffer, describe, launch_of

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
    description = describe(arguments=arguments, params={"n": 8, "block": 64}, reference=reference, directory=directory)
    launch = launch_of(description)
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


def test_a_reference_is_computed_in_float64_and_rounded_once() -> None:
    description = describe(reference={"y": "x / 3"})
    launch = launch_of(description)

    expected = expected_outputs(description, launch)

    assert expected is not None
    x = buffer(launch, "x").data.astype(np.float64)
    np.testing.assert_array_equal(expected["y"], (x / 3).astype(np.float32))


def test_an_expression_adds_bytes_as_int_like_the_kernel(tmp_path: Path) -> None:
    arguments = [
        {"name": "a", "kind": "buffer", "dtype": "i8", "shape": ["n"], "init": {"kind": "constant", "value": 100}},
        {"name": "total", "kind": "buffer", "dtype": "i32", "shape": ["n"], "access": "out"},
    ]
    description = describe(
        arguments=arguments, params={"n": 2, "block": 64}, reference={"total": "a * a + a"}, directory=tmp_path
    )

    outputs = expected_outputs(description, launch_of(description))

    assert outputs is not None
    assert outputs["total"].tolist() == [10_100, 10_100]


def test_a_reference_of_another_shape_is_refused_with_both_shapes() -> None:
    description = describe(reference={"y": "sum(x)"})

    with pytest.raises(KernelReferenceError, match=r"shape \(\), the output \(1000,\)"):
        expected_outputs(description, launch_of(description))


def test_a_reference_may_be_a_function_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "truth.py").write_text("def double(x, **rest):\n    return x * 2\n")
    description = describe(directory=tmp_path, reference="truth.py:double")
    launch = launch_of(description)

    expected = expected_outputs(description, launch)

    assert expected is not None
    np.testing.assert_array_equal(expected["y"], buffer(launch, "x").data * 2)


def test_a_missing_reference_function_is_named() -> None:
    description = describe(reference="truth.py:double")

    with pytest.raises(KernelReferenceError, match="no reference named"):
        expected_outputs(description, launch_of(description))


def test_baseline_output_means_no_expectation() -> None:
    description = describe(reference="baseline output")

    assert expected_outputs(description, launch_of(description)) is None


def test_one_output_may_come_from_a_function(tmp_path: Path) -> None:
    (tmp_path / "truth.py").write_text("def double(x, **_):\n    return 2 * x\n")
    description = describe(directory=tmp_path, reference={"y": "truth.py:double"})

    launch = launch_of(description)
    expected = expected_outputs(description, launch)

    assert expected is not None
    np.testing.assert_array_equal(expected["y"], buffer(launch, "x").data * 2)


@pytest.mark.parametrize(
    ("source", "message"),
    [("def double(x, **_):\n    return 1 / 0\n", "ZeroDivisionError"), ("import nowhere_to_be_found\n", "cannot be imported")],
)
def test_a_reference_that_fails_is_the_users_error(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "truth.py").write_text(source)
    description = describe(directory=tmp_path, reference="truth.py:double")

    with pytest.raises(KernelReferenceError, match=message):
        expected_outputs(description, launch_of(description))
