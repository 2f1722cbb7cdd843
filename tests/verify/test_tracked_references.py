"""Error bounds of references as people write them: conversions, loops, and arithmetic of Python numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.verify.reference_bounds import output_bounds
from tests.builders.descriptions import buffer, describe, launch_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription

ROWS, COLUMNS = 6, 512
SUMS = {
    "method": "return x.astype(np.float64).sum(axis=1)",
    "asarray": "return np.asarray(x, np.float64).sum(axis=1)",
    "array": "return np.array(x).sum(axis=1)",
    "array of rows": "return np.array([row.sum() for row in x])",
    "imported name": "from numpy import sum as total\n    return total(asarray(x), axis=1)",
    "other name of NumPy": "return xp.ascontiguousarray(x).sum(axis=1)",
    "loop over columns": "y = np.zeros(len(x))\n    for k in range(x.shape[1]):\n        y += x[:, k]\n    return y",
    "sums in Python": "y = np.empty(len(x))\n    for i in range(len(x)):\n        y[i] = sum(map(float, x[i]))\n    return y",
    "lists": "return np.array([sum(row) for row in x.tolist()])",
    "elements": "y = np.zeros(len(x))\n    for i, k in np.ndindex(x.shape):\n        y[i] += x[i, k]\n    return y",
    "exact sums": "return np.array([math.fsum(row) for row in x])",
}
HEAD = "import math\nimport numpy as np\nimport numpy as xp\nfrom numpy import asarray\n\n\n"


def sums(directory: Path, body: str) -> tuple[KernelDescription, Launch]:
    """Return a kernel that adds the elements of rows, with a reference of which only the body is given."""
    (directory / "reference.py").write_text(f"{HEAD}def f(x, **_):\n    {body}\n")
    arguments = [
        {"name": "x", "kind": "buffer", "dtype": "f32", "shape": [ROWS, COLUMNS], "init": {"kind": "uniform", "seed": 1}},
        {"name": "y", "kind": "buffer", "dtype": "f32", "shape": [ROWS], "access": "out"},
    ]
    description = describe(
        arguments=arguments, params={}, defines={}, grid=[1], block=[64], reference="reference.py:f", directory=directory
    )
    return description, launch_of(description)


def allowed(directory: Path, body: str) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return the allowed errors of the sums, and the summands."""
    description, launch = sums(directory, body)
    bounds = output_bounds(description, launch)
    assert bounds is not None
    return bounds["y"].allowed(), buffer(launch, "x").data.astype(np.float32)


@pytest.mark.parametrize("body", SUMS.values(), ids=SUMS)
def test_a_sum_in_f32_is_allowed_and_a_lost_summand_is_not(body: str, tmp_path: Path) -> None:
    limit, x = allowed(tmp_path, body)
    exact = x.astype(np.float64).sum(axis=1)

    one_by_one = np.add.accumulate(x, axis=1, dtype=np.float32)[:, -1]

    assert (np.abs(one_by_one - exact) <= limit).all()
    assert (limit < np.median(np.abs(x))).all()


def test_the_bound_does_not_depend_on_how_the_reference_converts_its_inputs(tmp_path: Path) -> None:
    method, _ = allowed(tmp_path, SUMS["method"])

    converted = [allowed(tmp_path, SUMS[name])[0] for name in ("asarray", "array", "other name of NumPy")]

    assert all(np.array_equal(method, other) for other in converted)


@pytest.mark.parametrize(
    "body",
    [
        "return np.array(x)[:, 0]",
        "return np.array([row[-1] for row in x])",
        "y = np.zeros(len(x))\n    for i in range(len(x)):\n        y[i] = x[len(x) - 1 - i, 3]\n    return y",
        "return np.array([max(row) for row in x.tolist()])",
    ],
)
def test_copies_are_exact_also_in_loops(body: str, tmp_path: Path) -> None:
    limit, _ = allowed(tmp_path, body)

    assert not limit.any()


def test_a_reference_that_computes_in_f64_has_errors_like_a_kernel_in_f64(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(f"{HEAD}def f(x, **_):\n    return (x[:, 0] + x[:, 1] + x[:, 2]) / 6\n")
    arguments = [
        {"name": "x", "kind": "buffer", "dtype": "f64", "shape": [4096, 3], "init": {"kind": "normal", "seed": 1}},
        {"name": "y", "kind": "buffer", "dtype": "f64", "shape": [4096], "access": "out"},
    ]
    description = describe(
        arguments=arguments, params={}, defines={}, grid=[1], block=[64], reference="reference.py:f", directory=tmp_path
    )
    launch = launch_of(description)
    x = buffer(launch, "x").data.astype(np.float64)

    bounds = output_bounds(description, launch)

    assert bounds is not None
    other_order = (x[:, 0] + (x[:, 1] + x[:, 2])) * (1 / 6)
    assert (np.abs(other_order - (x[:, 0] + x[:, 1] + x[:, 2]) / 6) <= bounds["y"].allowed()).all()
