"""Ledger of one kernel from all evidence in a recording: `kernel_ledger(profile, metrics, ...)`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.code_account import code_account
from rocm_perf_lab.analysis.collectives import is_communication
from rocm_perf_lab.analysis.counted import CountedEvents
from rocm_perf_lab.analysis.counter_account import counter_account
from rocm_perf_lab.analysis.executed_code import ExecutedCode
from rocm_perf_lab.analysis.launch_account import launch_account
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.ledger_fusion import fuse
from rocm_perf_lab.analysis.ledger_verdict import COMMUNICATION
from rocm_perf_lab.analysis.missing_counters import has_dram_traffic
from rocm_perf_lab.analysis.roofline import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.analysis.ledger import Account, Ledger
    from rocm_perf_lab.analysis.static_code import StaticCode
    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.metrics import MetricValue
    from rocm_perf_lab.rocprof.pc_samples import PcSampling
    from rocm_perf_lab.target.peaks import MeasuredPeaks

_OF_PEERS = ("the process that enters last: record all processes; the one with the shortest times of this kernel is late",)
_DOUBTED = 0.5
"""Maximum confidence of a verdict that is based on an assumed GPU, an impossible clock, or an unknown bandwidth."""
_WAITS_FOR_MEMORY = (Cause.MEMORY_LATENCY, Cause.MEMORY_BACKPRESSURE, Cause.STORE_DRAIN)
_NO_BANDWIDTH = "the bandwidth of the memory, at which the waiting may be queueing"
_NO_TRACE = "waits by instruction and source line: a thread trace ({})"
_HOW_TO_TRACE = {
    False: "rocprofv3 --att -- APPLICATION, or passes=deep",
    True: "rocm-perf profile --deep-analysis, or passes=deep",
}
"""Command by whether times are emulated."""


def kernel_ledger(
    profile: Profile,
    metrics: Mapping[str, MetricValue],
    duration_ns: float,
    *,
    thread_trace: ThreadTrace | Unavailable,
    att: AttTrace | None = None,
    samples: PcSampling | None = None,
    measured: MeasuredPeaks | None = None,
    static: StaticCode | None = None,
    peers_known: bool = False,
) -> Ledger:
    """Return the ledger of the kernel of a profile.

    Args:
        profile: Profile of the kernel.
        metrics: Counter metrics of the kernel.
        duration_ns: Median duration of a dispatch; 0 if the recording has no times.
        thread_trace: Analysed thread trace, or the reason why there is none.
        att: The thread trace itself, for the executed instructions.
        samples: PC samples of the run.
        measured: Measured peaks of the GPU.
        static: Instructions of the kernel's code object, used if there is no thread trace.
        peers_known: The recording states how the processes of a collective wait for each other.
    """
    known_ns = duration_ns if duration_ns > 0 else None
    emulated = profile.provenance.trace.emulated
    if is_communication(profile.kernel.name):
        # The time of a collective includes waiting for its peers; it uses few channels by design.
        return replace(fuse((), known_ns, emulated=emulated, missing=() if peers_known else _OF_PEERS), verdict=COMMUNICATION)
    traced = None if isinstance(thread_trace, Unavailable) else thread_trace
    code = ExecutedCode.of_trace(att) if att is not None and traced is not None else None
    static = static if code is None else None
    if static is not None:
        code = static.executed(CountedEvents.of(profile))
    accounts = [
        launch_account(profile, known_ns),
        counter_account(profile, metrics, known_ns, peaks=measured, code=code, static=static),
        code_account(profile, code, static),
    ]
    if traced is not None:
        from rocm_perf_lab.analysis.trace_account import trace_account

        accounts.append(trace_account(traced, profile, code))
    if samples is not None:
        from rocm_perf_lab.analysis.sample_account import sample_account

        accounts.append(sample_account(samples, profile.kernel.mangled_name, traced=traced))
    missing = (_NO_TRACE.format(_HOW_TO_TRACE[emulated]),) if traced is None and samples is None else ()
    ledger = fuse(accounts, known_ns, emulated=emulated, missing=missing)
    return _doubted(_without_bandwidth(ledger, accounts, profile), profile)


def _without_bandwidth(ledger: Ledger, accounts: Sequence[Account], profile: Profile) -> Ledger:
    """Return a verdict of waiting for memory with a lower confidence if the traffic is known but the bandwidth is unknown.

    Queueing for a saturated memory cannot be distinguished from having too few loads in flight.
    """
    uses = [use for account in accounts for use in account.units if use.unit in (HardwareUnit.DRAM, HardwareUnit.MALL)]
    if ledger.verdict not in _WAITS_FOR_MEMORY or any(use.reliable for use in uses) or not has_dram_traffic(profile):
        return ledger
    wanted = f"{_NO_BANDWIDTH}; {uses[0].evidence.text if uses else 'pass --roofline-csv of this GPU'}"
    return replace(ledger, confidence=min(ledger.confidence, _DOUBTED), missing=(wanted, *ledger.missing))


def _doubted(ledger: Ledger, profile: Profile) -> Ledger:
    """Return the ledger with a lower confidence if it is based on a description of the GPU that may be wrong."""
    if not profile.doubts:
        return ledger
    return replace(ledger, confidence=min(ledger.confidence, _DOUBTED), notes=(*ledger.notes, *profile.doubts))
