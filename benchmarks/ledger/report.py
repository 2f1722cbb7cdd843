"""Tables of the benchmark: hit rates, calibration of the confidence, and misses."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure
from benchmarks.ledger.diagnosing import EvidenceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.ledger.diagnosing import Answer, DiagnosedCase

BINS = ((0.0, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))
"""Ranges of confidence of the calibration table; the last one includes 1."""
CASE_COLUMNS = ("kernel, workgroups", "emulated, us", "expected", *EvidenceKind)
_GOALS = {("unseen", EvidenceKind.ALL): "90 %"}
_TITLES = {"unseen": "unseen set, seen afterwards"}
"""`ledger_unseen.json` has the first run, after which rules and emulator were corrected."""
_SURE = 0.8
_NORMAL_95 = 1.96
"""Quantile of the normal distribution for an interval of 95 %."""
_EVIDENCE_TEXTS = {
    EvidenceKind.ALL: "counters and thread trace",
    EvidenceKind.TRACE: "times and thread trace",
    EvidenceKind.COUNTERS: "times and counters",
}
_EVIDENCE_KEYS = {EvidenceKind.ALL: "all", EvidenceKind.TRACE: "trace", EvidenceKind.COUNTERS: "counters"}


@dataclass(frozen=True)
class CalibrationBin:
    """Verdicts with a confidence in [low, high), and how many of them are right."""

    low: float
    high: float
    verdicts: int
    right: int


def case_rows(cases: Sequence[DiagnosedCase]) -> dict[str, tuple[str, ...]]:
    """Return a row for each case: expected and found first lines, with confidence."""
    rows = {}
    for one in cases:
        found = (_cell(one, one.answer(kind)) for kind in EvidenceKind)
        rows[one.case.name] = (one.case.name, f"{one.duration_us:.1f}", " or ".join(one.case.accepted), *found)
    return rows


def figures(sets: Mapping[str, Sequence[DiagnosedCase]]) -> Iterator[Figure]:
    """Yield hit rates and calibration of each set of cases."""
    for name, cases in sets.items():
        for kind in EvidenceKind:
            right = sum(one.is_right(one.answer(kind)) for one in cases)
            title = f"ledger, {_TITLES.get(name, name)}: first line names the cause, {_EVIDENCE_TEXTS[kind]}"
            yield Figure(f"{name}_{_EVIDENCE_KEYS[kind]}", title, _share(right, len(cases)), _GOALS.get((name, kind), ""))
        for kind in EvidenceKind:
            yield _sure(name, cases, kind)
    for one in (one for name, cases in sets.items() if name == "unseen" for one in calibration(cases, EvidenceKind.ALL)):
        title = (
            f"ledger, {_TITLES['unseen']}: right at a confidence of {one.low:.0%} to {one.high:.0%}, "
            f"{_EVIDENCE_TEXTS[EvidenceKind.ALL]}"
        )
        yield Figure(f"calibration_{one.low * 100:.0f}", title, _share(one.right, one.verdicts))


def calibration(cases: Sequence[DiagnosedCase], kind: EvidenceKind) -> list[CalibrationBin]:
    """Return the calibration of the verdicts of one kind of evidence; undecided ones are not verdicts."""
    answers = [(one.answer(kind), one.is_right(one.answer(kind))) for one in cases]
    decided = [(answer.confidence, right) for answer, right in answers if answer.found != "undecided"]
    bins = []
    for low, high in BINS:
        inside = [right for confidence, right in decided if low <= confidence < high or (high == 1 and confidence == 1)]
        bins.append(CalibrationBin(low, high, len(inside), sum(inside)))
    return bins


def misses(cases: Sequence[DiagnosedCase]) -> Iterator[str]:
    """Yield a line for each wrong first line: evidence, expected and found first lines, and the reason if it is known."""
    for one in cases:
        for answer in one.answers:
            if not one.is_right(answer):
                expected = " or ".join(one.case.accepted)
                then = f", then {answer.second}" if answer.second else ""
                found = f"found {answer.found} ({answer.confidence:.0%}){then}"
                reason = f": {one.case.miss}" if one.case.miss and answer.evidence == EvidenceKind.ALL else ""
                yield f"{one.case.name} ({answer.evidence}): expected {expected}, {found}{reason}"


def case_data(one: DiagnosedCase) -> dict[str, Any]:
    """Return the unrounded results of a case for the JSON file."""
    return {
        "kernel": one.case.kernel,
        "source": one.case.source,
        "grid": list(one.case.grid),
        "block": one.case.block,
        "expected": list(one.case.accepted),
        "why": one.case.why,
        "corrected": one.case.corrected or None,
        "miss": one.case.miss or None,
        "emulated_us": round(one.duration_us, 2),
        "processor_seconds": round(one.processor_seconds, 1),
        "found": {
            _EVIDENCE_KEYS[answer.evidence]: {
                "first": answer.found,
                "confidence": round(answer.confidence, 3),
                "second": answer.second or None,
            }
            for answer in one.answers
        },
    }


def _cell(one: DiagnosedCase, answer: Answer) -> str:
    if answer.found == one.case.label:
        return f"right {answer.confidence:.0%}"
    found = f"right ({answer.found})" if one.is_right(answer) else f"[bold]WRONG: {answer.found}"
    return f"{found} {answer.confidence:.0%}"


def _sure(name: str, cases: Sequence[DiagnosedCase], kind: EvidenceKind) -> Figure:
    answers = [(one.answer(kind), one.is_right(one.answer(kind))) for one in cases]
    sure = [right for answer, right in answers if answer.found != "undecided" and answer.confidence >= _SURE]
    title = f"ledger, {_TITLES.get(name, name)}: wrong at a confidence of {_SURE:.0%} or more, {_EVIDENCE_TEXTS[kind]}"
    return Figure(f"{name}_{_EVIDENCE_KEYS[kind]}_sure_wrong", title, _share(len(sure) - sum(sure), len(sure)), "10 %")


def _share(count: int, whole: int) -> str:
    """Return a share with its 95 % interval."""
    if not whole:
        return "none"
    low, high = wilson_interval(count, whole)
    return f"{count} of {whole} ({low:.0%} to {high:.0%})"


def wilson_interval(count: int, whole: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share, both ends in [0, 1]; `whole` is positive."""
    share, spread = count / whole, _NORMAL_95**2 / whole
    half = sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    centre = (share + spread / 2) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
