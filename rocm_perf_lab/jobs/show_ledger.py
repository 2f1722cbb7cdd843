"""Lines of the ledger of lost time: the roof, losses with evidence, suggestions, and missing evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from rocm_perf_lab.analysis.ledger_verdict import near
from rocm_perf_lab.core.text_columns import columns_of, first_columns, wrapped_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocm_perf_lab.analysis.ledger import Evidence, Ledger, Loss

UNKNOWN = "-"
AT_LEAST = ">="
"""Prefix of a lower bound."""
_LOSSES = 5
_SUGGESTIONS = 3
_MISSING = 2
_EVIDENCE_LINES = 2
_WORTH_A_LINE = 0.005
_LABEL = 28
_NUMBER = 9
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_THREE_DIGITS = 100
_GAP = " .."
_SMALLEST_OF_UNIT = 2.0
"""A unit is used for values of at least 2; below, the next smaller unit shows more digits."""
_SOURCES = {
    "counters": "counters",
    "thread_trace": "thread trace",
    "pc_samples": "PC samples",
    "launch": "launch",
    "code": "code",
}


@dataclass(frozen=True)
class TimeUnit:
    """Unit of a column of times."""

    name: str
    ns: float

    @classmethod
    def for_time(cls, time_ns: float | None) -> TimeUnit:
        """Return the largest unit in which a time is at least 2; microseconds if the time is unknown."""
        for ns, name in _UNITS:
            if time_ns is not None and time_ns >= _SMALLEST_OF_UNIT * ns:
                return cls(name, ns)
        return cls("us", 1e3) if time_ns is None or time_ns >= 1 else cls("ns", 1.0)

    def text(self, time_ns: float | None) -> str:
        """Format a time without its unit; `-` if unknown."""
        if time_ns is None:
            return UNKNOWN
        value = time_ns / self.ns
        return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def duration_text(time_ns: float | None) -> str:
    """Format a time with its unit and three digits, for example `16.3 us`; `-` if unknown."""
    if time_ns is None:
        return UNKNOWN
    ns, unit = next((row for row in _UNITS if time_ns >= row[0]), _UNITS[-1])
    value = time_ns / ns
    return f"{value:,.0f} {unit}" if value >= _THREE_DIGITS else f"{value:.3g} {unit}"


def ledger_lines(ledger: Ledger, *, width: int, verbose: bool = False) -> list[Text]:
    """Return the ledger as lines of at most `width` characters: roof, losses, suggestions, missing evidence.

    Args:
        ledger: Ledger of the kernel.
        width: Columns of the terminal.
        verbose: Show all losses with all evidence, all suggestions and everything that is missing.
    """
    return [
        *_verdict(ledger, width),
        *_table(ledger, width, verbose),
        *_suggestions(ledger, width, verbose),
        *_missing(ledger, width, verbose),
    ]


def labelled(label: str, text: str, width: int, *, most_lines: int | None = None, style: str = "bold") -> list[Text]:
    """Return a label of nine columns and text next to it, wrapped; more than `most_lines` lines are cut with `..`."""
    indent = " " * _NUMBER
    lines = wrapped(text, width - len(indent), most_lines)
    first = Text.assemble((f"{label:<{_NUMBER - 1}} ", style), lines[0] if lines else "")
    return [first, *(Text(indent + line) for line in lines[1:])]


def wrapped(text: str, width: int, most_lines: int | None = None) -> list[str]:
    """Return text in lines of at most `width` columns; words longer than a line are broken.

    Of more than `most_lines` lines the last one ends in `..`.
    """
    lines = wrapped_columns(text, width)
    if most_lines is None or len(lines) <= most_lines:
        return lines
    return [*lines[: most_lines - 1], _cut(f"{lines[most_lines - 1]} {lines[most_lines]}", width)]


def _cut(text: str, width: int) -> str:
    """Return the beginning of a text and an ellipsis in `width` columns, cut between words if words are short."""
    room = width - len(_GAP)
    begin = first_columns(text, room)
    whole = begin if text[len(begin) :][:1].isspace() else begin.rpartition(" ")[0]
    return (whole if columns_of(whole) >= room // 2 else begin).rstrip() + _GAP


def _verdict(ledger: Ledger, width: int) -> list[Text]:
    if ledger.roof is not None:
        roof = ledger.roof
        least = AT_LEAST if roof.lower_bound else ""
        share = f"{least}{roof.utilisation:.0%} of the time"
        time = "" if roof.time_ns is None else f"{least}{duration_text(roof.time_ns)}, "
        against = f"{roof.name}: {time}{share}"
    else:
        against = "not known: see missing" if ledger.missing else "not known"
    confidence = f" (confidence {ledger.confidence:.0%})" if ledger.confidence else ""
    verdict = ledger.verdict.replace("_", " ") + confidence
    return [*labelled("roof", against, width), *labelled("verdict", verdict, width, most_lines=3)]


def _table(ledger: Ledger, width: int, verbose: bool) -> list[Text]:
    if ledger.roof is None and not ledger.losses:
        return []
    unit = TimeUnit.for_time(ledger.measured_ns)
    kind = "emulated" if ledger.emulated else "measured"
    title = "ledger, no times" if ledger.measured_ns is None else f"ledger, times {kind}"
    lines = [Text(_row(title, unit.name, "share", "gain at most", "confidence"), style="bold")]
    if ledger.roof is not None:
        roof, least = ledger.roof, AT_LEAST if ledger.roof.lower_bound else ""
        amount = UNKNOWN if roof.time_ns is None else least + unit.text(roof.time_ns)
        lines.append(Text(_row(f"{roof.name} roof", amount, f"{least}{roof.utilisation:.1%}")))
    shown = ledger.losses if verbose else [loss for loss in ledger.losses if loss.share >= _WORTH_A_LINE][:_LOSSES]
    for loss in shown:
        lines += _loss(loss, unit, width, verbose)
    if rest := ledger.losses[len(shown) :]:
        small_ns = None if ledger.measured_ns is None else sum(loss.amount_ns or 0.0 for loss in rest)
        lines.append(Text(_row(f"{len(rest)} smaller", unit.text(small_ns), f"{sum(loss.share for loss in rest):.1%}")))
    if ledger.unexplained >= _WORTH_A_LINE / 10 or verbose:
        lines.append(Text(_row("unexplained", unit.text(ledger.unexplained_ns), f"{ledger.unexplained:.1%}")))
    return lines


def _row(label: str, amount: str, share: str, gain: str = "", confidence: str = "") -> str:
    return f"  {label:<{_LABEL}}{amount:>{_NUMBER}} {share:>7}  {gain:>16}  {confidence:>10}".rstrip()


def _loss(loss: Loss, unit: TimeUnit, width: int, verbose: bool) -> list[Text]:
    gain = f"{unit.text(loss.gain_ns)} {unit.name}" if loss.gain_ns is not None else f"{loss.gain:.1%}"
    name = str(loss.cause).replace("_", " ").replace("lds", "LDS")
    lines = [Text(_row(name, unit.text(loss.amount_ns), f"{loss.share:.1%}", gain, f"{loss.confidence:.0%}"))]
    for evidence in loss.evidence if verbose else loss.evidence[:1]:
        lines += _evidence(evidence, width, None if verbose else _EVIDENCE_LINES)
    return lines


def _evidence(evidence: Evidence, width: int, most_lines: int | None) -> list[Text]:
    indent = "    "
    text = f"{_SOURCES.get(str(evidence.source), str(evidence.source))}: {evidence.text}"
    return [Text(indent + line, style="dim") for line in wrapped(text, width - len(indent), most_lines)]


def _suggestions(ledger: Ledger, width: int, verbose: bool) -> list[Text]:
    """Return suggestions for a kernel near its roof, and for the largest losses, each preceded by its location in the code."""
    at_roof = [ledger.roof.suggestion] if ledger.roof is not None and ledger.verdict == near(ledger.roof) else []
    of_losses = (f"{loss.location}: {loss.suggestion}" if loss.location else loss.suggestion for loss in ledger.losses)
    texts = dict.fromkeys((*at_roof, *of_losses))
    chosen = list(texts) if verbose else list(texts)[:_SUGGESTIONS]
    return _numbered("suggestions", chosen, width, None if verbose else 2)


def _missing(ledger: Ledger, width: int, verbose: bool) -> list[Text]:
    shown = ledger.missing if verbose else ledger.missing[:_MISSING]
    lines = [line for n, text in enumerate(shown) for line in labelled("" if n else "missing", text, width, most_lines=2)]
    if len(ledger.missing) > len(shown):
        lines.append(Text(f"{'':<{_NUMBER}}and {len(ledger.missing) - len(shown)} more (--verbose)"))
    return lines


def _numbered(title: str, texts: Sequence[str], width: int, most_lines: int | None) -> list[Text]:
    if not texts:
        return []
    return [Text(title, style="bold"), *_items(texts, width, most_lines)]


def _items(texts: Iterable[str], width: int, most_lines: int | None) -> list[Text]:
    lines = []
    for number, text in enumerate(texts, start=1):
        first, *rest = wrapped(text, width - 5, most_lines)
        lines += [Text(f"  {number}. {first}"), *(Text(f"     {line}") for line in rest)]
    return lines
