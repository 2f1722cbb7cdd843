"""The data in a page of `rocm-perf report`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def page_data(page: str | Path) -> dict[str, Any]:
    """Return the data of a page, given as text or as a file."""
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    (found,) = _DATA.findall(text)
    data: dict[str, Any] = json.loads(found)
    return data


def run_data(page: str | Path) -> dict[str, Any]:
    """Return the data of the only run of a page."""
    (run,) = page_data(page)["runs"]
    assert isinstance(run, dict)
    return run
