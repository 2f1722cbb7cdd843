"""Analysis of a kernel with only a thread trace or PC samples: shares of its time, without dispatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.application import application_overview
from rocm_perf_lab.analysis.critical_path import critical_path
from rocm_perf_lab.analysis.ledger_fusion import fuse
from rocm_perf_lab.analysis.roofline import Unavailable
from rocm_perf_lab.analysis.sample_account import sample_account
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.analysis.timeline import timeline
from rocm_perf_lab.analysis.trace_account import trace_account
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.demangle import demangle

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.application import ApplicationOverview
    from rocm_perf_lab.analysis.ledger import Account, Ledger
    from rocm_perf_lab.jobs.analyze.evidence import DetailedEvidence
    from rocm_perf_lab.rocprof.trace import Trace

_NAMED = 5
_NO_TIMES = (
    "times, launch sizes and the GPU: a kernel trace (rocprofv3 --kernel-trace -f rocpd -- APPLICATION) next to these files"
)
_NO_ROOFS = "time at the roofs of caches and memory: counters (rocprof-compute profile -- APPLICATION, or rocm-perf profile)"
_NO_TRACE = "waits of single wavefronts and their causes: a thread trace (rocprofv3 --att -- APPLICATION)"


@dataclass(frozen=True)
class DetailAnalysis:
    """Ledger of a kernel without dispatches; shares refer to the traced wavefronts or to the samples."""

    name: str
    mangled_name: str
    thread_trace: ThreadTrace | None
    ledger: Ledger
    notes: tuple[str, ...]


def analyze_detail(evidence: DetailedEvidence, pattern: str | None) -> DetailAnalysis | None:
    """Analyse the kernel with most traced cycles or samples; return None without thread traces and samples.

    Args:
        evidence: Thread traces and PC samples.
        pattern: Regular expression of the kernel's name.

    Raises:
        LabError: No kernel matches, or the pattern is invalid.
    """
    symbols = evidence.symbols
    if not symbols:
        return None
    symbol = _chosen(evidence, pattern)
    traced = _analysed(evidence, symbol)
    accounts: list[Account] = []
    notes: list[str] = []
    emulated = False
    if isinstance(traced, ThreadTrace):
        accounts.append(trace_account(traced, None))
        emulated = traced.emulated
    elif traced is not None:
        notes.append(f"the thread trace is not used: {traced.reason}")
    if evidence.sampling is not None:
        accounts.append(sample_account(evidence.sampling, symbol, traced=traced if isinstance(traced, ThreadTrace) else None))
    missing = (_NO_TIMES, _NO_ROOFS) if isinstance(traced, ThreadTrace) else (_NO_TIMES, _NO_TRACE, _NO_ROOFS)
    ledger = fuse(accounts, None, emulated=emulated, missing=missing)
    others = [name for name in symbols if name != symbol]
    if others:
        notes.append(f"{len(others)} more kernels were recorded: choose one with --kernel ({demangle(others[0])[:60]})")
    found = traced if isinstance(traced, ThreadTrace) else None
    return DetailAnalysis(demangle(symbol) or "unnamed kernel", symbol, found, ledger, tuple(notes))


def overview_of_copies(trace: Trace) -> ApplicationOverview:
    """Return the overview of a run without dispatches."""
    path = critical_path(trace.dispatches, trace.memory_copies, trace.regions)
    return application_overview(trace, (), path, timeline(path.graph, trace.regions), {})


def _chosen(evidence: DetailedEvidence, pattern: str | None) -> str:
    if pattern is None:
        return evidence.symbols[0]
    found = evidence.matching(pattern)
    if not found:
        names = ", ".join(demangle(name) for name in evidence.symbols[:_NAMED])
        raise LabError(f"no kernel matches {pattern!r}", where="--kernel", hint=f"kernels: {names}")
    return found[0]


def _analysed(evidence: DetailedEvidence, symbol: str) -> ThreadTrace | Unavailable | None:
    trace = evidence.thread_trace(symbol)
    if trace is None or isinstance(trace, str):
        return Unavailable(trace) if trace else None
    return analyse(trace, symbol=symbol)
