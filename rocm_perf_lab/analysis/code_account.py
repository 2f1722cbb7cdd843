"""Account of the code: register spills, scratch accesses and widths, which prove a cause but not its amount."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, Reassignment, Source, TimePart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.analysis.executed_code import ExecutedCode
    from rocm_perf_lab.analysis.static_code import StaticCode
    from rocm_perf_lab.profiling.profile import Profile

_LEAST_SCRATCH = 0.02
_MOST_ASSUMED, _MANY_SPILLS = 0.6, 50.0
_NARROW_BYTES = 4
"""Bytes per lane up to which wider accesses would reduce the number of instructions."""


def code_account(profile: Profile, code: ExecutedCode | None, static: StaticCode | None = None) -> Account:
    """Return the account of the code of a kernel.

    Args:
        profile: Profile of the kernel, with its registers and spills.
        code: Executed instructions; None if they are unknown.
        static: Instructions without the number of executions, if only those are known.
    """
    spilled = _spills(profile, code, static)
    return replace(spilled, losses=(*spilled.losses, *_narrow(static)))


def _spills(profile: Profile, code: ExecutedCode | None, static: StaticCode | None) -> Account:
    resources = profile.resources
    spills = resources.vgpr_spills or 0
    share = code.scratch_share if code is not None else assumed_scratch(profile, static)
    if not resources.scratch_bytes or (static is not None and static.never_uses_scratch):
        return Account(Source.CODE)
    if not spills and share < _LEAST_SCRATCH:
        return Account(Source.CODE)
    spilled = (
        f"the compiler spilled {spills} VGPRs to {resources.scratch_bytes:,} bytes of scratch per work-item"
        if spills
        else (f"the kernel uses {resources.scratch_bytes:,} bytes of scratch per work-item")
    )
    text = f"{spilled}; {share:.0%} of the vector memory instructions {'are assumed to ' if code is None else ''}access it"
    if code is None and static is not None and static.scratch_accesses:
        text += f" ({static.scratch_accesses} of the {static.accesses} in the code do)"
    evidence = Evidence(Source.CODE, text)
    part = TimePart(Cause.REGISTER_SPILLS, None, None, 0.6, (evidence,))
    if share < _LEAST_SCRATCH:
        return Account(Source.CODE, (part,))
    waits = (Cause.MEMORY_LATENCY, Cause.MEMORY_BACKPRESSURE, Cause.STORE_DRAIN, Cause.UNCOALESCED_ACCESS)
    return Account(Source.CODE, (part,), reassigned=(Reassignment(Cause.REGISTER_SPILLS, share, waits, evidence),))


def _narrow(static: StaticCode | None) -> Iterator[TimePart]:
    """Yield the proof that every access is narrow, which supports back-pressure of the memory pipe observed by other sources."""
    if static is None or static.widths is None or static.widths[1] > _NARROW_BYTES:
        return
    text = f"the {static.accesses} vector memory instructions of the code access at most {static.widths[1]} B per lane"
    yield TimePart(Cause.MEMORY_BACKPRESSURE, None, None, 0.3, (Evidence(Source.CODE, text),))


def assumed_scratch(profile: Profile, static: StaticCode | None = None) -> float:
    """Return the assumed share of scratch accesses of a kernel whose executed instructions are unknown.

    It is derived from spilled registers, and from dwords of scratch memory, which also contains arrays with variable indices. It
    is 0 if the code shows that no instruction can access scratch memory.
    """
    if static is not None and static.never_uses_scratch:
        return 0.0
    dwords = max(profile.resources.vgpr_spills or 0, profile.resources.scratch_bytes / 4)
    return min(_MOST_ASSUMED, dwords / _MANY_SPILLS)
