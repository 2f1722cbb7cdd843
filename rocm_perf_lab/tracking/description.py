"""Description of a run in Markdown, which the MLflow UI shows above its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIGURES = {
    "runtime_us": ("time", "{:.4g} us"),
    "baseline_runtime_us": ("time before", "{:.4g} us"),
    "speedup": ("speed-up", "{:.3g}x"),
    "improvement": ("gain", "{:.1%}"),
    "evaluated_configs": ("evaluated configurations", "{:.0f}"),
    "proposals": ("proposals", "{:.0f}"),
    "accepted": ("accepted", "{:.0f}"),
}
_TAGS = {"bottleneck": "bottleneck", "verdict": "verdict", "verdict.reason": "reason", "stop_reason": "stopped because"}


def description(known: Mapping[str, str | float]) -> str:
    """Return the main figures of a run as a list; empty without any.

    Args:
        known: Tags as texts, and metrics as numbers.
    """
    kind = known.get("time_kind", "")
    rows = []
    for name, (title, form) in _FIGURES.items():
        value = known.get(name)
        if isinstance(value, float):
            rows.append(f"- {title}: **{form.format(value)}**{f' {kind}' if form.endswith(' us') else ''}")
    rows += [f"- {title}: {known[name]}" for name, title in _TAGS.items() if known.get(name)]
    if not rows:
        return ""
    subject = " ".join(str(known[name]) for name in ("kernel", "shape") if known.get(name))
    place = f" on {known['target']}" if known.get("target") else ""
    return "\n".join([f"**{subject or 'Run'}**{place}", "", *rows])
