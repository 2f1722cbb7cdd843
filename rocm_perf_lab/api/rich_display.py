"""HTML of results in notebooks: facts, tables, and the ledger of lost time as a bar."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

# Okabe and Ito, as in the HTML report: distinguishable with all common types of colour blindness.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800")
_UNEXPLAINED = "#7f7f7f"
_MOST_ROWS = 10
_LONGEST_CELL = 90


def facts(rows: Mapping[str, str]) -> str:
    """Return names and texts as a table with two columns."""
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows.items()
    )
    return f"<table>{cells}</table>"


def table(frame: pd.DataFrame, columns: Sequence[str], title: str = "") -> str:
    """Return the first rows of some columns of a table; empty without rows.

    Args:
        frame: The table.
        columns: Columns to show, if the table has them.
        title: Text above the table.
    """
    shown = frame[[name for name in columns if name in frame.columns]]
    if shown.empty:
        return ""
    rows = shown.head(_MOST_ROWS).map(_cell)
    left = f"<p>{len(shown) - _MOST_ROWS} more rows</p>" if len(shown) > _MOST_ROWS else ""
    heading = f"<p><b>{escape(title)}</b></p>" if title else ""
    return heading + str(rows.to_html(index=False, na_rep="")) + left


def ledger_bar(ledger: pd.DataFrame) -> str:
    """Return a bar of the whole time, divided into the rows of a ledger of lost time; empty without rows.

    Args:
        ledger: Rows with `cause` and `share`, see :attr:`rocm_perf_lab.LabRun.ledger`.
    """
    parts = [(str(row["cause"]).replace("_", " "), float(row["share"])) for row in ledger.to_dict("records") if row["share"] > 0]
    if not parts:
        return ""
    colours = [
        _UNEXPLAINED if name == "unexplained" else _COLOURS[place % len(_COLOURS)] for place, (name, _) in enumerate(parts)
    ]
    segments = "".join(
        f'<div title="{escape(name)}: {share:.1%}" style="flex:{share:.4f} 0 0;background:{colour}"></div>'
        for (name, share), colour in zip(parts, colours, strict=True)
    )
    legend = " ".join(
        f'<span style="white-space:nowrap"><span style="color:{colour}">&#9632;</span> {escape(name)} {share:.1%}</span>'
        for (name, share), colour in zip(parts, colours, strict=True)
    )
    return f'<div style="display:flex;height:18px;max-width:720px">{segments}</div><div style="max-width:720px">{legend}</div>'


def _colour(name: str, place: int) -> str:
    return _UNEXPLAINED if name == "unexplained" else _COLOURS[place % len(_COLOURS)]


def _cell(value: object) -> object:
    """Return a number rounded to four significant digits, or a text cut to the maximum length."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"  # NaN differs from itself
    if isinstance(value, str) and len(value) > _LONGEST_CELL:
        return value[: _LONGEST_CELL - 1] + "…"
    return "" if value is None else value
