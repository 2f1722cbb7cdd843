"""Tags, parameters and metrics of profiles and verdicts, with names that are the same in all runs.

Times are microseconds in all jobs. The tag `time_kind` of every run states whether they are emulated or measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.analysis.roofline import Roofline
from rocm_perf_lab.optimize.guards import warnings_of
from rocm_perf_lab.statistics.power import POWER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import DeviceIdentity
    from rocm_perf_lab.jobs.analyze.kernel_analysis import AnalyzedKernel
    from rocm_perf_lab.jobs.profile.workbench import ProfiledKernel
    from rocm_perf_lab.optimize.loop_result import LoopResult
    from rocm_perf_lab.optimize.proposal import Verdict
    from rocm_perf_lab.optimize.proposers.spending import Spending
    from rocm_perf_lab.statistics.paired_test import PairedComparison
    from rocm_perf_lab.target.timing_errors import TimingErrors

_NS_PER_MS = 1e6
_NS_PER_US = 1e3


@dataclass(frozen=True)
class RunSeeds:
    """Secret seeds of a run: of the trials, and of the sample of workgroups for emulated times; set both to repeat the run."""

    trials: int | None = None
    samples: int | None = None


@dataclass(frozen=True)
class RebuildCheck:
    """SHA-256 of the measured code object of the best source, and of a second build."""

    measured: str
    rebuilt: str
    command: tuple[str, ...]

    @property
    def is_identical(self) -> bool:
        """Return whether both code objects are equal byte for byte."""
        return self.measured == self.rebuilt

    def __str__(self) -> str:
        if self.is_identical:
            return f"identical code object from the stored source and flags ({self.measured[:12]})"
        return f"DIFFERENT code object: {self.rebuilt[:12]}, the measured one was {self.measured[:12]}"


def provenance_tags(identity: DeviceIdentity, profiled: ProfiledKernel) -> dict[str, str]:
    """Return the provenance of a profile: device, target, compiler, code object."""
    build = profiled.compiled.build
    seed = profiled.profile.provenance.trace.sample_seed
    return {
        **({} if seed is None else {"sample_seed": str(seed)}),
        "device": identity.name,
        "device.reason": identity.reason,
        "time_kind": identity.time_word,
        "target": profiled.profile.target.name,
        "architecture": profiled.profile.target.architecture,
        "compiler": f"{build.compiler_name} {build.compiler_version}",
        "code_object.sha256": build.code_object.sha256,
        "bottleneck": profiled.diagnosis.bottleneck.name,
    }


def profile_params(config: LabConfig, profiled: ProfiledKernel) -> dict[str, Any]:
    """Return kernel, target, kernel parameters and launch geometry."""
    geometry = {"grid": "x".join(map(str, profiled.profile.grid)), "block": "x".join(map(str, profiled.profile.block))}
    params = {f"kernel.{name}": value for name, value in config.kernel.params.items()}
    return {"kernel": config.kernel.name, "target": config.target.name, **params, **geometry}


def analysis_params(found: AnalyzedKernel) -> dict[str, Any]:
    """Return kernel, target and launch geometry from a trace."""
    profile = found.profile
    geometry = {"grid": "x".join(map(str, profile.grid)), "block": "x".join(map(str, profile.block))}
    return {"kernel": profile.kernel.name, "target": profile.target.name, **geometry}


def optimizer_params(config: LabConfig) -> dict[str, Any]:
    """Return the settings of the optimizer."""
    settings = config.optimizer
    return {
        "optimizer.proposer": settings.proposer,
        "optimizer.search": settings.search,
        "optimizer.min_improvement": settings.min_improvement,
        "optimizer.max_iterations": settings.max_iterations,
        "optimizer.transforms": ", ".join(row.target.rpartition(".")[2] for row in settings.transforms),
        "optimizer.guards": ", ".join(row.target.rpartition(".")[2] for row in settings.guards),
    }


def profile_metrics(profiled: AnalyzedKernel) -> dict[str, float]:
    """Return time, resources, occupancy, bandwidth and error of a profile."""
    resources, occupancy, roof = profiled.profile.resources, profiled.profile.occupancy, profiled.diagnosis.roofline
    metrics = {
        **({"runtime_us": profiled.runtime_ns / _NS_PER_US} if profiled.runtime_ns else {}),
        "vgpr": float(resources.vgpr_per_thread),
        "sgpr": float(resources.sgpr_per_wave),
        "lds_bytes": float(resources.lds_bytes),
        "scratch_bytes": float(resources.scratch_bytes),
        "waves_per_simd": float(occupancy.waves_per_simd),
    }
    if profiled.profile.timing_errors is not None:
        metrics |= expected_metrics(profiled.runtime_ns, profiled.profile.timing_errors)
    if isinstance(roof, Roofline):
        metrics["gb_per_s"] = roof.gb_per_s
        metrics["dram_bytes"] = roof.dram_bytes
        if roof.gflop_per_s is not None:
            metrics["gflop_per_s"] = roof.gflop_per_s
    if profiled.verification is not None and profiled.verification.checks:
        metrics["max_abs_error"] = max(check.max_abs_error for check in profiled.verification.checks)
    return metrics


def expected_metrics(runtime_ns: float, errors: TimingErrors) -> dict[str, float]:
    """Return the bounds of an emulated time, and the factor within which two variants are indistinguishable."""
    low, high = errors.around(runtime_ns / _NS_PER_US)
    return {"runtime_low_us": low, "runtime_high_us": high, "ratio_band": errors.decisive.factor}


def verdict_tags(verdict: Verdict) -> dict[str, str]:
    """Return the verdict on a proposal and its place in the lineage."""
    return {
        "verdict": "accepted" if verdict.accepted else "rejected",
        "verdict.stage": verdict.stage,
        "verdict.reason": verdict.reason,
        "indistinguishable": str(verdict.is_indistinguishable).lower(),
        "accepted_by_counters": str(verdict.accepted and verdict.by_counters).lower(),
        "rolled_back": str(not verdict.accepted and verdict.runtime_ns is not None).lower(),
        "proposal": verdict.proposal.id,
        "parent_proposal": verdict.proposal.parent_id or "",
        "transform": verdict.proposal.transform,
    }


def verdict_metrics(verdict: Verdict) -> dict[str, float]:
    """Return the gain over the best source at that time, with its bounds if known."""
    if verdict.improvement is None:
        return {}
    metrics = {"improvement": verdict.improvement}
    comparison = verdict.comparison
    if comparison is not None and not comparison.is_exact and isfinite(comparison.least):
        metrics |= {"improvement_least": comparison.least, "improvement_most": comparison.most}
    return metrics


def optimize_document(
    result: LoopResult,
    time_kind: str,
    best_source: str,
    *,
    rebuild: RebuildCheck | None,
    isolation: str,
    seeds: RunSeeds | None = None,
    errors: TimingErrors | None = None,
    spending: Spending | None = None,
) -> dict[str, Any]:
    """Return the content of optimize.json; `errors` are the error bands of emulated times, `spending` that on models."""
    return {
        "schema_version": "1.4",
        "time_kind": time_kind,
        "error_bands": errors.model_dump(mode="json") if errors is not None else None,
        "speedup": result.speedup,
        "indistinguishable": result.by_counters,
        "comparison": _comparison_row(result.comparison),
        "final": {"confirmed": result.is_confirmed, "reason": result.final_reason, "by_counters": result.by_counters},
        "power": power_row(result),
        "seeds": asdict(seeds) if seeds is not None else None,
        "baseline": {"proposal": result.baseline.id, "runtime_ms": _ms(result.baseline_runtime_ns)},
        "best": {
            "proposal": result.best.id,
            "runtime_ms": _ms(result.best_runtime_ns),
            "source": best_source,
        },
        "rebuild": {**asdict(rebuild), "identical": rebuild.is_identical} if rebuild is not None else None,
        "isolation": isolation,
        "spending": asdict(spending) if spending is not None else None,
        "stop_reason": result.stop_reason,
        "verdicts": [_verdict_row(verdict) for verdict in result.verdicts],
    }


def _ms(runtime_ns: float | None) -> float | None:
    """Return a time in ms, or None if there is none."""
    return runtime_ns / _NS_PER_MS if runtime_ns else None


def _verdict_row(verdict: Verdict) -> Mapping[str, Any]:
    return {
        "proposal": verdict.proposal.id,
        "parent": verdict.proposal.parent_id,
        "transform": verdict.proposal.transform,
        "description": verdict.proposal.description,
        "accepted": verdict.accepted,
        "stage": verdict.stage,
        "reason": verdict.reason,
        "guards": [{"name": g.name, "passed": g.passed, "detail": g.detail, "severity": g.severity} for g in verdict.guards],
        "warnings": list(warnings_of(verdict.guards)),
        "vgpr": verdict.kernel.vgpr_count if verdict.kernel else None,
        "sgpr": verdict.kernel.sgpr_count if verdict.kernel else None,
        "waves_per_simd": verdict.occupancy_waves,
        "compile_cached": verdict.compile_cached,
        "indistinguishable": verdict.is_indistinguishable,
        "correct": verdict.verification.passed if verdict.verification else None,
        "uncovered": list(verdict.uncovered),
        "runtime_ms": _ms(verdict.runtime_ns),
        "improvement": verdict.improvement,
        "by_counters": verdict.by_counters,
        "exact_counters": dict(verdict.counts.counters) if verdict.counts else None,
        "comparison": _comparison_row(verdict.comparison),
        "followed": verdict.followed,
    }


def power_row(result: LoopResult) -> Mapping[str, Any] | None:
    """Return the gain that every comparison of a run finds with 80 % power, and its pairs; None without measured times."""
    weakest = result.weakest_comparison
    if weakest is None:
        return None
    return {"power": POWER, "smallest_gain": weakest.smallest_gain, "pairs": weakest.planned_pairs}


def _comparison_row(comparison: PairedComparison | None) -> Mapping[str, Any] | None:
    if comparison is None:
        return None
    row = asdict(comparison)
    return {name: value if not isinstance(value, float) or isfinite(value) else None for name, value in row.items()}
