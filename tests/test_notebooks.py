"""The notebooks of the documentation run, and each result shows itself as HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))
LONGEST_CELL_S = 900
SHOWN = {
    "find_lost_time": ["emulated", "correct", "small grid", "suggestion"],
    "tune_and_rewrite": ["Fastest trials", "Rewrites", "speed-up", "emulated"],
}
"""Texts that the displayed HTML of a notebook contains."""
VOID = {"br", "hr", "img", "input", "meta", "col"}


class OpenTags(HTMLParser):
    """Tags that are open; a wrong end tag is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outputs(notebook: Any) -> Iterator[Any]:
    return (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_results(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)

    assert list(outputs(notebook)) == []
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_results_show_themselves(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]

    NotebookClient(notebook, timeout=LONGEST_CELL_S, resources={"metadata": {"path": str(tmp_path)}}).execute()

    assert [output.text for output in outputs(notebook) if output.output_type == "stream" and output.name == "stderr"] == []
    pages = [output.data["text/html"] for output in outputs(notebook) if "text/html" in output.get("data", {})]
    for text in SHOWN[path.stem]:
        assert any(text in page for page in pages), text
    for page in pages:
        checked = OpenTags()
        checked.feed(page)
        assert checked.open == []
    if path.stem == "find_lost_time":
        assert (tmp_path / "comparison.html").stat().st_size < 5_000_000
