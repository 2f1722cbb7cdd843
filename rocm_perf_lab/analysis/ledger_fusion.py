"""Fusion of all accounts into one ledger: `fuse(accounts, duration_ns)`.

The binding roof is the reliable unit with the largest useful share. The rest of the measured time is divided, in this order,
among idle time (launch, compute units without work), wasted work on a unit, and exposed waiting. Evidence of several sources for
one cause is averaged by confidence, not added. Waiting that counters only measure as a sum is replaced by the finer account of a
thread trace or of PC samples. Amounts that exceed the remaining time are reduced, so that no time is counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.cause_catalogue import cause_catalogue
from rocm_perf_lab.analysis.ledger import Cause, Ledger, Loss, Roof, Source
from rocm_perf_lab.analysis.ledger_verdict import judge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rocm_perf_lab.analysis.ledger import Account, Evidence, Reassignment, TimePart, UnitUse

IDLE = (Cause.LAUNCH_OVERHEAD, Cause.SMALL_GRID, Cause.TAIL)
WASTED = (
    Cause.LDS_BANK_CONFLICTS,
    Cause.LDS_UNALIGNED,
    Cause.DIVERGENCE,
    Cause.INSTRUCTION_OVERHEAD,
    Cause.UNCOALESCED_ACCESS,
    Cause.REGISTER_SPILLS,
    Cause.CHANNEL_IMBALANCE,
)
_WAITED_FOR = (Cause.UNCOALESCED_ACCESS, Cause.REGISTER_SPILLS)
"""Causes of wasted work that traces and samples observe as waiting."""
_FINE = (Source.THREAD_TRACE, Source.PC_SAMPLES, Source.COUNTERS)
"""Sources that observe waiting, the most detailed one first."""
_LEAST_SHARE = 0.005
_LEAST_COVERAGE = 0.5
"""Minimum share of the waiting that a finer source must explain to replace a coarser one."""
_NARROW = (Source.THREAD_TRACE, Source.PC_SAMPLES)
"""Sources that observe compute units with wavefronts, not the whole dispatch."""
_STATIC = (Source.LAUNCH, Source.CODE)
_DISAGREEMENT = 0.15
_MOST_EVIDENCE = 4


@dataclass(frozen=True)
class MergedPart:
    """Amount of one cause over all sources, as shares of the duration."""

    cause: Cause
    share: float
    gain: float
    confidence: float
    evidence: tuple[Evidence, ...]
    suggestion: str | None
    location: str | None


def fuse(
    accounts: Sequence[Account], duration_ns: float | None, *, emulated: bool = False, missing: Sequence[str] = ()
) -> Ledger:
    """Return the ledger of a kernel.

    Args:
        accounts: Accounts of all sources, in any number.
        duration_ns: Measured duration of a dispatch; None if unknown.
        emulated: True if the duration is a prediction of the timing model.
        missing: Evidence to collect, in addition to that of the accounts.
    """
    duration_ns = duration_ns if duration_ns and duration_ns > 0 else None
    seen = [account for account in accounts if account.source not in _NARROW]
    idle = [_merged(cause, _parts(seen if cause != Cause.TAIL else accounts, cause)) for cause in IDLE]
    idle += [_merged(part.cause, [(one.source, [part])]) for one in accounts for part in one.losses if _is_outside(part)]
    scaled = tuple(_scaled(account, idle) for account in accounts)
    roof = _roof(scaled, duration_ns, most=1 - idle[0].share)
    left = 1 - (roof.utilisation if roof else 0.0)
    wasted = [_merged(cause, _parts(scaled, cause)) for cause in WASTED]
    charged = {part.cause for account in accounts if account.source in _NARROW for part in account.losses}
    waiting = _moved(_waiting(scaled), [one for account in accounts for one in account.reassigned], charged)
    parts = _together(idle, wasted, waiting, left)
    losses = tuple(_loss(part, duration_ns, left) for part in parts)
    unexplained = max(0.0, left - sum(loss.share for loss in losses))
    has_evidence = any(account.units or account.losses for account in accounts if account.source not in _STATIC)
    found = judge(
        roof, losses, unexplained, has_evidence=has_evidence, saw_lanes=_saw_lanes(accounts), saw_code=_saw_code(accounts)
    )
    return Ledger(
        measured_ns=duration_ns,
        emulated=emulated,
        roof=roof,
        losses=losses,
        unexplained_ns=None if duration_ns is None else unexplained * duration_ns,
        unexplained=unexplained,
        missing=tuple(dict.fromkeys([*(line for account in accounts for line in account.missing), *missing])),
        verdict=found.verdict,
        confidence=found.confidence,
        notes=tuple(dict.fromkeys(note for account in accounts for note in account.notes)),
    )


def _saw_lanes(accounts: Sequence[Account]) -> bool:
    """Return True if a use of units is known from a source that records idle lanes, unlike a thread trace."""
    return any(account.units for account in accounts if account.source in (Source.COUNTERS, Source.PC_SAMPLES))


def _saw_code(accounts: Sequence[Account]) -> bool:
    """Return True if a use of units is known from a source that records the executed instructions."""
    return any(account.units for account in accounts if account.source in _NARROW)


def _is_outside(part: TimePart) -> bool:
    return part.outside and part.cause not in IDLE


def _scaled(account: Account, idle: Sequence[MergedPart]) -> Account:
    """Convert an account with shares of the traced or sampled work to shares of the whole dispatch on all units.

    Time outside of the work is removed, because it is already counted as idle time.
    """
    shares = {part.cause: part.share for part in idle}
    working = max(0.0, 1 - sum(part.share for part in idle))
    if account.of_dispatch:
        active = 1 - shares[Cause.LAUNCH_OVERHEAD]
        working = max(0.0, 1 - shares[Cause.SMALL_GRID] / active) if active > 0 else 0.0
    if any(map(_is_outside, account.losses)):
        account = replace(account, losses=tuple(part for part in account.losses if not _is_outside(part)))
    if account.source not in _NARROW:
        return account
    return replace(
        account,
        losses=tuple(
            replace(
                part,
                share=None if part.share is None else part.share * working,
                gain=None if part.gain is None else part.gain * working,
            )
            for part in account.losses
        ),
        units=tuple(replace(use, share=use.share * working) for use in account.units),
    )


def _roof(accounts: Iterable[Account], duration_ns: float | None, *, most: float) -> Roof | None:
    """Return the roof of the reliable unit with the largest share; counters outrank a trace, which covers few compute units.

    `most` is the largest possible share: no unit works while a dispatch is launched.
    """
    uses: dict[str, UnitUse] = {}
    order = (Source.COUNTERS, Source.THREAD_TRACE, Source.PC_SAMPLES, Source.LAUNCH, Source.CODE)
    for account in sorted(accounts, key=lambda account: order.index(account.source)):
        for use in account.units:
            if use.reliable:
                uses.setdefault(use.unit, use)
    if not uses:
        return None
    largest = max(uses.values(), key=lambda use: use.share)
    share = min(1.0, max(0.0, most), max(0.0, largest.share))
    return Roof(
        unit=largest.unit,
        time_ns=None if duration_ns is None else share * duration_ns,
        utilisation=share,
        evidence=(largest.evidence,),
        lower_bound=largest.lower_bound,
        suggestion=cause_catalogue().roofs[largest.unit],
    )


def _parts(accounts: Iterable[Account], cause: Cause) -> list[tuple[Source, list[TimePart]]]:
    found = []
    for account in accounts:
        own = [part for part in account.losses if part.cause == cause]
        if own:
            found.append((account.source, own))
    return found


def _merged(cause: Cause, parts: Sequence[tuple[Source, Sequence[TimePart]]]) -> MergedPart:
    """Return the mean of the sources' amounts, weighted by the square of their confidence; parts of one source are added."""
    amounts = []
    evidence: list[Evidence] = []
    largest: TimePart | None = None
    for _, own in sorted(parts, key=lambda pair: -max(part.confidence for part in pair[1])):
        ordered = sorted(own, key=lambda part: -(part.share or 0.0))
        evidence += [one for part in ordered[:2] for one in part.evidence]
        known = [part for part in own if part.share is not None]
        if known:
            share = min(1.0, sum(part.share or 0.0 for part in known))
            gain = min(1.0, sum(max(part.share or 0.0, part.gain or 0.0) for part in known))
            amounts.append((share, gain, max(part.confidence for part in known)))
        if largest is None or (ordered[0].location and not largest.location):
            largest = ordered[0]
    if not amounts or largest is None:
        return MergedPart(cause, 0.0, 0.0, 0.0, tuple(evidence), None, None)
    weight = sum(sure**2 for *_, sure in amounts) or 1.0
    share = sum(share * sure**2 for share, _, sure in amounts) / weight
    if cause in _WAITED_FOR:
        share = max(share for share, *_ in amounts)  # Counters measure the work on units, a trace the waiting; both are parts.
    gain = max(gain for _, gain, _ in amounts)
    sure = max(sure for *_, sure in amounts)
    apart = max(share for share, *_ in amounts) - min(share for share, *_ in amounts)
    sure *= 1.0 if apart <= _DISAGREEMENT or cause in _WAITED_FOR else max(0.5, 1 - apart)
    unique = tuple(dict.fromkeys(evidence))[:_MOST_EVIDENCE]
    return MergedPart(cause, share, max(gain, share), sure, unique, largest.suggestion, largest.location)


def _waiting(accounts: Sequence[Account]) -> list[MergedPart]:
    """Return the causes of waiting from the finest source that explains most of it; the others confirm or question it."""
    causes = [cause for cause in Cause if cause not in IDLE and cause not in WASTED]
    sums = {
        source: sum(
            part.share or 0.0
            for one in accounts
            if one.source == source
            for part in one.losses
            if part.cause in causes or part.cause in _WAITED_FOR
        )
        for source in _FINE
    }
    largest = max(sums.values())
    base = next((source for source in _FINE if sums[source] and sums[source] >= _LEAST_COVERAGE * largest), None)
    merged = []
    for cause in causes:
        parts = _parts(accounts, cause)
        own = [(source, found) for source, found in parts if source == base]
        others = [(source, found) for source, found in parts if source != base]
        if own:
            merged.append(_confirmed(_merged(cause, own), others))
    return merged


def _confirmed(part: MergedPart, others: Sequence[tuple[Source, Sequence[TimePart]]]) -> MergedPart:
    """Return the part with the evidence of other sources; agreement raises the confidence, disagreement lowers it."""
    evidence, sure = list(part.evidence), part.confidence
    for _, found in others:
        evidence += [one for other in found[:1] for one in other.evidence]
        known = [other.share for other in found if other.share is not None]
        if not known or sum(known) >= part.share / 2:
            sure = min(0.95, sure + 0.1)
        else:
            sure *= 0.9
    return replace(part, evidence=tuple(dict.fromkeys(evidence))[:_MOST_EVIDENCE], confidence=sure)


def _moved(waiting: Sequence[MergedPart], reassigned: Sequence[Reassignment], charged: Collection[Cause]) -> list[MergedPart]:
    """Move waiting to the causes that explain it, except those that the source of the waiting has already charged."""
    parts = list(waiting)
    for one in reassigned:
        own = [part for part in parts if part.cause in one.of]
        exposed = sum(part.share for part in own)
        moved = exposed * one.fraction
        if moved < _LEAST_SHARE or one.cause in charged:
            continue
        main = max(own, key=lambda part: part.share)
        parts = [replace(part, share=part.share * (1 - one.fraction)) if part in own else part for part in parts]
        evidence = (one.evidence, *main.evidence)[:_MOST_EVIDENCE]
        parts.append(MergedPart(one.cause, moved, exposed, main.confidence, evidence, one.suggestion, main.location))
    return parts


def _together(
    idle: Sequence[MergedPart], wasted: Sequence[MergedPart], waiting: Sequence[MergedPart], left: float
) -> list[MergedPart]:
    """Return one part per cause, largest first, with a sum of at most `left`; later groups share the rest of earlier ones."""
    found: dict[Cause, list[MergedPart]] = defaultdict(list)
    for group in (idle, wasted, waiting):
        whole = sum(part.share for part in group)
        factor = min(1.0, left / whole) if whole > 0 else 0.0
        left -= whole * factor
        for part in group:
            if part.share * factor >= _LEAST_SHARE:
                found[part.cause].append(replace(part, share=part.share * factor))
    return sorted((_sum(parts) for parts in found.values()), key=lambda part: (-part.share, part.cause))


def _sum(parts: Sequence[MergedPart]) -> MergedPart:
    if len(parts) == 1:
        return parts[0]
    ordered = sorted(parts, key=lambda part: -part.share)
    return replace(
        ordered[0],
        share=sum(part.share for part in parts),
        gain=min(1.0, sum(part.gain for part in parts)),
        evidence=tuple(dict.fromkeys(one for part in ordered for one in part.evidence))[:_MOST_EVIDENCE],
    )


def _loss(part: MergedPart, duration_ns: float | None, left: float) -> Loss:
    gain = min(max(part.gain, part.share), max(left, part.share))
    return Loss(
        cause=part.cause,
        amount_ns=None if duration_ns is None else part.share * duration_ns,
        share=part.share,
        gain_ns=None if duration_ns is None else gain * duration_ns,
        gain=gain,
        confidence=part.confidence,
        evidence=part.evidence,
        suggestion=part.suggestion or cause_catalogue().causes[part.cause].suggestion,
        location=part.location,
    )
