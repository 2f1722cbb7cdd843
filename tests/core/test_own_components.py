"""A transform, guard or device of the user's own is one class in one file of the working directory."""

import sys
from pathlib import Path

import pytest

from rocm_perf_lab.cli.entry import run_lab

TRANSFORM = """
from rocm_perf_lab.optimize.transforms.base import Rewrite

class Comment:
    name = "comment"

    def __init__(self, *, text):
        self._text = text

    def propose(self, unit):
        return (Rewrite("add a comment", unit.content.decode() + f"// {self._text}\\n"),)

    def rejections(self, unit):
        return ()
"""


@pytest.mark.slow
def test_a_transform_of_the_working_directory_is_named_by_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_transforms.py").write_text(TRANSFORM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])

    code = run_lab(
        [
            "job=optimize", "kernel=vector_add", "kernel.params.n=4096", "tracking=none", "optimizer.min_improvement=0",
            "optimizer.transforms=[{_target_: my_transforms.Comment, text: hello}]",
        ]
    )  # fmt: skip

    assert code == 0, capsys.readouterr().err
    assert "same machine code as the baseline" in capsys.readouterr().out
