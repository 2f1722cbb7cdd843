"""Console output of a search: its result and the best configurations, at 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rocm_perf_lab.autotune.tuner import CHOICE
from rocm_perf_lab.jobs.show import time_text

if TYPE_CHECKING:
    from rich.console import Console

    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.autotune.tuner import TuningResult
    from rocm_perf_lab.target.timing_errors import TimingErrors

_SHOWN = 8
_MARGINS = (0.02, 0.05, 0.1)
_LOWEST = 0.01
_NS_PER_MS = 1e6
_TWO_DECIMALS = 0.1
"""Smaller numbers are printed with three digits."""


def show_result(console: Console, tuned: TuningResult, word: str, name: str, errors: TimingErrors | None = None) -> None:
    """Print the best configurations and the facts of the search; `errors` are the error bands of emulated times."""
    ran = sorted(
        (t for t in tuned.trials if t.runtime_ms is not None and t.number not in tuned.beyond_limits),
        key=lambda t: t.runtime_ms or 0.0,
    )
    unit, in_unit = ("ms", 1.0) if ran and (ran[0].runtime_ms or 0) >= 1 else ("us", 1e3)
    title = f"best of {len(tuned.trials)} configurations of {name}"
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left")
    table.add_column("trial", justify="right", no_wrap=True)
    table.add_column(f"{unit} {word}", justify="right", no_wrap=True)
    table.add_column("predicted", justify="right", no_wrap=True)
    tied = {trial.number for trial in tuned.tied}
    if tied:
        table.add_column("to the best", no_wrap=True)
    table.add_column("configuration", overflow="fold")
    for trial in ran[:_SHOWN]:
        predicted = _number(trial.predicted_ms * in_unit) if trial.predicted_ms is not None else "-"
        measured = _number((trial.runtime_ms or 0) * in_unit)
        place = ["tie" if trial.number in tied else "" if trial is ran[0] else "slower"] if tied else []
        table.add_row(str(trial.number), measured, predicted, *place, Text(_parameters(trial)))
    console.print(table)
    facts = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, text in _facts(tuned, word, errors):
        facts.add_row(label, Text(text))
    console.print(facts)
    for trial in tuned.failures[:3]:
        console.print(f"[yellow]failed[/]  trial {trial.number}: {escape(trial.reason or '')}", soft_wrap=True)
    if len(tuned.failures) > 3:
        console.print(f"[yellow]failed[/]  {len(tuned.failures) - 3} more: see autotune.json")


def _facts(tuned: TuningResult, word: str, errors: TimingErrors | None) -> list[tuple[str, str]]:
    best = tuned.best
    phases = ", ".join(f"{count} {phase}" for phase, count in tuned.phases.items())
    facts = [
        ("best", f"{time_text((best.runtime_ms or 0) * _NS_PER_MS, word, errors)}: {_parameters(best)}" if best else "none"),
        *_front(tuned),
        *([("limits", f"exceeded by {len(tuned.beyond_limits)} trials, not listed")] if tuned.beyond_limits else []),
        *_ties(tuned),
        (
            "space",
            f"{tuned.size_text} configurations; {len(tuned.trials):,} evaluated"
            + (f", {tuned.pruned:,} excluded by the model" if tuned.pruned else ""),
        ),
        *_remaining(tuned),
        ("phases", f"{phases}; stopped: {tuned.stop_reason}"),
    ]
    if tuned.model is not None and tuned.model["r2"] is not None:
        facts.append(("model", f"{tuned.model['name']}, cross-validated R² {tuned.model['r2']:.2f}"))
    if tuned.warning:
        facts.append(("warning", f"{tuned.warning}: the model explains little of the times"))
    if tuned.importances:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in list(tuned.importances.items())[:4])
        facts.append(("decisive", shares))
    return facts


def _remaining(tuned: TuningResult) -> list[tuple[str, str]]:
    """Return the probability that something better is left, for three margins."""
    chosen = [(margin, tuned.remaining[margin]) for margin in _MARGINS if margin in tuned.remaining]
    if not chosen:
        return []
    if len(tuned.trials) >= tuned.space_size:
        return [("left", "every configuration is evaluated")]
    shares = ", ".join(f"{_share(probability)} more than {margin:.0%} better" for margin, probability in chosen)
    return [("left", f"probability that an unmeasured configuration is better: {shares}")]


def _share(probability: float) -> str:
    return "below 1%" if probability < _LOWEST else "above 99%" if probability > 1 - _LOWEST else f"{probability:.0%}"


def _front(tuned: TuningResult) -> list[tuple[str, str]]:
    """Return the trials that no other beats in all objectives."""
    rows = []
    for member in tuned.front:
        values = ", ".join(f"{name}={value:.4g}" for name, value in zip(tuned.objectives, member.values, strict=True))
        rows.append(f"trial {member.trial.number}: {values}")
    return [("front", "; ".join(rows[:_SHOWN]) + (f"; {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""))] if rows else []


def _ties(tuned: TuningResult) -> list[tuple[str, str]]:
    """Return the group of configurations that are indistinguishable from the best on the emulator."""
    if not tuned.tied or tuned.band is None:
        return []
    count = len(tuned.tied)
    numbers = ", ".join(str(trial.number) for trial in tuned.tied[:_SHOWN]) + (", ..." if count > _SHOWN else "")
    some = f"{count} configurations are" if count > 1 else "1 configuration is"
    text = f"{some} indistinguishable from the best on the emulator (slower by less than {tuned.band.factor:.2f}x)"
    return [("ties", f"{text}: trial{'s' if count > 1 else ''} {numbers}; chosen by {CHOICE}")]


def _number(time: float) -> str:
    return f"{time:.2f}" if time >= _TWO_DECIMALS else f"{time:.3g}"


def _parameters(trial: TrialRecord) -> str:
    """Return `name=value` pairs: a column per parameter would not fit into 80 columns."""
    return " ".join(f"{name}={value}" for name, value in trial.parameters.items())
