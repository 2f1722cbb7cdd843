"""Account of the code: register spills and scratch accesses, which prove a cause without stating its amount."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, Reassignment, Source, TimePart

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.executed_code import ExecutedCode
    from rocm_perf_lab.profiling.profile import Profile

_LEAST_SCRATCH = 0.02
_MOST_ASSUMED, _MANY_SPILLS = 0.6, 50.0


def code_account(profile: Profile, code: ExecutedCode | None) -> Account:
    """Return the account of the code of a kernel.

    Args:
        profile: Profile of the kernel, with its registers and spills.
        code: Executed instructions; None if they are unknown.
    """
    resources = profile.resources
    spills = resources.vgpr_spills or 0
    share = code.scratch_share if code is not None else assumed_scratch(profile)
    if not resources.scratch_bytes or (not spills and share < _LEAST_SCRATCH):
        return Account(Source.CODE)
    spilled = (
        f"the compiler spilled {spills} VGPRs to {resources.scratch_bytes:,} bytes of scratch per work-item"
        if spills
        else (f"the kernel uses {resources.scratch_bytes:,} bytes of scratch per work-item")
    )
    text = f"{spilled}; {share:.0%} of the vector memory instructions {'are assumed to ' if code is None else ''}access it"
    evidence = Evidence(Source.CODE, text)
    part = TimePart(Cause.REGISTER_SPILLS, None, None, 0.6, (evidence,))
    if share < _LEAST_SCRATCH:
        return Account(Source.CODE, (part,))
    waits = (Cause.MEMORY_LATENCY, Cause.MEMORY_BACKPRESSURE, Cause.STORE_DRAIN, Cause.UNCOALESCED_ACCESS)
    return Account(Source.CODE, (part,), reassigned=(Reassignment(Cause.REGISTER_SPILLS, share, waits, evidence),))


def assumed_scratch(profile: Profile) -> float:
    """Return the assumed share of scratch accesses of a kernel whose executed instructions are unknown.

    It follows from spilled registers, and from dwords of scratch memory, which also hold arrays with variable indices.
    """
    dwords = max(profile.resources.vgpr_spills or 0, profile.resources.scratch_bytes / 4)
    return min(_MOST_ASSUMED, dwords / _MANY_SPILLS)
