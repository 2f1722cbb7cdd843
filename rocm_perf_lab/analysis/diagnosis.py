"""All analyses of one profiled kernel: stability, roofline, critical path, thread trace, ledger, bottleneck and headroom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.bottleneck import Bottleneck, bottleneck_of
from rocm_perf_lab.analysis.collectives import is_communication
from rocm_perf_lab.analysis.critical_path import CriticalPath, WhatIf, contribution_ns, critical_path, what_if
from rocm_perf_lab.analysis.dependencies import symbol_of_kernels
from rocm_perf_lab.analysis.kernel_ledger import kernel_ledger
from rocm_perf_lab.analysis.peer_waits import peer_waits
from rocm_perf_lab.analysis.roofline import Headroom, Roofline, Unavailable, evaluate_metrics, headroom, roofline
from rocm_perf_lab.analysis.timeline import Timeline, timeline
from rocm_perf_lab.statistics.stability import Stability, stability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.analysis.ledger import Ledger
    from rocm_perf_lab.analysis.static_code import StaticCode
    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.metrics import MetricValue
    from rocm_perf_lab.rocprof.pc_samples import PcSampling
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.peaks import MeasuredPeaks

NOT_TAKEN = "no thread trace was taken"
"""Start of the reason if none was requested."""
WHAT_IF_KERNELS = 3
WHAT_IF_TIMES_FASTER = 2.0


@dataclass(frozen=True)
class Diagnosis:
    """Results of all analyses of one kernel.

    `critical_shares` maps mangled kernel names to their share of the critical path. `what_if` maps (mangled name, speed-up)
    to the predicted run, for the kernels with the largest shares.
    """

    stability: Stability
    metrics: Mapping[str, MetricValue]
    roofline: Roofline | Unavailable
    critical_path: CriticalPath
    critical_shares: Mapping[str, float]
    timeline: Timeline
    what_if: Mapping[tuple[str, float], WhatIf]
    ledger: Ledger
    bottleneck: Bottleneck
    headroom: Headroom | None
    thread_trace: ThreadTrace | Unavailable


def diagnose(
    profile: Profile,
    trace: Trace,
    *,
    deterministic: bool,
    att: AttTrace | str | None = None,
    measured: MeasuredPeaks | None = None,
    samples: PcSampling | None = None,
    static: StaticCode | None = None,
) -> Diagnosis:
    """Run every analysis.

    Args:
        profile: Profile of the kernel.
        trace: The run whose times the profile contains.
        deterministic: True if the device repeats a dispatch in exactly the same time.
        att: Thread trace of the kernel, or the reason why it is missing.
        measured: Measured peaks of the GPU; theoretical peaks are used without them.
        samples: PC samples of the run.
        static: Instructions of the kernel's code object, used if there is no thread trace.
    """
    waits_for_peers = is_communication(profile.kernel.name)
    spread = stability(profile.durations_ns, deterministic=deterministic, waits_for_peers=waits_for_peers)
    metrics = evaluate_metrics(profile, spread.median_ns)
    roof = roofline(profile, metrics, spread.median_ns, measured)
    path = critical_path(trace.dispatches, trace.memory_copies, trace.regions)
    shares = _critical_shares(path, trace)
    share = shares.get(profile.kernel.mangled_name, 0.0)
    threads = _thread_trace(profile, att)
    ledger = kernel_ledger(
        profile,
        metrics,
        spread.median_ns,
        thread_trace=threads,
        att=None if isinstance(att, str) else att,
        samples=samples,
        measured=measured,
        static=static,
        peers_known=waits_for_peers and peer_waits(trace) is not None,
    )
    return Diagnosis(
        stability=spread,
        metrics=metrics,
        roofline=roof,
        critical_path=path,
        critical_shares=shares,
        timeline=timeline(path.graph, trace.regions),
        what_if=_what_if(path, trace, shares),
        ledger=ledger,
        bottleneck=bottleneck_of(ledger),
        headroom=headroom(ledger, share),
        thread_trace=threads,
    )


def _thread_trace(profile: Profile, att: AttTrace | str | None) -> ThreadTrace | Unavailable:
    if att is None or isinstance(att, str):
        return Unavailable(att or NOT_TAKEN)
    from rocm_perf_lab.analysis.thread_trace import analyse

    x, y, z = profile.grid
    waves = x * y * z * -(-profile.threads_per_block // profile.wave_size)
    return analyse(att, symbol=profile.kernel.mangled_name, launched_waves=waves)


def _what_if(path: CriticalPath, trace: Trace, shares: Mapping[str, float]) -> dict[tuple[str, float], WhatIf]:
    symbols, symbol_of_kernel = symbol_of_kernels(trace.kernels)
    symbol = symbol_of_kernel[trace.dispatches.kernel]
    largest = sorted(shares, key=lambda name: (-shares[name], name))[:WHAT_IF_KERNELS]
    return {(name, WHAT_IF_TIMES_FASTER): what_if(path, symbol == symbols.index(name), WHAT_IF_TIMES_FASTER) for name in largest}


def _critical_shares(path: CriticalPath, trace: Trace) -> dict[str, float]:
    shares: dict[str, float] = {}
    for kernel, spent_ns in contribution_ns(path, trace.dispatches).items():
        name = trace.kernels[kernel].mangled_name
        shares[name] = shares.get(name, 0.0) + spent_ns / (path.length_ns or 1)
    return shares
