"""HTML report of a run, rendered from its JSON documents by `templates/report.html.j2`.

The page needs neither network nor scripts. It shows only values of the documents and labels emulated times.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.core.resources import cache_dir, resource_dir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TEMPLATE = "report.html.j2"


def write_report(directory: Path, *, documents: Path, title: str) -> Path:
    """Render `report.html` into `directory`.

    Args:
        directory: The run's directory; its `optimize.json` is included if it exists.
        documents: Directory of profile.json, analysis.json and report.json: the run's own, or that of its baseline.
        title: Heading of the page.
    """
    path = directory / "report.html"
    profile, analysis, optimize, report = (
        _optional(place / name)
        for place, name in (
            (documents, "profile.json"),
            (documents, "analysis.json"),
            (directory, "optimize.json"),
            (documents, "report.json"),
        )
    )
    write_text(path, render(profile, analysis, optimize, title, report))
    return path


def render(
    profile: Mapping[str, Any] | None,
    analysis: Mapping[str, Any] | None,
    optimize: Mapping[str, Any] | None,
    title: str,
    report: Mapping[str, Any] | None = None,
) -> str:
    """Return the page as text; every value is escaped.

    Args:
        profile: profile.json; None for a recording without dispatches.
        analysis: analysis.json; None without `profile`.
        optimize: optimize.json of an optimization.
        title: Heading of the page.
        report: report.json of `analyze`.
    """
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    compiled = cache_dir() / "templates"
    compiled.mkdir(exist_ok=True)

    environment = Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        autoescape=True,
        bytecode_cache=FileSystemBytecodeCache(str(compiled)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(
        title=title, profile=profile, analysis=analysis, optimize=optimize, report=report
    )


def _optional(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document
