"""Tolerances of outputs: declared ones, and the error bounds that replace them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.verify.outputs import allowed_errors
from rocm_perf_lab.verify.reference_bounds import output_bounds

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.languages.spec import Tolerance
    from rocm_perf_lab.verify.error_bounds import OutputBound


def applied_tolerances(
    declared: Mapping[str, Tolerance], derived: Mapping[str, NDArray[np.float64]], expected: Mapping[str, NDArray[Any]]
) -> dict[str, Tolerance | NDArray[np.float64]]:
    """Return the tolerance of each output: the declared one if it has a note, otherwise the tighter one for each element.

    Args:
        declared: Tolerances that apply: those with a note, and those that the unmodified kernel meets.
        derived: Allowed absolute errors of :meth:`OutputBound.allowed`.
        expected: Expected outputs.
    """
    applied: dict[str, Tolerance | NDArray[np.float64]] = {}
    for name, values in expected.items():
        given, bound = declared.get(name), derived.get(name)
        if given is not None and (given.note is not None or bound is None):
            applied[name] = given
        elif bound is not None:
            applied[name] = bound if given is None else np.fmin(bound, allowed_errors(values, given))
    return applied


def tolerance_notes(
    declared: Mapping[str, Tolerance],
    kept: Container[str],
    derived: Mapping[str, NDArray[np.float64]],
    expected: Mapping[str, NDArray[Any]],
) -> list[str]:
    """Return one line for each declared tolerance that has a note, or that the derived bound replaces.

    Args:
        declared: Tolerances of the kernel description.
        kept: Outputs whose tolerance the unmodified kernel meets in all trials, with a margin.
        derived: Allowed absolute errors of :meth:`OutputBound.allowed`.
        expected: Expected outputs.
    """
    lines = []
    for name, given in declared.items():
        text = f"tolerance of {name} (rtol {given.rtol:g}, atol {given.atol:g})"
        if given.note is not None:
            lines.append(f"{text}: {given.note}")
        elif name not in kept:
            lines.append(
                f"{text} is about as large as the errors of the unmodified kernel, or smaller; the derived error bound applies; "
                f"add a note to keep it"
            )
        elif name in derived and (looser := _looser(allowed_errors(expected[name], given), derived[name])):
            lines.append(
                f"{text} is looser than the derived error bound in {looser}, where the bound applies; add a note to keep it"
            )
    return lines


def supported_tolerances(
    description: KernelDescription, bounds: Mapping[str, OutputBound], expected: Mapping[str, NDArray[Any]]
) -> dict[str, Tolerance | NDArray[np.float64]]:
    """Return the tolerances of a kernel with unknown precision: bounds with the largest factor.

    The largest factor allows intermediate results in the least precise floating-point type of the buffers.

    Args:
        description: Kernel, with declared tolerances.
        bounds: Bounds of :func:`output_bounds`.
        expected: Expected outputs.
    """
    derived = {name: bound.allowed(bound.limit) for name, bound in bounds.items()}
    return applied_tolerances(description.tolerance, derived, expected)


def kernel_tolerances(
    description: KernelDescription, launch: Launch, expected: Mapping[str, NDArray[Any]]
) -> dict[str, Tolerance | NDArray[np.float64]]:
    """Return the tolerances of the outputs of one launch, without an unmodified kernel to compare with.

    Args:
        description: Kernel, with the params of the launch.
        launch: Inputs.
        expected: Expected outputs.

    Raises:
        KernelReferenceError: The reference cannot be evaluated.
    """
    return supported_tolerances(description, output_bounds(description, launch) or {}, expected)


def _looser(given: NDArray[np.float64], bound: NDArray[np.float64]) -> str | None:
    count = int(np.count_nonzero(given > bound))
    return f"{count:,} of {bound.size:,} elements" if count else None
