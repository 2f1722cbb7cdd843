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
        documents: Directory of profile.json and analysis.json: the run's own, or that of its baseline.
        title: Heading of the page.
    """
    path = directory / "report.html"
    write_text(path, render(_read(documents / "profile.json"), _read(documents / "analysis.json"), _optimize(directory), title))
    return path


def render(profile: Mapping[str, Any], analysis: Mapping[str, Any], optimize: Mapping[str, Any] | None, title: str) -> str:
    """Return the page as text; every value is escaped."""
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
    return environment.get_template(TEMPLATE).render(title=title, profile=profile, analysis=analysis, optimize=optimize)


def _optimize(directory: Path) -> dict[str, Any] | None:
    path = directory / "optimize.json"
    return _read(path) if path.is_file() else None


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document
