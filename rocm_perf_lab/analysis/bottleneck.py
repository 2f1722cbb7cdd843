"""Bottleneck of a kernel as documents name it: a class, derived from the ledger of lost time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.cause_catalogue import cause_catalogue
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.ledger_verdict import UNDECIDED, near

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.cause_catalogue import BottleneckClass
    from rocm_perf_lab.analysis.ledger import Ledger, Loss, Roof

_MEMORY = (HardwareUnit.DRAM, HardwareUnit.MALL, HardwareUnit.L2, HardwareUnit.VECTOR_L1, HardwareUnit.LDS)
_OTHERS_FROM = 0.05
"""Minimum share of the time of additional losses that are listed."""


@dataclass(frozen=True)
class Bottleneck:
    """Class of the largest loss or of the binding roof; `others` are classes of further losses, largest first."""

    name: BottleneckClass
    confidence: float
    reasons: tuple[str, ...]
    recommendations: tuple[str, ...]
    others: tuple[str, ...]
    not_judged: tuple[str, ...]
    """Evidence to collect."""


def bottleneck_of(ledger: Ledger) -> Bottleneck:
    """Return the bottleneck of a ledger."""
    texts = cause_catalogue().causes
    at_roof = ledger.roof is not None and ledger.verdict == near(ledger.roof)
    decided = ledger.verdict != UNDECIDED
    main = next((loss for loss in ledger.losses if loss.cause == ledger.verdict), None)
    name: BottleneckClass = "unknown"
    if at_roof and ledger.roof is not None:
        name = roof_class(ledger.roof)
    elif main is not None:
        name = texts[main.cause].bottleneck
    rest = [loss for loss in ledger.losses if loss is not main and loss.share >= _OTHERS_FROM]
    others = dict.fromkeys(texts[loss.cause].bottleneck for loss in rest)
    ordered = ([main] if main is not None else []) + rest
    advice = [ledger.roof.suggestion] if at_roof and ledger.roof is not None else []
    return Bottleneck(
        name=name,
        confidence=ledger.confidence,
        reasons=_reasons(ledger, main) if decided else (ledger.verdict,),
        recommendations=tuple(dict.fromkeys([*advice, *map(_advice, ordered), *([] if ordered or advice else ledger.missing)])),
        others=tuple(other for other in others if other != name),
        not_judged=ledger.missing,
    )


def roof_class(roof: Roof) -> BottleneckClass:
    """Return the class of a kernel near this roof."""
    return "memory_bandwidth_bound" if roof.unit in _MEMORY else "compute_bound"


def _advice(loss: Loss) -> str:
    return f"{loss.location}: {loss.suggestion}" if loss.location else loss.suggestion


def _reasons(ledger: Ledger, main: Loss | None) -> tuple[str, ...]:
    """Return the amount of the main loss with its evidence, and the roof."""
    known = ledger.roof
    roof = [] if known is None else [f"{known.utilisation:.0%} of the time is needed at the {known.name} roof"]
    if main is None:
        return (*roof, *([] if known is None else [evidence.text for evidence in known.evidence]))
    title = cause_catalogue().causes[Cause(main.cause)].title
    amount = f"{title} costs {main.share:.0%} of the time; removing it gains at most {main.gain:.0%}"
    return (amount, *(evidence.text for evidence in main.evidence), *roof)
