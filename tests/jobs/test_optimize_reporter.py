"""Corrections of tracked proposals that the final comparison did not confirm."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from rocm_perf_lab.jobs.optimize.reporter import LoopReporter
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.resume import Journal
from rocm_perf_lab.tracking.run import NullTracker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BASELINE = Proposal.of("old\n", transform="none", description="the unmodified source", parent=None)
PROPOSAL = Proposal.of("new\n", transform="steps", description="to new", parent=BASELINE)
ACCEPTED = Verdict(PROPOSAL, True, "measurement", "5.0% less time", runtime_ns=950.0, improvement=0.05)
WITHDRAWN = replace(ACCEPTED, accepted=False, reason="5.0% less time; rolled back, because ...")


@dataclass
class RecordedRuns:
    """Tags of child runs by run id, kept between two processes."""

    tags: dict[str, dict[str, str]] = field(default_factory=dict)


class RecordingTracker(NullTracker):
    """Tracker that stores the tags of its children."""

    def __init__(self, runs: RecordedRuns, run_id: str | None = None) -> None:
        super().__init__()
        self._runs = runs
        self.run_id = run_id

    def child(self, name: str, tags: Mapping[str, str] | None = None, below: str | None = None) -> RecordingTracker:
        """Store the tags of a new run."""
        run_id = f"run {len(self._runs.tags)}"
        self._runs.tags[run_id] = dict(tags or {})
        return RecordingTracker(self._runs, run_id)

    def known_child(self, run_id: str) -> RecordingTracker:
        """Return a stored run."""
        return RecordingTracker(self._runs, run_id)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Store tags."""
        self._runs.tags[str(self.run_id)].update(tags)


def reporter(runs: RecordedRuns, path: Path, printed: io.StringIO) -> LoopReporter:
    identity = SimpleNamespace(time_word="measured")
    config = SimpleNamespace(kernel=SimpleNamespace(source=SimpleNamespace(name="k.hip")))
    lab: Any = SimpleNamespace(console=Console(file=printed, width=200), device=SimpleNamespace(identity=identity), config=config)
    progress: Any = SimpleNamespace(started=lambda *_: None, evaluated=lambda: None)
    return LoopReporter(lab, RecordingTracker(runs), {}, BASELINE, progress, Journal(path))


@pytest.mark.parametrize("resumed", [False, True])
def test_a_withdrawn_proposal_is_printed_and_corrected_in_tracking(resumed: bool, tmp_path: Path) -> None:
    runs, printed = RecordedRuns(), io.StringIO()
    first = reporter(runs, tmp_path / "journal.jsonl", printed)
    first.proposed(PROPOSAL, 1)
    first.accepted(ACCEPTED)
    before = dict(runs.tags["run 0"])
    last = reporter(runs, tmp_path / "journal.jsonl", printed) if resumed else first
    if resumed:  # the loop repeats all events
        last.proposed(PROPOSAL, 1)
        last.accepted(ACCEPTED)

    last.withdrawn(WITHDRAWN)

    assert (before["verdict"], before["rolled_back"]) == ("accepted", "false")
    assert list(runs.tags) == ["run 0"]
    after = runs.tags["run 0"]
    assert (after["verdict"], after["rolled_back"], after["verdict.reason"]) == ("rejected", "true", WITHDRAWN.reason)
    assert "rolled back 1: to new (5.0% less time; rolled back, because ...)" in printed.getvalue()
