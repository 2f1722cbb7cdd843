"""The tree of proposals as `rocm-perf lineage` prints it, of a run that ended and of one that was killed."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from rocm_perf_lab.jobs.optimize.lineage import LineageError, show_lineage
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.resume import JOURNAL, Journal, JournalHeader

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.proposal import Stage

PATCH = "--- a/k.hip\n+++ b/k.hip\n@@ -1 +1 @@\n-a\n+  b" + " long" * 40 + "\n"


def row(proposal: str, parent: str, stage: Stage, *, accepted: bool = False, gain: float | None = None) -> dict[str, object]:
    told = {"proposal": proposal, "parent": parent, "stage": stage, "accepted": accepted, "improvement": gain}
    return told | {"description": f"rewrite {proposal}", "reason": f"reason of {proposal}"}


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    rows = [
        row("a", "base", "measurement", accepted=True, gain=0.25),
        row("b", "base", "guard"),
        row("c", "base", "measurement", gain=0.1),
        row("d", "a", "verification"),
    ]
    summary = {
        "verdicts": rows,
        "baseline": {"proposal": "base"},
        "best": {"proposal": "a", "source": "best/k.hip"},
        "speedup": 4 / 3,
        "time_kind": "emulated",
        "stop_reason": "no further proposal was accepted",
    }
    (tmp_path / "optimize.json").write_text(json.dumps(summary))
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "k.hip.diff").write_text(PATCH)
    return tmp_path


def shown(directory: Path, *, with_diff: bool = False) -> str:
    console = Console(file=io.StringIO(), width=100, highlight=False)
    show_lineage(console, directory, with_diff=with_diff, as_json=False)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_children_are_listed_below_their_parents(finished: Path) -> None:
    lines = shown(finished).splitlines()

    assert lines[0] == "baseline the unmodified source base"
    assert lines[1] == "├── accepted rewrite a +25.0% a"
    assert lines[2] == "│   └── rolled back rewrite d d reason of d"
    assert lines[3] == "├── rejected: guard rewrite b b reason of b"
    assert lines[4] == "└── rolled back rewrite c +10.0% c reason of c"
    assert lines[5] == "speed-up 1.33x (emulated); stopped: no further proposal was accepted"


def test_the_patch_is_printed_verbatim_without_a_terminal(finished: Path) -> None:
    assert shown(finished, with_diff=True).endswith(PATCH)


def test_fast_enough_proposals_of_a_killed_run_are_not_rejected(tmp_path: Path) -> None:
    baseline = Proposal.of("a", transform="none", description="as it is", parent=None)
    journal = Journal(tmp_path / JOURNAL)
    journal.begin(JournalHeader(baseline=baseline.id, runtime_ns=100.0))
    for text, is_faster in (("b", True), ("c", False)):
        proposal = Proposal.of(text, transform="t", description=f"rewrite {text}", parent=baseline)
        journal.remember(Verdict(proposal, is_faster, "measurement", "told", improvement=0.2 if is_faster else 0.0))

    output = shown(tmp_path)

    assert "fast enough rewrite b +20.0%" in output
    assert "rolled back rewrite c +0.0%" in output
    assert "interrupted: rocm-perf optimize --resume" in output


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "this directory does not contain an optimization"), ("{}", "this is not a valid optimize.json")],
)
def test_a_directory_without_an_optimization_is_reported(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "optimize.json").write_text(content)

    with pytest.raises(LineageError, match=message):
        shown(tmp_path)
