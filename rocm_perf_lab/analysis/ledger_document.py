"""The ledger of lost time as part of a document. Times are microseconds, shares are relative to the measured time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Cause, Source  # noqa: TC001  (fields of models)
from rocm_perf_lab.profiling.documents import Part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocm_perf_lab.analysis.ledger import Evidence, Ledger, Loss, Roof

_NS_PER_US = 1000.0


class EvidencePart(Part):
    """One sentence with a number, and its origin."""

    source: Source
    text: str


class RoofPart(Part):
    """Binding roof: the time that the kernel would need at it, null without times."""

    name: str
    time_us: float | None
    utilisation: float
    evidence: tuple[EvidencePart, ...]
    lower_bound: bool
    """True if parts of the kernel's work are unknown, so that time and utilisation are lower bounds."""
    suggestion: str
    """Advice for a kernel near this roof."""


class LossPart(Part):
    """Named loss; `gain_us` and `gain_share` bound the time that removing the cause can save."""

    cause: Cause
    amount_us: float | None
    share: float
    gain_us: float | None
    gain_share: float
    confidence: float
    evidence: tuple[EvidencePart, ...]
    suggestion: str
    location: str | None


class LedgerPart(Part):
    """Budget of the kernel's time: measured = roof + losses + unexplained. Times are null if the recording has none."""

    measured_us: float | None
    emulated: bool
    verdict: str
    confidence: float
    roof: RoofPart | None
    losses: tuple[LossPart, ...]
    unexplained_us: float | None
    unexplained_share: float
    missing: tuple[str, ...]
    """Evidence to collect to explain the rest."""
    notes: tuple[str, ...]


def ledger_part(ledger: Ledger) -> LedgerPart:
    """Return the ledger as part of a document."""
    return LedgerPart(
        measured_us=_us(ledger.measured_ns),
        emulated=ledger.emulated,
        verdict=ledger.verdict,
        confidence=ledger.confidence,
        roof=_roof(ledger.roof) if ledger.roof is not None else None,
        losses=tuple(map(_loss, ledger.losses)),
        unexplained_us=_us(ledger.unexplained_ns),
        unexplained_share=ledger.unexplained,
        missing=ledger.missing,
        notes=ledger.notes,
    )


def _roof(roof: Roof) -> RoofPart:
    return RoofPart(
        name=roof.name,
        time_us=_us(roof.time_ns),
        utilisation=roof.utilisation,
        evidence=_evidence(roof.evidence),
        lower_bound=roof.lower_bound,
        suggestion=roof.suggestion,
    )


def _loss(loss: Loss) -> LossPart:
    return LossPart(
        cause=loss.cause,
        amount_us=_us(loss.amount_ns),
        share=loss.share,
        gain_us=_us(loss.gain_ns),
        gain_share=loss.gain,
        confidence=loss.confidence,
        evidence=_evidence(loss.evidence),
        suggestion=loss.suggestion,
        location=loss.location,
    )


def _evidence(rows: Iterable[Evidence]) -> tuple[EvidencePart, ...]:
    return tuple(EvidencePart(source=row.source, text=row.text) for row in rows)


def _us(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_US
