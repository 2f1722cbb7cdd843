"""Evidence of a verdict: trial, shape, element and source line, from the result of the checks."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from rocm_perf_lab.jobs.verify.document import BrokenRule, Number, VerifyEvidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.candidate import CandidateResult
    from rocm_perf_lab.verify.outputs import OutputCheck
    from rocm_perf_lab.verify.trials import Trial


def evidence_of(result: CandidateResult, trials: Sequence[Trial], *, seed: int, file_name: str) -> VerifyEvidence:
    """Return the evidence of a rejected candidate; empty for a correct one.

    Args:
        result: Result of all stages.
        trials: Trials of the unmodified kernel.
        seed: Seed of the trials.
        file_name: Name of the file that was compiled; reasons name its lines.
    """
    line = source_line(result.reason, file_name)
    if result.stage == "guard":
        broken = tuple(BrokenRule(name=guard.name, detail=guard.detail) for guard in result.guards if guard.rejects)
        return VerifyEvidence(guards=broken, source_line=line)
    if result.stage == "compile":
        return VerifyEvidence(source_line=line)
    if result.stage == "right":
        return VerifyEvidence()
    wrong = _wrong_check(result)
    trial = _trial_of(wrong.name if wrong is not None else result.reason, trials)
    found = VerifyEvidence(source_line=line)
    if trial is not None:
        found = found.model_copy(update={"trial": trial.name, "params": dict(trial.params), "inputs": trial.inputs, "seed": seed})
    return found if wrong is None else found.model_copy(update=_element(wrong, trial))


def source_line(reason: str, file_name: str) -> int | None:
    """Return the first line of a file that a reason names."""
    found = re.search(rf"(?<![\w/.-]){re.escape(file_name)}:(\d+)", reason)
    return int(found[1]) if found is not None else None


def renamed(reason: str, file_name: str, candidate: str) -> str:
    """Return a reason with the lines of the compiled copy as lines of the user's file."""
    return re.sub(rf"(?<![\w/.-]){re.escape(file_name)}(?=:\d)", lambda _: candidate, reason)


def _wrong_check(result: CandidateResult) -> OutputCheck | None:
    if result.stage != "verification" or result.correctness is None:
        return None
    return next((check for check in result.correctness.verification.checks if not check.passed), None)


def _trial_of(text: str, trials: Sequence[Trial]) -> Trial | None:
    """Return the trial that a reason or the name of a check ends with."""
    matching = [trial for trial in trials if text.endswith(f"[{trial.name}]")]
    return max(matching, key=lambda trial: len(trial.name), default=None)


def _element(check: OutputCheck, trial: Trial | None) -> dict[str, object]:
    return {
        "output": check.name.removesuffix(f" [{trial.name}]") if trial is not None else check.name,
        "element": check.worst_index,
        "actual": json_number(check.actual),
        "expected": json_number(check.expected),
        "wrong_elements": check.mismatches,
        "elements": check.elements,
    }


def json_number(value: float) -> Number:
    """Return a number that JSON can represent: NaN and infinities become strings."""
    if isinstance(value, int) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
