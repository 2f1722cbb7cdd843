"""Conversion of profile and diagnosis to the four JSON documents, by file name. Nanoseconds become milliseconds here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.analysis.dag import MAX_NODES, dag_document
from rocm_perf_lab.analysis.describe_kernels import kernel_summaries, thinned_ms
from rocm_perf_lab.analysis.describe_thread_trace import att_features, thread_trace_part
from rocm_perf_lab.analysis.documents import (
    AnalysisDocument,
    ComputeRoofPart,
    HeadroomPart,
    MemoryRoofPart,
    PlacedKernel,
    RooflineDocument,
)
from rocm_perf_lab.analysis.ledger_document import ledger_part
from rocm_perf_lab.analysis.roofline import Roofline, Unavailable
from rocm_perf_lab.profiling.documents import (
    CounterCertificatePart,
    Document,
    DriftPart,
    ErrorBandsPart,
    GpuPart,
    InstructionCount,
    KernelPart,
    OccupancyPart,
    ProfileDocument,
    ProvenancePart,
    RatioBandPart,
    ResourcesPart,
    RooflineSummary,
    StabilityPart,
    TimeBandPart,
    TimeGroupPart,
)
from rocm_perf_lab.rocprof.counter_catalogue import describe_counter, has_catalogue, metric_certificate
from rocm_perf_lab.rocprof.metrics import load_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.diagnosis import Diagnosis
    from rocm_perf_lab.profiling.documents import CheckedResult
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.counter_catalogue import Certificate
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.statistics.stability import Stability
    from rocm_perf_lab.target.timing_errors import TimingErrors

_NS_PER_MS = 1e6
_DURATIONS_KEPT = 1000
_INSTRUCTION_CLASSES = {
    "all": "SQ_INSTS", "valu": "SQ_INSTS_VALU", "mfma": "SQ_INSTS_MFMA", "salu": "SQ_INSTS_SALU",
    "smem": "SQ_INSTS_SMEM", "vmem": "SQ_INSTS_VMEM", "vmem_read": "SQ_INSTS_VMEM_RD",
    "vmem_write": "SQ_INSTS_VMEM_WR", "flat": "SQ_INSTS_FLAT", "lds": "SQ_INSTS_LDS", "branch": "SQ_INSTS_BRANCH",
    "sendmsg": "SQ_INSTS_SENDMSG",
}  # fmt: skip
"""Counter by instruction class. As in hardware, `valu` includes `mfma` and `vmem` includes `flat` accesses to global memory."""


def describe(
    profile: Profile,
    diagnosis: Diagnosis,
    trace: Trace,
    *,
    dag_nodes: int = MAX_NODES,
    result: CheckedResult = "not checked",
    result_evidence: str | None = None,
) -> dict[str, Document]:
    """Return the documents of one profiled kernel by file name; dag.json lists at most `dag_nodes` nodes."""
    return {
        "profile.json": _profile(profile, diagnosis, trace, result, result_evidence),
        "roofline.json": _roofline(profile, diagnosis),
        "dag.json": dag_document(profile, diagnosis, trace, max_nodes=dag_nodes),
        "analysis.json": _analysis(profile, diagnosis),
    }


def _profile(
    profile: Profile, diagnosis: Diagnosis, trace: Trace, result: CheckedResult, result_evidence: str | None
) -> ProfileDocument:
    roof = diagnosis.roofline
    placed = isinstance(roof, Roofline)
    waves, mix, mix_reason = instruction_mix(profile)
    return ProfileDocument(
        kernel=KernelPart(
            name=profile.kernel.name,
            mangled_name=profile.kernel.mangled_name,
            grid=profile.grid,
            block=profile.block,
        ),
        gpu=_gpu(profile),
        runtime_ms=diagnosis.stability.median_ns / _NS_PER_MS if profile.provenance.trace.has_times else None,
        stability=stability_part(diagnosis.stability, profile.durations_ns),
        resources=ResourcesPart(**asdict(profile.resources)),
        occupancy=_occupancy(profile),
        waves=waves,
        instruction_mix=mix,
        instruction_mix_reason=mix_reason,
        roofline=_summary(roof) if isinstance(roof, Roofline) else None,
        roofline_reason=None if placed else _reason(diagnosis),
        counters=tuple(dict(counters) for counters in profile.counter_passes),
        counter_certificates=_counter_certificates(profile),
        result=result,
        result_evidence=result_evidence,
        error_bands=error_bands_part(diagnosis.stability.median_ns / _NS_PER_MS, profile.timing_errors),
        kernels=kernel_summaries(profile, diagnosis.critical_shares, trace),
        provenance=_provenance(profile),
        notes=(*profile.notes, *diagnosis.critical_path.notes),
    )


def error_bands_part(time_ms: float, errors: TimingErrors | None) -> ErrorBandsPart | None:
    """Return the error bands of an emulated time in ms; None for a measured one."""
    if errors is None:
        return None
    bounds = [(band.coverage, *band.around(time_ms)) for band in errors.time]
    return ErrorBandsPart(
        status=errors.status,
        source=errors.source,
        time=tuple(TimeBandPart(coverage=coverage, low_ms=low, high_ms=high) for coverage, low, high in bounds),
        ratio=tuple(RatioBandPart(coverage=band.coverage, factor=band.factor) for band in errors.ratio),
    )


def _counter_certificates(profile: Profile) -> dict[str, CounterCertificatePart] | None:
    architecture = profile.target.architecture
    if not profile.provenance.trace.emulated or not has_catalogue(architecture):
        return None
    names = sorted({name for counters in profile.counter_passes for name in counters})
    described = {name: found for name in names if (found := describe_counter(name, architecture)) is not None}
    return {
        name: CounterCertificatePart(certificate=found.certificate, bound=found.bound, scope=found.scope)
        for name, found in described.items()
    }


def _metric_certificates(profile: Profile, diagnosis: Diagnosis) -> dict[str, Certificate] | None:
    architecture = profile.target.architecture
    if not profile.provenance.trace.emulated:
        return None
    metrics = load_metrics(architecture)
    known = (name for name, value in diagnosis.metrics.items() if value.value is not None and name in metrics)
    certificates = {name: metric_certificate(architecture, metrics[name]) for name in known}
    return {name: certificate for name, certificate in certificates.items() if certificate is not None} or None


def _gpu(profile: Profile) -> GpuPart:
    target = profile.target
    return GpuPart(
        architecture=target.architecture,
        name=target.product_name,
        wave_size=profile.wave_size,
        compute_units=target.compute_units,
        simds_per_cu=target.simds_per_cu,
        xcds=target.xcds,
        max_clock_mhz=target.max_clock_mhz,
        dram_gb_per_s=target.peaks.dram_gb_per_s,
    )


def stability_part(spread: Stability, durations_ns: Sequence[int]) -> StabilityPart:
    """Return the spread of these times, in ms."""
    interval, trend = spread.median_interval_ns, spread.drift
    settled = np.asarray(durations_ns)[spread.warm_up_runs :]
    return StabilityPart(
        runs=spread.runs,
        mean_ms=spread.mean_ns / _NS_PER_MS,
        median_ms=spread.median_ns / _NS_PER_MS,
        stddev_ms=spread.stddev_ns / _NS_PER_MS,
        mad_ms=spread.mad_ns / _NS_PER_MS,
        cv=spread.cv,
        classification=spread.classification,
        note=spread.note,
        median_interval_ms=(interval[0] / _NS_PER_MS, interval[1] / _NS_PER_MS) if interval else None,
        warm_up_runs=spread.warm_up_runs,
        outliers=spread.outliers,
        outlier_count=spread.outlier_count,
        drift=DriftPart(**asdict(trend), is_drifting=trend.is_drifting) if trend else None,
        warnings=spread.warnings,
        durations_ms=thinned_ms(settled, _DURATIONS_KEPT),
        robust_cv=spread.robust_cv,
        outlier_share=spread.outlier_share,
        groups=tuple(TimeGroupPart(median_ms=group.median_ns / _NS_PER_MS, share=group.share) for group in spread.groups),
        waits_for_peers=spread.waits_for_peers,
    )


def _occupancy(profile: Profile) -> OccupancyPart:
    occupancy = profile.occupancy
    return OccupancyPart(
        theoretical=occupancy.fraction,
        waves_per_simd=occupancy.waves_per_simd,
        max_waves_per_simd=occupancy.max_waves_per_simd,
        limiter=occupancy.limiter,
        threads_per_block=profile.threads_per_block,
        wave_size=profile.wave_size,
        workgroups_per_cu=occupancy.workgroups_per_cu,
        what_if=occupancy.what_if,
    )


def instruction_mix(
    profile: Profile,
) -> tuple[float | None, dict[str, InstructionCount] | None, str | None]:
    """Merge instruction counts of all passes: they repeat exactly from run to run."""
    counters = {name: value for one in profile.counter_passes for name, value in one.items()}
    waves = counters.get("SQ_WAVES")
    if not waves:
        return None, None, "not collected: SQ_WAVES"
    mix = {
        name: InstructionCount(total=counters[counter], per_wave=counters[counter] / waves)
        for name, counter in _INSTRUCTION_CLASSES.items()
        if counter in counters
    }
    return waves, mix or None, None if mix else "not collected: SQ_INSTS"


def _summary(roof: Roofline) -> RooflineSummary:
    return RooflineSummary(
        intensity=roof.intensity,
        gflop_per_s=roof.gflop_per_s,
        gb_per_s=roof.gb_per_s,
        ridge=roof.ridge,
        position=roof.position,
        implausible=roof.implausible,
    )


def _provenance(profile: Profile) -> ProvenancePart:
    source = profile.provenance
    hashes = {"database": source.database_sha256}
    if source.code_object_sha256:
        hashes["code_object"] = source.code_object_sha256
    return ProvenancePart(
        device=source.trace.device,
        emulated=source.trace.emulated,
        time_kind=_time_kind(profile),
        note=source.note,
        versions=dict(source.versions),
        hashes=hashes,
        database=source.database,
        rocpd_schema_version=source.schema_version,
        sample_seed=source.trace.sample_seed,
    )


def _roofline(profile: Profile, diagnosis: Diagnosis) -> RooflineDocument:
    roof = diagnosis.roofline
    return RooflineDocument(
        kernel=profile.kernel.name,
        architecture=profile.target.architecture,
        time_kind=_time_kind(profile),
        roofline=_placed(roof) if isinstance(roof, Roofline) else None,
        reason=_reason(diagnosis),
    )


def _placed(roof: Roofline) -> PlacedKernel:
    return PlacedKernel(
        duration_ms=roof.duration_ns / _NS_PER_MS,
        flops=roof.flops,
        flops_reason=roof.flops_reason,
        dram_bytes=roof.dram_bytes,
        intensity=roof.intensity,
        gflop_per_s=roof.gflop_per_s,
        gb_per_s=roof.gb_per_s,
        peak_gflop_per_s=roof.peak_gflop_per_s,
        peak_gb_per_s=roof.peak_gb_per_s,
        ridge=roof.ridge,
        position=roof.position,
        compute=tuple(ComputeRoofPart(**asdict(row)) for row in roof.compute),
        memory=tuple(MemoryRoofPart(**asdict(row)) for row in roof.memory),
        notes=roof.notes,
        implausible=roof.implausible,
        peaks=roof.peaks,
    )


def _analysis(profile: Profile, diagnosis: Diagnosis) -> AnalysisDocument:
    roof, found, threads = diagnosis.roofline, diagnosis.bottleneck, diagnosis.thread_trace
    traced = None if isinstance(threads, Unavailable) else threads
    placed = roof if isinstance(roof, Roofline) else None
    return AnalysisDocument(
        kernel=profile.kernel.name,
        time_ms=diagnosis.stability.median_ns / _NS_PER_MS,
        time_kind=_time_kind(profile),
        operational_intensity=placed.intensity if placed else None,
        roofline_position=placed.position if placed else None,
        critical_path_score=diagnosis.critical_shares.get(profile.kernel.mangled_name, 0.0),
        bottleneck=found.name,
        confidence=found.confidence,
        reasons=found.reasons,
        other_bottlenecks=found.others,
        not_judged=found.not_judged,
        metrics={name: value.value for name, value in diagnosis.metrics.items()},
        metric_reasons={name: value.reason for name, value in diagnosis.metrics.items() if value.reason},
        metric_certificates=_metric_certificates(profile, diagnosis),
        att=att_features(traced) if traced else None,
        att_reason=threads.reason if isinstance(threads, Unavailable) else None,
        thread_trace=thread_trace_part(traced) if traced else None,
        ledger=ledger_part(diagnosis.ledger),
        headroom=_headroom(diagnosis),
        recommendations=found.recommendations,
    )


def _headroom(diagnosis: Diagnosis) -> HeadroomPart | None:
    room = diagnosis.headroom
    if room is None:
        return None
    return HeadroomPart(
        roof_ms=room.roof_ns / _NS_PER_MS,
        speedup=room.speedup,
        critical_path_speedup=room.critical_path_speedup,
        limited_by=room.limited_by,
    )


def _reason(diagnosis: Diagnosis) -> str | None:
    roof = diagnosis.roofline
    return None if isinstance(roof, Roofline) else roof.reason


def _time_kind(profile: Profile) -> Literal["emulated", "measured"]:
    return "emulated" if profile.provenance.trace.emulated else "measured"
