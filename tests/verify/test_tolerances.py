"""Error bounds of outputs: exactness, growth with the number of terms, near-ties, declared tolerances."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.verify.error_bounds import SAFETY, OutputBound, observed_bounds, shared_factors
from rocm_perf_lab.verify.outputs import verify_outputs
from rocm_perf_lab.verify.reference import expected_outputs
from rocm_perf_lab.verify.reference_bounds import bounds_of_reference, output_bounds
from rocm_perf_lab.verify.rounding import UNIT_ROUNDOFF, growth
from rocm_perf_lab.verify.run_bounds import bounds_of_runs, perturbed_launch
from rocm_perf_lab.verify.tolerances import applied_tolerances, kernel_tolerances, tolerance_notes
from tests.builders.descriptions import buffer, describe, launch_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription


def kernel(
    reference: str, *, x: Any, dtype: str = "f32", output: str | None = None, shape: tuple[int, ...] | None = None
) -> tuple[KernelDescription, Launch]:
    """Return a kernel y = f(x) with given inputs."""
    values = np.asarray(x)
    sizes = list(values.shape if shape is None else shape)
    arguments = [
        {"name": "x", "kind": "buffer", "dtype": dtype, "shape": list(values.shape), "init": {"kind": "normal", "seed": 1}},
        {"name": "y", "kind": "buffer", "dtype": output or dtype, "shape": sizes, "access": "out"},
    ]
    description = describe(arguments=arguments, params={}, defines={}, grid=[1], block=[64], reference={"y": reference})
    launch = launch_of(description)
    given = buffer(launch, "x")
    changed = replace(given, data=values.astype(given.data.dtype))
    return description, replace(launch, arguments=tuple(changed if a is given else a for a in launch.arguments))


def bound(*args: Any, **kwargs: Any) -> OutputBound:
    found = output_bounds(*kernel(*args, **kwargs))
    assert found is not None
    return found["y"]


def allowed(*args: Any, **kwargs: Any) -> NDArray[np.float64]:
    return bound(*args, **kwargs).allowed()


def test_a_copy_is_exact() -> None:
    assert not allowed("reshape(x, (4,))", x=[0.1, 3.0, -5.0, 1e30]).any()


@pytest.mark.parametrize("reference", ["abs(x)", "-x", "maximum(x, 1)", "where(x > 0, 1.0, 0.0)"])
def test_operations_without_rounding_are_exact(reference: str) -> None:
    assert not allowed(reference, x=[0.1, -3.0, 0.0, 1e30]).any()


def test_integers_are_exact() -> None:
    assert not allowed("x * 3 + 1", x=[1, 2, 100_000], dtype="i32").any()


def test_an_operation_is_allowed_a_few_roundings_of_its_result() -> None:
    error = allowed("x * 3", x=[1.0, 0.1, -100.0])

    np.testing.assert_array_less(np.array([1.0, 0.1, 100.0]) * 3 * UNIT_ROUNDOFF * 2, error)
    np.testing.assert_array_less(error, np.array([1.0, 0.1, 100.0]) * 3 * UNIT_ROUNDOFF * 5)


@pytest.mark.parametrize(("terms", "roundings"), [(1, 1.0), (3, 1.0), (300, 10.0), (7500, 50.0), (1 << 20, 19.04)])
def test_errors_of_sums_grow_with_the_root_of_the_terms_up_to_the_longest_chain(terms: int, roundings: float) -> None:
    assert growth(terms) == pytest.approx(roundings, rel=1e-3)


def test_the_bound_of_a_positive_sum_is_its_growth() -> None:
    x = np.random.default_rng(1).uniform(0.5, 1.5, 1200).astype(np.float32)

    error = allowed("reshape(sum(x), (1,))", x=x, shape=(1,))

    total = x.astype(np.float64).sum()
    assert error[0] == pytest.approx(SAFETY * 20 * UNIT_ROUNDOFF * total, rel=0.05)
    assert error[0] < x.min() / 10  # one omitted term is detected


@pytest.mark.parametrize("terms", [1000, 65536, 1 << 20])
def test_eight_omitted_terms_of_the_reduction_are_detected(terms: int) -> None:
    x = np.random.default_rng(terms).uniform(0, 1, terms).astype(np.float32)
    description, launch = kernel("reshape(sum(x), (1,))", x=x, shape=(1,))
    expected = expected_outputs(description, launch)
    assert expected is not None
    tolerances = kernel_tolerances(description, launch, expected)
    short = {"y": np.array([x[:-8].astype(np.float64).sum()], np.float32)}

    unchecked = output_bounds(description, launch)
    assert unchecked is not None
    assert not verify_outputs(short, expected, {"y": unchecked["y"].allowed()}).passed
    assert verify_outputs({"y": np.add.accumulate(x)[-1:] if terms == 1000 else expected["y"]}, expected, tolerances).passed


def test_a_cancelled_difference_may_have_the_error_of_its_parts() -> None:
    x = np.array([1e4, 1.0], np.float32)

    error = allowed("sqrt(x * x + 1) - x", x=x)

    assert error[0] > 1e4 * UNIT_ROUNDOFF  # although the result is 5e-5
    assert error[1] < 20 * UNIT_ROUNDOFF


def test_a_quantised_output_may_differ_only_at_near_ties() -> None:
    x = np.array([0.4, 0.5000000298 * 2, 1.2, 2.5, 2.50000023], np.float32)

    error = allowed("int32(round(x * 1.0))", x=x, output="i32")

    np.testing.assert_array_equal(error, [0, 0, 0, 1, 1])


def test_an_index_of_a_maximum_may_differ_only_at_near_ties() -> None:
    x = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 3.0000002]], np.float32)

    error = allowed("int32(argmax(exp(x), axis=1))", x=x, output="i32", shape=(2,))

    np.testing.assert_array_equal(error, [0, 1])


def test_an_f16_output_may_differ_by_one_unit_in_the_last_place() -> None:
    x = np.array([1.0, 0.3], np.float16)

    error = allowed("x * 3", x=x, dtype="f16")

    assert error[0] == pytest.approx(2.0**-9, rel=0.01)  # 3 has an ulp of 2^-9
    assert 2.0**-11 < error[1] < 2.0**-10 + 2.0**-11


def test_f64_is_compared_as_f64() -> None:
    error = allowed("x * 3", x=[1.0], dtype="f64")

    assert 0 < error[0] < 1e-14


def test_nan_and_infinity_have_no_bound_of_their_own() -> None:
    error = allowed("exp(x)", x=[np.nan, np.inf, 1.0])

    assert error[2] > 0
    assert np.isfinite(error).all()


def test_functions_that_fill_an_array_are_followed(tmp_path: Any) -> None:
    (tmp_path / "reference.py").write_text(
        "import numpy as np\ndef f(x):\n    out = np.zeros(x.shape)\n"
        "    for i in range(x.shape[0]):\n        out[i] = np.linalg.norm(x[i]) * np.ones(x.shape[1])\n    return out\n"
    )
    description, launch = kernel("x", x=np.random.default_rng(2).normal(size=(3, 300)))
    description = description.model_copy(update={"reference": "reference.py:f", "directory": tmp_path})

    found = output_bounds(description, launch)

    assert found is not None
    relative = found["y"].allowed() / expected_outputs(description, launch)["y"]  # type: ignore[index]
    assert 5 * UNIT_ROUNDOFF < relative.min() < relative.max() < 100 * UNIT_ROUNDOFF


def test_a_less_accurate_kernel_allows_twice_its_error() -> None:
    description, launch = kernel("x * 3", x=np.linspace(1, 2, 50))
    expected = expected_outputs(description, launch)
    bounds = output_bounds(description, launch)
    assert expected is not None and bounds is not None
    output = {"y": (expected["y"] * (1 + 50 * UNIT_ROUNDOFF)).astype(np.float32)}

    observed = observed_bounds(bounds, expected, output)

    largest = (observed["y"].allowed() / expected["y"]).max() / UNIT_ROUNDOFF
    assert 100 < largest < 200
    assert shared_factors([observed, observed])["y"] == pytest.approx(2 * observed["y"].ratio)


def test_a_kernel_without_a_reference_is_bounded_by_its_response_to_its_inputs() -> None:
    _, launch = kernel("x", x=np.linspace(1, 2, 300))

    def run(case: Launch) -> dict[str, NDArray[Any]]:
        x = next(a.data for a in case.arguments if isinstance(a, BufferValue) and a.name == "x").astype(np.float64)
        return {"y": (x**2 - 1).astype(np.float32)}

    bounds = bounds_of_runs(launch, run(launch), [run(perturbed_launch(launch, number)) for number in range(2)])

    error = bounds["y"].allowed()
    assert error[0] > UNIT_ROUNDOFF  # the result is 0, but its condition is not
    assert error.max() < 1000 * UNIT_ROUNDOFF


def test_cancelled_sums_beside_short_axes_and_undefined_elements_keep_the_typical_bound() -> None:
    x = np.random.default_rng(5).normal(size=(400, 2, 64)).astype(np.float32)
    x[:200] = 0.0
    _, launch = kernel("sum(x, axis=2)", x=x, shape=(400, 2))

    def run(case: Launch) -> dict[str, NDArray[Any]]:
        return {"y": buffer(case, "x").data.astype(np.float64).sum(axis=2).astype(np.float32)}

    runs = [run(perturbed_launch(launch, number)) for number in range(2)]
    error = bounds_of_runs(launch, run(launch), runs)["y"].allowed()[200:]

    reversed_sums = np.add.accumulate(x[200:, :, ::-1], axis=2, dtype=np.float32)[:, :, -1]
    assert error.min() > 0.4 * np.median(error)
    assert (np.abs(reversed_sums - x[200:].astype(np.float64).sum(axis=2)) <= error).all()


def test_undefined_elements_have_the_bound_of_the_defined_ones() -> None:
    rng = np.random.default_rng(6)
    exact = rng.normal(size=100)
    exact[::4] = np.nan  # the reference multiplies infinity by a zero of the padding
    zeros = np.zeros(100)
    own = OutputBound(np.full(100, 6.0), zeros, zeros, exact=exact)
    of_runs = OutputBound(np.full(100, 2.0), zeros, zeros)

    completed = own.completed(of_runs, rng.normal(size=100).astype(np.float32))

    np.testing.assert_array_equal(completed.scale, np.full(100, 6.0))


def test_a_reference_that_ignores_a_scalar_bounds_no_output() -> None:
    description, launch = kernel("x * 1.5", x=np.linspace(1, 2, 50))
    x = np.linspace(1, 2, 50).astype(np.float32)

    assert list(bounds_of_reference(description, launch, {"y": x * np.float32(1.5)})) == ["y"]
    assert bounds_of_reference(description, launch, {"y": x * np.float32(-2)}) == {}


def test_equal_launches_have_equal_bounds() -> None:
    x = np.random.default_rng(3).normal(size=(5, 60))

    one, other = (allowed("exp(x) / sum(exp(x), axis=1, keepdims=True)", x=x) for _ in range(2))

    np.testing.assert_array_equal(one, other)


def test_a_declared_tolerance_is_looser_only_with_a_note() -> None:
    derived = {"y": np.array([0.1, 0.4])}
    expected = {"y": np.array([1.0, 2.0])}
    plain, noted = Tolerance(rtol=0, atol=0.2), Tolerance(rtol=0, atol=0.2, note="fast tanh")

    without = applied_tolerances({"y": plain}, derived, expected)["y"]

    np.testing.assert_array_equal(without, [0.1, 0.2])
    assert applied_tolerances({"y": noted}, derived, expected) == {"y": noted}
    np.testing.assert_array_equal(applied_tolerances({}, derived, expected)["y"], derived["y"])
    assert applied_tolerances({"y": plain}, {}, expected) == {"y": plain}


def test_notes_name_looser_tolerances_and_their_reasons() -> None:
    derived = {"y": np.array([0.1, 0.4])}
    expected = {"y": np.array([1.0, 2.0])}

    (looser,) = tolerance_notes({"y": Tolerance(rtol=0, atol=0.2)}, {"y"}, derived, expected)
    (reason,) = tolerance_notes({"y": Tolerance(rtol=0, atol=0.2, note="fast tanh")}, {"y"}, derived, expected)

    assert looser == (
        "tolerance of y (rtol 0, atol 0.2) is looser than the derived error bound in 1 of 2 elements, where the bound applies; "
        "add a note to keep it"
    )
    assert reason == "tolerance of y (rtol 0, atol 0.2): fast tanh"
    assert tolerance_notes({"y": Tolerance(rtol=0, atol=0)}, {"y"}, derived, expected) == []
    (broken,) = tolerance_notes({"y": Tolerance(rtol=0, atol=1e-9)}, frozenset(), derived, expected)
    assert broken == (
        "tolerance of y (rtol 0, atol 1e-09) is about as large as the errors of the unmodified kernel, or smaller; "
        "the derived error bound applies; add a note to keep it"
    )
