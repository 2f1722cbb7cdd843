"""The judge, run on the candidates of one kernel."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import yaml

from benchmarks.judge.corpus import TARGET, load_kernel
from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.optimize.candidate import CandidateChecker
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.policy import TrialPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.judge.corpus import CorpusCandidate

RIGHT = "right"


@dataclass(frozen=True)
class JudgedCandidate:
    """Result of the judge for one candidate.

    Args:
        kernel: Name of the kernel.
        name: Name of the candidate.
        label: `wrong` or `legitimate`.
        part: `development`, `held_out`, `third` or `fourth`.
        origin: `hand` or `mutation`.
        why: Reason of the label.
        stage: Stage that rejected the candidate, or `right`.
        reason: Reason of the judge.
        seconds: Processor time of the check with its child processes.
        source: SHA-256 of the source, first twelve digits.
        commit: Commit of the judge.
    """

    kernel: str
    name: str
    label: str
    part: str
    origin: str
    why: str
    stage: str
    reason: str
    seconds: float
    source: str = ""
    commit: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the judge accepted the candidate."""
        return self.stage == RIGHT

    @property
    def misjudged(self) -> bool:
        """Whether the result differs from the label."""
        return self.accepted == (self.label == "wrong")


@dataclass(frozen=True)
class JudgedKernel:
    """Results for one kernel; `baseline_seconds` is the processor time of its own trials and builds."""

    kernel: str
    baseline_seconds: float
    candidates: tuple[JudgedCandidate, ...]


def judge_kernel(name: str, candidates: Sequence[CorpusCandidate], seed: int) -> JudgedKernel:
    """Return the results of all candidates of one kernel; progress is printed to the standard error stream.

    Args:
        name: Name of the kernel.
        candidates: Candidates of that kernel.
        seed: Seed of the trials.

    Raises:
        LabError: The unmodified kernel fails its own trials.
    """
    start = _processor_seconds()
    checker = _checker(name, seed)
    baseline_seconds = _processor_seconds() - start
    file_name = load_kernel(name).source.name
    judged = []
    with TemporaryDirectory(prefix="judge-") as directory:
        for candidate in candidates:
            judged.append(_judged(checker, candidate, candidate.write(Path(directory), file_name)))
            _report(judged[-1])
    return JudgedKernel(name, baseline_seconds, tuple(judged))


def _processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _checker(name: str, seed: int) -> CandidateChecker:
    target = load_target(TARGET)
    rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "guards.yaml").read_text())["guards"]
    guards = [build(Component.model_validate(row), where="optimizer.guards", target=target) for row in rows]
    policy = TrialPolicy(seed=seed)
    return CandidateChecker(load_kernel(name), compiler=find_compiler(), target=target, guards=guards, policy=policy)


def _judged(checker: CandidateChecker, candidate: CorpusCandidate, source: Path) -> JudgedCandidate:
    start = _processor_seconds()
    try:
        result = checker.check(source)
        stage, reason = str(result.stage), result.reason
    except LabError as error:  # the loop, too, rejects a candidate whose check fails
        stage, reason = "error", str(error)
    entry = candidate.entry
    seconds = _processor_seconds() - start
    return JudgedCandidate(
        candidate.kernel, entry.name, entry.verdict, candidate.part, candidate.origin, entry.why, stage, reason, seconds
    )


def _report(judged: JudgedCandidate) -> None:
    mark = ("FALSE ACCEPT" if judged.accepted else "FALSE REJECT") if judged.misjudged else ""
    reason = " ".join(judged.reason.split())[:160]
    print(f"{judged.kernel:16} {judged.label:10} {judged.name:32} {judged.stage:12} {judged.seconds:5.1f} s  {mark:12} {reason}",
          file=sys.stderr, flush=True)  # fmt: skip
