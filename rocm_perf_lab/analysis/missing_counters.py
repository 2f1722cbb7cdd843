"""Counters that are missing in a recording and would explain the rest of its ledger, with the command that collects them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.counted import CountedEvents

if TYPE_CHECKING:
    from rocm_perf_lab.profiling.profile import Profile

_MOST_PER_PASS = 8
_DRAM_TRAFFIC = ("FETCH_SIZE", "WRITE_SIZE")
_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("DRAM traffic", _DRAM_TRAFFIC),
    ("busy vector units and idle lanes", ("SQ_BUSY_CYCLES", "SQ_ACTIVE_INST_VALU", "SQ_THREAD_CYCLES_VALU")),
    ("busy matrix cores", ("SQ_BUSY_CYCLES", "SQ_VALU_MFMA_BUSY_CYCLES")),
    ("LDS and its bank conflicts", ("SQ_BUSY_CYCLES", "SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT")),
    ("waiting wavefronts", ("SQ_BUSY_CYCLES", "SQ_WAVE_CYCLES", "SQ_WAIT_ANY", "SQ_WAIT_INST_ANY", "SQ_ACTIVE_INST_ANY")),
    ("the vector L1", ("SQ_BUSY_CYCLES", "TA_TA_BUSY_sum", "TCP_TOTAL_CACHE_ACCESSES_sum")),
)
_REPLACED = {
    "FETCH_SIZE": ("TCC_EA0_RDREQ_sum", "TCC_EA_RDREQ_sum", "GL2C_EA_RDREQ_64B_sum"),
    "WRITE_SIZE": ("TCC_EA0_WRREQ_sum", "TCC_EA_WRREQ_sum", "GL2C_MC_WRREQ_sum"),
    "SQ_ACTIVE_INST_VALU": ("SQ_INSTS_VALU", "VALUBusy"),
    "SQ_THREAD_CYCLES_VALU": ("VALUUtilization",),
    "SQ_VALU_MFMA_BUSY_CYCLES": ("MfmaUtil", "SQ_INSTS_MFMA"),
    "SQ_LDS_IDX_ACTIVE": ("SQC_LDS_IDX_ACTIVE", "SQ_INSTS_LDS"),
    "SQ_LDS_BANK_CONFLICT": ("SQC_LDS_BANK_CONFLICT", "SQ_INSTS_LDS"),
    "SQ_BUSY_CYCLES": ("GRBM_GUI_ACTIVE",),
    "SQ_ACTIVE_INST_ANY": ("SQ_WAVE_CYCLES",),
    "TA_TA_BUSY_sum": ("TCP_TOTAL_CACHE_ACCESSES_sum",),
}
"""Alternative counters."""


def missing_counters(profile: Profile, counted: CountedEvents) -> tuple[str, ...]:
    """Return one sentence per question that the recording's counters do not answer, with the command that answers it."""
    known = _names(counted)
    architecture = profile.target.architecture
    has_matrix = bool(profile.target.peaks.matrix_flops_per_cu_clock)
    emulated = profile.provenance.trace.emulated
    sentences = []
    for question, names in _GROUPS:
        absent = [name for name in names if not _has(known, name)]
        if not absent or (question == "busy matrix cores" and not has_matrix):
            continue
        chosen = names[:_MOST_PER_PASS]
        command = f"passes.counters=[{','.join(chosen)}]" if emulated else f"rocprofv3 --pmc {' '.join(chosen)} -- APPLICATION"
        sentences.append(f"{question}: {command}")
    if len(sentences) == len(_GROUPS):
        measured = "" if emulated else ", or rocprof-compute profile -- ./APPLICATION"
        return (f"counters of {architecture}: rocm-perf profile ./APPLICATION{measured}", *sentences)
    return tuple(sentences)


def has_dram_traffic(profile: Profile) -> bool:
    """Return whether the recording's counters state the bytes that the kernel read from DRAM and wrote to it."""
    known = _names(CountedEvents.of(profile))
    return all(_has(known, name) for name in _DRAM_TRAFFIC)


def _names(counted: CountedEvents) -> set[str]:
    return {name.removesuffix("_sum") for one in counted.passes for name in one}


def _has(known: set[str], name: str) -> bool:
    return any(one.removesuffix("_sum") in known for one in (name, *_REPLACED.get(name, ())))
