"""The journal of an interrupted loop: verdicts, and damaged files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.resume import Journal, JournalHeader, ResumeError

if TYPE_CHECKING:
    from pathlib import Path


def verdict_on(text: str) -> Verdict:
    proposal = Proposal.of(text, transform="unroll", description="ä rewrite\r\n", parent=None)
    return Verdict(proposal, False, "compile", "no ;", log="k.hip:1:2: error: no ;\n")


def test_a_verdict_survives_the_journal_unchanged(tmp_path: Path) -> None:
    verdict = verdict_on("int a;\r\n")
    Journal(tmp_path / "j").remember(verdict)

    assert Journal(tmp_path / "j").recall(verdict.proposal) == verdict
    assert Journal(tmp_path / "j").recall(verdict_on("int b;").proposal) is None


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_an_incomplete_line_is_dropped(tmp_path: Path, cut: int) -> None:
    first, second = verdict_on("int a;"), verdict_on("int b;")
    journal = Journal(tmp_path / "j", clock=lambda: 0.0)
    journal.remember(first)
    journal.remember(second)
    whole = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole[:-cut])

    again = Journal(tmp_path / "j", clock=lambda: 0.0)
    assert again.recall(first.proposal) == first
    assert again.recall(second.proposal) is None
    again.remember(second)

    assert (tmp_path / "j").read_bytes() == whole


def test_a_journal_requires_the_same_baseline(tmp_path: Path) -> None:
    begun = Journal(tmp_path / "j").begin(JournalHeader(baseline="aaa", runtime_ns=100.0, tracking_run="run"))

    assert Journal(tmp_path / "j").begin(JournalHeader(baseline="aaa", runtime_ns=101.0)) == begun
    with pytest.raises(ResumeError, match="changed since this run started"):
        Journal(tmp_path / "j").begin(JournalHeader(baseline="bbb", runtime_ns=100.0))


def test_tracked_proposals_are_remembered(tmp_path: Path) -> None:
    verdict = verdict_on("int a;")
    Journal(tmp_path / "j").tracked(verdict.proposal)

    assert Journal(tmp_path / "j").is_tracked(verdict.proposal)


@pytest.mark.parametrize("line", ["{}", "[1]", "no json", '{"verdict": {"reason": "x"}}', '{"begin": {"baseline": "a"}}',
                                  '{"begin": {"baseline": "a", "runtime_ns": 1.0, "format": 9}}'])  # fmt: skip
def test_an_invalid_file_is_rejected_with_the_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "j").write_text(line + "\n")

    with pytest.raises(ResumeError) as refused:
        Journal(tmp_path / "j")

    assert refused.value.where == f"{tmp_path / 'j'}:1"


def test_time_continues_after_an_interruption_and_counts_only_new_work(tmp_path: Path) -> None:
    first, second = verdict_on("int a;"), verdict_on("int b;")
    now = iter([100.0, 103.0])  # opened, and the first verdict after 3 s
    Journal(tmp_path / "j", clock=lambda: next(now)).remember(first)

    times = iter([5000.0, 5001.5, 5002.0])
    resumed = Journal(tmp_path / "j", clock=lambda: next(times))

    assert (resumed.is_replaying, resumed.elapsed_s) == (True, 3.0 + 1.5)
    resumed.recall(first.proposal)
    assert (resumed.is_replaying, resumed.recall(second.proposal)) == (False, None)
    resumed.remember(second)
    assert Journal(tmp_path / "j", clock=lambda: 0.0).elapsed_s == 3.0 + 2.0
