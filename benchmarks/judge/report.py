"""Error rates of the judge with intervals, and the tables of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml
from pydantic import TypeAdapter

from benchmarks.figures import Figure
from rocm_perf_lab.core.models import StrictModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.judge.judging import JudgedCandidate, JudgedKernel

KERNEL_COLUMNS = (
    "kernel",
    "wrong",
    "false accepts",
    "legitimate",
    "false rejects",
    "seconds per candidate",
    "seconds of baseline",
)
CONFIDENCE = 0.95
SETS = {"development": "development set", "held_out": "held-out set", "third": "third set", "fourth": "fourth set"}
_FIRST_RUNS = Path(__file__).with_name("first_runs.yaml")


class FirstRun(StrictModel):
    """Result of the first run of a set, before rules or labels were changed because of it.

    Args:
        part: Set.
        commit: Commit of the judge.
        wrong: Wrong candidates that were judged.
        accepted: Those of them that the judge accepted, as KERNEL/NAME.
        legitimate: Legitimate candidates that were judged.
        rejected: Those of them that the judge rejected.
        corrected: Labels that were wrong, with the reason.
        later: Kernels that were judged later, as the trials of the unmodified kernel ended with an exception at first.
    """

    part: str
    commit: str
    wrong: int
    accepted: tuple[str, ...]
    legitimate: int
    rejected: tuple[str, ...]
    corrected: dict[str, str] = {}
    later: tuple[str, ...] = ()


def first_runs() -> tuple[FirstRun, ...]:
    """Return the first runs of all sets, oldest first."""
    return tuple(TypeAdapter(list[FirstRun]).validate_python(yaml.safe_load(_FIRST_RUNS.read_text())))


@dataclass(frozen=True)
class ErrorRate:
    """Number of errors among trials with the Clopper-Pearson interval of its rate."""

    errors: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the rate at 95 % confidence; (0, 1) without trials."""
        from scipy.stats import binomtest

        if not self.total:
            return 0.0, 1.0
        found = binomtest(self.errors, self.total).proportion_ci(CONFIDENCE, method="exact")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        low, high = self.interval
        rate = f" ({self.errors / self.total:.1%})" if self.total else ""
        return f"{self.errors} of {self.total}{rate}, 95 % interval {low:.1%} to {high:.1%}"


def false_accepts(candidates: Sequence[JudgedCandidate]) -> ErrorRate:
    """Return how many wrong candidates the judge accepted."""
    wrong = [c for c in candidates if c.label == "wrong"]
    return ErrorRate(sum(c.accepted for c in wrong), len(wrong))


def false_rejects(candidates: Sequence[JudgedCandidate]) -> ErrorRate:
    """Return how many legitimate candidates the judge rejected."""
    legitimate = [c for c in candidates if c.label == "legitimate"]
    return ErrorRate(sum(not c.accepted for c in legitimate), len(legitimate))


def kernel_rows(kernels: Sequence[JudgedKernel]) -> dict[str, tuple[str, ...]]:
    """Return one row of `KERNEL_COLUMNS` per kernel."""
    rows: dict[str, tuple[str, ...]] = {}
    for judged in kernels:
        accepts, rejects = false_accepts(judged.candidates), false_rejects(judged.candidates)
        seconds = np.median([c.seconds for c in judged.candidates])
        rows[judged.kernel] = (
            judged.kernel, str(accepts.total), str(accepts.errors), str(rejects.total), str(rejects.errors), f"{seconds:.1f}",
            f"{judged.baseline_seconds:.1f}",
        )  # fmt: skip
    return rows


def summary(kernels: Sequence[JudgedKernel]) -> list[Figure]:
    """Return the figures with their goals, for all sets together and for each set with candidates."""
    candidates = [candidate for judged in kernels for candidate in judged.candidates]
    figures = [
        Figure(
            "candidates", "candidates judged", f"{_counted(candidates)} over {len(kernels)} kernels", "150 wrong, 150 legitimate"
        ),
        Figure("false_accepts", "wrong candidates accepted", str(false_accepts(candidates)), "0"),
        Figure("false_rejects", "legitimate candidates rejected", str(false_rejects(candidates)), "at most 2 %"),
    ]
    for part, name in SETS.items():
        chosen = [c for c in candidates if c.part == part]
        if chosen:
            figures += [
                Figure(f"{part}_false_accepts", f"{name}: wrong candidates accepted", str(false_accepts(chosen)), "0"),
                Figure(
                    f"{part}_false_rejects", f"{name}: legitimate candidates rejected", str(false_rejects(chosen)), "at most 2 %"
                ),
            ]
    for run in first_runs():
        name = f"{SETS[run.part]}, first run"
        accepts, rejects = ErrorRate(len(run.accepted), run.wrong), ErrorRate(len(run.rejected), run.legitimate)
        figures += [
            Figure(f"{run.part}_first_false_accepts", f"{name}: wrong candidates accepted", str(accepts), "0"),
            Figure(f"{run.part}_first_false_rejects", f"{name}: legitimate candidates rejected", str(rejects), "at most 2 %"),
        ]
    seconds = [c.seconds for c in candidates]
    return [
        *figures,
        Figure("seconds", "processor seconds per candidate", f"median {np.median(seconds):.1f}, maximum {max(seconds):.1f}"),
    ]


def misjudged_lines(candidates: Sequence[JudgedCandidate]) -> list[str]:
    """Return one paragraph per false accept and false reject, with the reason of the label and that of the judge."""
    lines = []
    for c in candidates:
        if c.misjudged:
            kind = "false accept" if c.accepted else f"false reject ({c.stage})"
            reason = f"\n    judge: {' '.join(c.reason.split())}" if c.reason else ""
            lines.append(f"{kind}: {c.kernel}/{c.name} [{c.part}, {c.origin}]\n    label: {c.why}{reason}")
    return lines


def _counted(candidates: Sequence[JudgedCandidate]) -> str:
    mutants = sum(c.origin == "mutation" for c in candidates)
    wrong, legitimate = false_accepts(candidates).total, false_rejects(candidates).total
    return f"{wrong} wrong ({mutants} of them mutants) and {legitimate} legitimate"
