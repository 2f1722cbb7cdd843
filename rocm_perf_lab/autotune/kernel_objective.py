"""A live kernel as an objective: compile, check resources, run, verify the outputs, return the time.

A wrong output is a failure, not a slow time. Results are cached: see :mod:`.trial_cache`.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.cutoff import Cutoff
from rocm_perf_lab.autotune.goals import COMPILE, ENERGY
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.repeats import Gate, measure
from rocm_perf_lab.autotune.trial_cache import TrialCache, digest, launch_key, loaded_sha256
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError
from rocm_perf_lab.device.launch import LaunchError
from rocm_perf_lab.device.protocol import EnergyDevice, TimeLimitedDevice
from rocm_perf_lab.profiling.passes import run_passes
from rocm_perf_lab.profiling.selection import rank_kernels, select_kernel
from rocm_perf_lab.verify.outputs import verify_outputs
from rocm_perf_lab.verify.reference import BASELINE, expected_outputs
from rocm_perf_lab.verify.tolerances import kernel_tolerances

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.autotune.candidate import Candidate, KernelBuilder
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.device.protocol import Device
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.languages.spec import Tolerance

    ExpectedOutputs = tuple[Mapping[str, NDArray[Any]], Mapping[str, Tolerance | NDArray[np.float64]]]
    """Expected outputs, and their tolerances or the allowed absolute error of each element."""

_NS_PER_MS = 1e6


class _Failed(Exception):
    def __init__(self, result: Infeasible) -> None:
        self.result = result
        super().__init__(result.reason)


@dataclass
class KernelObjective:
    """Objective that measures configurations of one kernel on one device.

    Args:
        builder: Compiler of configurations.
        device: Device that runs them.
        gate: Number of repetitions.
        cache: Cache of results, or None.
        circumstances: Further inputs of the cache key: settings and sources of the device.
        cutoff: Limit of wall-clock time, for devices that can end a run.
        energy: Measure the energy of a dispatch as well, in mJ; the device is an :class:`.EnergyDevice`.
    """

    builder: KernelBuilder
    device: Device
    gate: Gate = field(default_factory=Gate)
    cache: TrialCache | None = None
    circumstances: Mapping[str, Any] = field(default_factory=dict)
    cutoff: Cutoff = field(default_factory=Cutoff)
    energy: bool = False
    _expected: dict[str, ExpectedOutputs] = field(default_factory=dict, repr=False)

    @property
    def deterministic(self) -> bool:
        """True if all runs of a configuration have equal times."""
        return self.device.deterministic

    @property
    def time_kind(self) -> str:
        """`emulated` or `measured`."""
        return self.device.identity.time_word

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        """Measure one configuration.

        Raises:
            LabError: The cause is not the configuration.
        """
        candidate = self.builder.build(configuration)
        if isinstance(candidate, Infeasible):
            return candidate
        try:
            candidate.launch  # noqa: B018 - creates the inputs
        except (LaunchError, ExpressionError) as error:
            return Infeasible(error.what, stage="resources")
        key = launch_key(candidate.launch, **self._circumstances(candidate))
        known = self.cache.load(key) if self.cache is not None else None
        result = known if known is not None else self._measure(candidate)
        repeatable = isinstance(result, Measurement) or (self.deterministic and not self.cutoff.was_exceeded)
        self.cutoff.finished(result.runtime_ms if isinstance(result, Measurement) else None)
        if self.cache is not None and known is None and repeatable:
            self.cache.store(key, result)
        if isinstance(result, Infeasible):
            return result
        own = {} if candidate.compile_s is None else {COMPILE: candidate.compile_s}
        return replace(result, details={**result.details, "cached": known is not None, **_resources(candidate), **own})

    def sample(self, configuration: Configuration, runs: int) -> tuple[float, ...] | Infeasible:
        """Return further times of a configuration in ms, never from the cache."""
        candidate = self.builder.build(configuration)
        if isinstance(candidate, Infeasible):
            return candidate
        try:
            return self._run(candidate, runs)
        except _Failed as failed:
            return failed.result

    def _measure(self, candidate: Candidate) -> Measurement | Infeasible:
        try:
            found = measure(lambda runs: self._run(candidate, runs), self.gate, deterministic=self.deterministic)
        except _Failed as failed:
            return failed.result
        if not self.energy or not isinstance(self.device, EnergyDevice):
            return found
        return replace(found, details={**found.details, ENERGY: self.device.energy_mj(candidate.launch)})

    def _run(self, candidate: Candidate, runs: int) -> tuple[float, ...]:
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
            try:
                with self.cutoff.measuring():
                    device = self._limited_device()
                    passes = run_passes(device, candidate.launch, directory=Path(directory), runs=runs, counters=())
                ranked = rank_kernels(passes.trace)
                kernel = select_kernel(passes.trace, ranked, symbol=candidate.kernel.symbol)
                durations = passes.trace.dispatches.duration_ns[kernel.dispatches]
            except LabError as error:
                raise _Failed(Infeasible(error.what.splitlines()[0], stage="run")) from error
        if passes.findings:
            raise _Failed(Infeasible(passes.findings[0].message, stage="verification"))
        expected, tolerances = self._truth(candidate)
        verdict = verify_outputs(passes.outputs, expected, tolerances)
        if not verdict.passed:
            raise _Failed(Infeasible(f"wrong output: {verdict}", stage="verification"))
        return tuple(float(ns) / _NS_PER_MS for ns in durations)

    def _limited_device(self) -> Device:
        limit_s = self.cutoff.limit_s
        own = self.cutoff.is_first and not self.deterministic  # a GPU has a time limit of its own
        if limit_s is None or own or not isinstance(self.device, TimeLimitedDevice):
            return self.device
        return self.device.with_time_limit(limit_s)

    def _truth(self, candidate: Candidate) -> ExpectedOutputs:
        """Return the expected outputs and their tolerances, which are computed again only if the inputs have changed."""
        description = candidate.description
        key = digest([list(_shapes(candidate)), _relevant(description)])
        if key not in self._expected:
            expected = expected_outputs(description, candidate.launch)
            if expected is None:
                self._expected = {key: (self._baseline_outputs(), dict(description.tolerance))}
            else:
                self._expected = {key: (expected, kernel_tolerances(description, candidate.launch, expected))}
        return self._expected[key]

    def _baseline_outputs(self) -> Mapping[str, NDArray[Any]]:
        """Return the outputs of the kernel with the parameters of its description.

        Raises:
            LabError: The kernel does not run with these parameters.
        """
        baseline = self.builder.build({})
        if isinstance(baseline, Infeasible):
            raise LabError(
                f"the kernel cannot run with its default parameters, whose output is the reference: {baseline.reason}",
                where=str(self.builder.description.source_path),
                hint="correct kernel.params, or add a reference to the kernel",
            )
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
            return run_passes(self.device, baseline.launch, directory=Path(directory), runs=1, counters=()).outputs

    def _circumstances(self, candidate: Candidate) -> dict[str, Any]:
        identity, description = self.device.identity, candidate.description
        return {
            "device": [identity.name, identity.emulated, dict(identity.versions)],
            "target": self.builder.target.model_dump(mode="json", exclude={"timing": {"error"}}),
            "repeats": None if self.deterministic else [self.gate.runs, self.gate.max_cv, self.gate.max_rounds],
            "truth": [_relevant(description), {n: t.model_dump() for n, t in description.tolerance.items()}],
            "baseline": self._baseline_identity() if description.reference == BASELINE else None,
            **({"energy": True} if self.energy else {}),
            **self.circumstances,
        }

    def _baseline_identity(self) -> list[Any]:
        own = self.builder.description
        return [digest([own.source_path.read_bytes().hex()]), own.params]


def _resources(candidate: Candidate) -> dict[str, Any]:
    kernel = candidate.kernel
    return {
        "vgpr": kernel.vgpr_count - kernel.agpr_count,
        "agpr": kernel.agpr_count,
        "sgpr": kernel.sgpr_count,
        "lds_bytes": candidate.lds_bytes,
        "scratch_bytes": kernel.scratch_bytes,
        "vgpr_spills": kernel.vgpr_spill_count,
        "waves_per_simd": candidate.occupancy.waves_per_simd,
        "code_sha256": loaded_sha256(candidate.build.code_object.data)[:16],
    }


def _shapes(candidate: Candidate) -> Any:
    from rocm_perf_lab.device.protocol import BufferValue

    for argument in candidate.launch.arguments:
        yield [argument.name, argument.data.shape] if isinstance(argument, BufferValue) else [argument.name]


def _relevant(description: KernelDescription) -> list[Any]:
    """Return the reference, and the params that the reference or the arguments name."""
    reference = description.reference
    texts = [reference] if isinstance(reference, str) else list(reference.values())
    for text in list(texts):
        path = description.directory / text.rpartition(":")[0]
        if text != BASELINE and path.suffix == ".py" and path.is_file():
            texts.append(path.read_text(encoding="utf-8"))
    inputs = [argument.model_dump(mode="json") for argument in description.arguments]
    words = set(re.findall(r"\w+", " ".join([*texts, str(inputs)])))
    return [texts, inputs, {name: value for name, value in description.params.items() if name in words}]
