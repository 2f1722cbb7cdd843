"""README and docs quote only numbers that a stored benchmark result holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.figures import RESULTS, Result, refreshed, without_blocks

REPOSITORY = Path(__file__).parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
GENERATED = {"emulator-coverage.md"}
NUMBER = r"\d+(?:[.,]\d+)?"
MEASURED = re.compile(
    r"\b(?:takes?|took|lasts?|costs?|adds?|runs? (?:at|in)) (?:about |up to )?"
    rf"{NUMBER}(?: to {NUMBER})? ?(?:s|seconds|ms|MiB/s)\b"
)
"""A time or speed in a sentence."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_figures_equal_the_stored_results(page: Path) -> None:
    assert page.read_text() == refreshed(page), "run: python -m benchmarks.figures"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_measured_numbers_appear_in_blocks_only(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", without_blocks(page.read_text()), flags=re.MULTILINE | re.DOTALL)

    assert [match[0] for match in MEASURED.finditer(prose)] == []


def test_the_readme_shows_the_speed_up_of_the_stored_demo() -> None:
    speedup = Result.load("slice").data["speedup"]

    assert f"speed-up {speedup:.2f}x" in (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_a_stored_result_has_its_origin(file: Path) -> None:
    result = Result.load(file.stem)

    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result.date)
    assert re.fullmatch(r"[0-9a-f]{10}(-dirty)?", result.commit)
    assert result.command.startswith("python -m benchmarks.") and result.machine
    assert result.rows and all(len(row) == len(result.columns) for row in result.rows.values())


def test_a_block_is_rewritten_from_the_results(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- figures: slice/version -->\n| stale |\n<!-- /figures -->\n\nafter\n")

    text = refreshed(page)

    assert Result.load("slice").rows["version"][1] in text
    assert "stale" not in text and text.startswith("before\n") and text.endswith("after\n")
    assert without_blocks(text) == "before\n\n\n\nafter\n"
