"""Comparison of the buffers of a rewrite with those of the unmodified kernel, element by element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.verify.outputs import OutputCheck, verify_outputs
from rocm_perf_lab.verify.trials import in_place_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.policy import TrialPolicy
    from rocm_perf_lab.verify.trial_runs import TrialRun
    from rocm_perf_lab.verify.trials import Trial

EXACT = Tolerance(rtol=0, atol=0, note=None)


@dataclass(frozen=True)
class BaselineTrial:
    """Results of the unmodified kernel in one trial; arrays by buffer name, in the shape of the buffer.

    Args:
        trial: Trial.
        expected: Expected outputs: from the reference, or from the kernel itself for outputs without one.
        outputs: Outputs of the first run.
        stable: Elements that are equal in both runs.
        untouched: Elements that the kernel never writes.
        finding_kinds: Checks that the unmodified kernel fails.
        budget: Limit of wave instructions of a rewrite per dispatch.
        instructions: Wave instructions of the longest dispatch.
        tolerances: Tolerance of each output, or the allowed absolute error of each element.
        is_exact: Whether sums and products of these inputs, and the expected outputs, are exact.
        ignored: Elements of outputs that are not compared.
    """

    trial: Trial
    expected: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, NDArray[Any]]
    stable: Mapping[str, NDArray[np.bool_]]
    untouched: Mapping[str, NDArray[np.bool_]]
    finding_kinds: frozenset[str]
    budget: int
    instructions: int
    tolerances: Mapping[str, Tolerance | NDArray[np.float64]]
    is_exact: bool = False
    ignored: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [*self.expected.values(), *self.outputs.values(), *self.stable.values(), *self.untouched.values()]
        arrays += self.ignored.values()
        arrays += [t for t in self.tolerances.values() if isinstance(t, np.ndarray)]
        return sum({id(array): array.nbytes for array in arrays}.values())


def compare_run(
    description: KernelDescription, policy: TrialPolicy, baseline: BaselineTrial, run: TrialRun, launch: Launch
) -> list[OutputCheck]:
    """Compare the buffers after a trial of a rewrite: inputs, elements that must not be written, outputs.

    Args:
        description: Kernel.
        policy: Allowed differences.
        baseline: Results of the unmodified kernel in the trial.
        run: Result of the rewrite.
        launch: Launch of the rewrite, with the initial content of its buffers.
    """
    before = buffer_contents(launch)
    broken = _inputs_changed(description, baseline, run, before)
    for name, untouched in baseline.untouched.items():
        kept = ~untouched | same_bytes(run.buffers[name], before[name])
        if not kept.all():
            broken.append(_broken(f"{name} (not written by the unmodified kernel)", run.buffers[name], before[name], kept))
    if broken:
        return broken
    got = {n: np.where(baseline.untouched[n], baseline.outputs[n], run.buffers[n]) for n in baseline.outputs}
    want = {n: np.where(baseline.untouched[n], baseline.outputs[n], baseline.expected[n]) for n in baseline.outputs}
    want = {n: np.where(baseline.ignored[n], got[n], w) if n in baseline.ignored else w for n, w in want.items()}
    if not policy.reassociate:
        return [_identical(name, got[name], baseline.outputs[name], baseline.stable[name]) for name in got]
    if policy.nan == "ignore":
        want = {n: np.where(_finite(w), w, got[n]) for n, w in want.items()}
    tolerances = dict.fromkeys(want, EXACT) if baseline.is_exact else baseline.tolerances
    checks = list(verify_outputs(got, want, tolerances).checks)
    return [check if not check.passed else _zeros_kept(description, check, baseline, got[check.name]) for check in checks]


def buffer_contents(launch: Launch) -> dict[str, NDArray[Any]]:
    """Return the content of all buffers before a launch."""
    return {a.name: a.data for a in launch.arguments if isinstance(a, BufferValue)}


def same_bytes(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of elements with equal bytes: a NaN equals the same NaN, and 0 differs from -0."""
    if one.size == 0:
        return np.ones(one.shape, np.bool_)
    kind = np.dtype(f"u{one.dtype.itemsize}")
    same: NDArray[np.bool_] = np.ascontiguousarray(one).view(kind) == np.ascontiguousarray(other).view(kind)
    return same.reshape(one.shape)


def _inputs_changed(
    description: KernelDescription, baseline: BaselineTrial, run: TrialRun, before: Mapping[str, NDArray[Any]]
) -> list[OutputCheck]:
    checks = []
    aliased = set(in_place_pairs(description, baseline.trial).values())
    for argument in description.arguments:
        if isinstance(argument, BufferArgument) and argument.access == "in" and argument.name not in aliased:
            name = argument.name
            kept = same_bytes(run.buffers[name], before[name])
            if not kept.all():
                checks.append(_broken(f"input {name} (must not be written)", run.buffers[name], before[name], kept))
    return checks


def _zeros_kept(description: KernelDescription, check: OutputCheck, baseline: BaselineTrial, got: NDArray[Any]) -> OutputCheck:
    """Compare the signs of zeros if the tolerance is zero and the unmodified kernel's signs are stable."""
    given = description.tolerance.get(check.name)
    before = baseline.outputs[check.name]
    # A maximum may return either of two equal zeros.
    is_arbitrary = baseline.trial.inputs in ("signed zeros", "sparse", "regions")
    if given is None or given.atol != 0 or given.rtol != 0 or got.dtype.kind in "biu" or is_arbitrary:
        return check
    turned = (_zeros(got) & _zeros(before)) & (_negative(got) != _negative(before)) & baseline.stable[check.name]
    return _broken(f"{check.name} (signs of zeros)", got, before, ~turned) if turned.any() else check


def _finite(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isfinite(values.astype(np.float64))


def _zeros(values: NDArray[Any]) -> NDArray[np.bool_]:
    zeros: NDArray[np.bool_] = values.astype(np.float64) == 0
    return zeros


def _negative(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.signbit(values.astype(np.float64))


def _broken(name: str, actual: NDArray[Any], expected: NDArray[Any], kept: NDArray[np.bool_]) -> OutputCheck:
    worst = tuple(int(i) for i in np.argwhere(~kept)[0])
    return OutputCheck(
        name, False, int((~kept).sum()), int(kept.size), np.inf, np.inf, worst, float(actual[worst]), float(expected[worst])
    )


def _identical(name: str, actual: NDArray[Any], expected: NDArray[Any], stable: NDArray[np.bool_]) -> OutputCheck:
    """Compare the elements that are stable in the unmodified kernel bit by bit."""
    kept = ~stable | same_bytes(actual, expected)
    if kept.all():
        return verify_outputs({name: np.where(stable, actual, expected)}, {name: expected}, {name: EXACT}).checks[0]
    return _broken(f"{name}, which must be bitwise identical,", actual, expected, kept)
