"""HTML report of a search: times by trial, predicted against measured times, pruned configurations, parameter importance.

Input is the document of autotune.json. The page needs neither network nor scripts and labels emulated times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TEMPLATE = "autotune.html.j2"
WIDTH, HEIGHT, MARGIN = 460, 320, 56
COLOURS = {"seed": "#868e96", "prediction": "#1f6fb4", "confirmation": "#2b8a3e", "sampler": "#7b5ea7"}
_PADDING = 1.1


@dataclass(frozen=True)
class Mark:
    """One trial in a plot, in pixels; `label` is the tooltip."""

    x: float
    y: float
    colour: str
    label: str


@dataclass(frozen=True)
class Tick:
    """Axis label, in pixels along the axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Plot:
    """Marks and ticks in pixels; `line` is a polyline."""

    marks: tuple[Mark, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    line: str


@dataclass(frozen=True)
class _Scale:
    """Linear or logarithmic scale from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = True

    def __call__(self, value: float) -> float:
        low, high, value = (
            (math.log(v) for v in (self.low, self.high, value)) if self.logarithmic else (self.low, self.high, value)
        )
        return round(self.start + (self.end - self.start) * (value - low) / ((high - low) or 1.0), 2)

    def ticks(self, count: int = 5) -> tuple[Tick, ...]:
        """Return labels that are evenly spaced in pixels."""
        shares = [i / (count - 1) for i in range(count)]
        values = [
            self.low * (self.high / self.low) ** share if self.logarithmic else self.low + (self.high - self.low) * share
            for share in shares
        ]
        return tuple(Tick(self(value), f"{value:.3g}") for value in values)


def write_autotune_report(directory: Path, document: Mapping[str, Any]) -> Path:
    """Render `report.html` into the run's directory."""
    path = directory / "report.html"
    write_text(path, render(document))
    return path


def render(document: Mapping[str, Any]) -> str:
    """Return the page as text; every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ran = [trial for trial in document["trials"] if trial["runtime_ms"] is not None]
    return environment.get_template(TEMPLATE).render(
        result=document,
        progress=progress(ran),
        agreement=agreement([trial for trial in ran if trial["predicted_ms"] is not None]),
        best=sorted(ran, key=lambda trial: float(trial["runtime_ms"]))[:10],
        colours=COLOURS,
        width=WIDTH,
        height=HEIGHT,
        margin=MARGIN,
    )


def progress(ran: Sequence[Mapping[str, Any]]) -> Plot | None:
    """Return time by trial, and the best so far as a line; None without measured trials."""
    if not ran:
        return None
    times = [float(trial["runtime_ms"]) * 1e3 for trial in ran]
    numbers = [float(trial["trial"]) for trial in ran]
    across = _Scale(min(numbers), max(*numbers, min(numbers) + 1), MARGIN, WIDTH - 8, logarithmic=False)
    up = _vertical(times)
    best, corners = math.inf, []
    for number, time in zip(numbers, times, strict=True):
        if time < best:
            corners += [(across(number), up(best if math.isfinite(best) else time)), (across(number), up(time))]
            best = time
    corners.append((across(numbers[-1]), up(best)))
    marks = tuple(_mark(trial, across(number), up(time)) for trial, number, time in zip(ran, numbers, times, strict=True))
    return Plot(marks, across.ticks(), up.ticks(), " ".join(f"{x},{y}" for x, y in corners))


def agreement(predicted: Sequence[Mapping[str, Any]]) -> Plot | None:
    """Return measured over predicted time, and the line of agreement; None without predictions."""
    if not predicted:
        return None
    pairs = [(float(trial["predicted_ms"]) * 1e3, float(trial["runtime_ms"]) * 1e3) for trial in predicted]
    pairs = [(guess, time) for guess, time in pairs if guess > 0]
    if not pairs:
        return None
    both = [value for pair in pairs for value in pair]
    up = _vertical(both)
    across = _Scale(up.low, up.high, MARGIN, WIDTH - 8)
    marks = tuple(
        _mark(trial, across(float(trial["predicted_ms"]) * 1e3), up(float(trial["runtime_ms"]) * 1e3))
        for trial in predicted
        if float(trial["predicted_ms"]) > 0
    )
    line = f"{across(up.low)},{up(up.low)} {across(up.high)},{up(up.high)}"
    return Plot(marks, across.ticks(), up.ticks(), line)


def _vertical(times: Sequence[float]) -> _Scale:
    return _Scale(min(times) / _PADDING, max(times) * _PADDING, HEIGHT - MARGIN + 16, 8)


def _mark(trial: Mapping[str, Any], x: float, y: float) -> Mark:
    values = ", ".join(f"{name}={value}" for name, value in trial["parameters"].items())
    label = f"trial {trial['trial']}, {trial['phase']}: {float(trial['runtime_ms']) * 1e3:.3f} us; {values}"
    return Mark(x, y, COLOURS.get(trial["phase"], COLOURS["sampler"]), label)
