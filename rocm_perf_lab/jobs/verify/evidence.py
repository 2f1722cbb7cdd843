"""Evidence for a verdict: trial, shape, element and source line, from the result of the checks."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from rocm_perf_lab.jobs.verify.document import BrokenRule, Number, VerifyEvidence

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.candidate import CandidateResult
    from rocm_perf_lab.verify.outputs import OutputCheck
    from rocm_perf_lab.verify.trials import Trial


def evidence_of(result: CandidateResult, *, seed: int, file_name: str) -> VerifyEvidence:
    """Return the evidence of a rejected candidate; empty for a correct one.

    Args:
        result: Result of all stages.
        seed: Seed of the trials.
        file_name: Name of the file that was compiled; reasons name its lines.
    """
    if result.stage == "right":
        return VerifyEvidence()
    broken = tuple(BrokenRule(name=guard.name, detail=guard.detail) for guard in result.guards if guard.rejects)
    trial = result.correctness.failed if result.correctness is not None else None
    wrong = _wrong_check(result)
    return VerifyEvidence.model_validate(
        {
            "source_line": source_line(result.reason, file_name),
            "guards": broken,
            **(_trial(trial, seed) if trial is not None else {"trial": _named_trial(result.reason)}),
            **(_element(wrong, trial) if wrong is not None else {}),
        }
    )


def source_line(reason: str, file_name: str) -> int | None:
    """Return the first line number in a reason that refers to a file; guards write `(line 5)` or `line 5 is new`."""
    found = re.search(rf"(?<![\w/.-]){re.escape(file_name)}:(\d+)|\bline (\d+)", reason)
    return int(found[1] or found[2]) if found is not None else None


def renamed(reason: str, file_name: str, candidate: str) -> str:
    """Return a reason in which the name of the compiled copy is replaced by that of the user's file."""
    return re.sub(rf"(?<![\w/.-]){re.escape(file_name)}(?=:\d)", lambda _: candidate, reason)


def _wrong_check(result: CandidateResult) -> OutputCheck | None:
    if result.stage != "verification" or result.correctness is None:
        return None
    return next((check for check in result.correctness.verification.checks if not check.passed), None)


def _named_trial(reason: str) -> str | None:
    """Return the trial with large buffers that is named at the end of a reason."""
    found = re.search(r"\[([^\[\]]+)\]$", reason)
    return found[1] if found is not None else None


def _trial(trial: Trial, seed: int) -> dict[str, object]:
    scalars = {name: json_number(value) for name, value in trial.scalars.items()}
    return {
        "trial": trial.name,
        "params": dict(trial.params),
        "scalars": scalars,
        "inputs": f"{trial.kind}{', output in the place of an input' if trial.in_place else ''}",
        "seed": seed,
    }


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
