"""The HTML report: one self-contained file about one or several runs.

:mod:`rocm_perf_lab.report.run_view` collects the data; the scripts in `assets/`, bundled from `web/`, render it. The page
loads nothing from the network. It shows only values from the documents of the runs, and labels emulated times.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.report.alignment import aligned_code
from rocm_perf_lab.report.chunks import Chunks
from rocm_perf_lab.report.run_view import run_view

if TYPE_CHECKING:
    from collections.abc import Sequence

ASSETS = Path(__file__).with_name("assets")
PAGE = "report.html"
FORMAT = 1
"""Version of the data format in the page. The page contains its scripts, so only these have to read it."""


def write_report(directory: Path, *, documents: Path, title: str, att: Path | None = None) -> Path:
    """Write `report.html` of a run into its directory.

    Args:
        directory: The run's directory.
        documents: Directory of profile.json and analysis.json: that of the run or of its baseline.
        title: Heading of the page.
        att: Decoded thread trace outside of the run.
    """
    chunks = Chunks()
    view = run_view(directory, chunks, documents=documents, att=att)
    path = directory / PAGE
    write_text(path, render([view], chunks, title))
    return path


def write_page(directories: Sequence[Path], output: Path | None = None) -> Path:
    """Write a page about runs; further runs are compared with the first one.

    Args:
        directories: Directories of the runs, or files with a document that a command printed.
        output: File; None is `report.html` in the directory of a single run, else in the working directory. The page about
            a document is written next to it.

    Raises:
        LabError: A directory holds no run, or the file cannot be written.
    """
    if not directories:
        raise LabError("no run to report", hint="pass the directories of one or more runs")
    chunks = Chunks()
    views = [run_view(directory, chunks) for directory in directories]
    path = output or (_own_page(directories[0]) if len(directories) == 1 else Path(PAGE))
    title = views[0]["name"] if len(views) == 1 else f"Comparison of {' and '.join(view['name'] for view in views)}"
    try:
        write_text(path, render(views, chunks, title))
    except OSError as error:
        raise LabError(
            f"cannot write the report: {error.strerror or error}", where=str(path), hint="choose a writable file: -o FILE"
        ) from error
    return path


def _own_page(run: Path) -> Path:
    return run.with_suffix(".html") if run.is_file() else run / PAGE


def render(views: Sequence[dict[str, Any]], chunks: Chunks, title: str) -> str:
    """Return the page as text.

    Args:
        views: Data of the runs, see :func:`~rocm_perf_lab.report.run_view.run_view`.
        chunks: Parts that are decoded on demand.
        title: Heading.
    """
    alignments = [aligned_code(views[0]["code"], view["code"]) for view in views[1:]]
    data = {"format": FORMAT, "title": title, "runs": list(views), "alignments": alignments}
    shell = Template((ASSETS / "page.html").read_text(encoding="utf-8"))
    return shell.substitute(
        title=escape(title),
        summary=_summary(views),
        style=_asset("report.css"),
        script=_asset("report.js"),
        data=_json(data),
        chunks=chunks.html(),
    )


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    """Return JSON that cannot end the script element that contains it; infinity and NaN become null."""
    text = json.dumps(_finite(data), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None  # NaN differs from itself
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _summary(views: Sequence[dict[str, Any]]) -> str:
    """Return the main results as text, for browsers with scripts disabled."""
    lines = []
    for view in views:
        profile = view["profile"]
        time = profile.get("runtime_ms") if profile else None
        told = f"{time * 1000:.3f} us {view['time_kind']}" if time is not None else f"times are {view['time_kind']}"
        lines.append(f"<p>{escape(view['name'])}: {escape(told)}</p>")
    return "\n".join(lines)
