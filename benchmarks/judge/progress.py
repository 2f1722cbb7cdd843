"""Results of a run that can be interrupted: one file per kernel in a directory."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from benchmarks.figures import REPOSITORY
from benchmarks.judge.judging import JudgedCandidate, JudgedKernel, judge_kernel
from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.judge.corpus import CorpusCandidate

_DIGITS = 12


def judge_remaining(
    name: str, candidates: Sequence[CorpusCandidate], seed: int, directory: Path | None, commit: str
) -> JudgedKernel:
    """Return the results of all candidates of a kernel; those in `directory` are not judged again.

    Args:
        name: Name of the kernel.
        candidates: Candidates of that kernel.
        seed: Seed of the trials.
        directory: Directory of earlier results, to which new ones are added; None judges everything.
        commit: Commit of the judge, noted with each new result.

    Raises:
        LabError: The unmodified kernel fails its own trials.
    """
    path = None if directory is None else directory / f"{name}.json"
    earlier = _read(path) if path is not None and path.is_file() else JudgedKernel(name, 0.0, ())
    known = {(c.name, c.source): c for c in earlier.candidates}
    missing = [c for c in candidates if (c.entry.name, source_of(c)) not in known]
    baseline_seconds = earlier.baseline_seconds
    if missing:
        judged = judge_kernel(name, missing, seed)
        baseline_seconds = judged.baseline_seconds
        for candidate, result in zip(missing, judged.candidates, strict=True):
            source = source_of(candidate)
            known[candidate.entry.name, source] = replace(result, source=source, commit=commit)
    kept = tuple(_labelled(known[c.entry.name, source_of(c)], c) for c in candidates)
    if path is not None:
        everything = {**{c.name: c for c in known.values()}, **{c.name: c for c in kept}}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(JudgedKernel(name, baseline_seconds, tuple(everything.values()))), indent=1) + "\n")
    return JudgedKernel(name, baseline_seconds, kept)


def source_of(candidate: CorpusCandidate) -> str:
    """Return the first digits of the SHA-256 of a candidate's source."""
    return hashlib.sha256(candidate.text.encode()).hexdigest()[:_DIGITS]


def current_commit() -> str:
    """Return the abbreviated commit of this checkout."""
    run = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return run.stdout.strip()


def _read(path: Path) -> JudgedKernel:
    stored = json.loads(path.read_text())
    return JudgedKernel(stored["kernel"], stored["baseline_seconds"], tuple(JudgedCandidate(**c) for c in stored["candidates"]))


def _labelled(judged: JudgedCandidate, candidate: CorpusCandidate) -> JudgedCandidate:
    """Return a result with the label of the corpus, which may have been corrected since."""
    entry = candidate.entry
    return replace(judged, label=entry.verdict, why=entry.why, part=candidate.part, origin=candidate.origin)
