"""Proposals and verdicts: what was tried, from which parent, and why it was kept or not."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from rocm_perf_lab.optimize.guards import GuardResult  # noqa: TC001
from rocm_perf_lab.optimize.ranking import KernelShare  # noqa: TC001

# The journal reads the annotations of a verdict, so their types are imported for good.
from rocm_perf_lab.statistics.paired_test import PairedComparison  # noqa: TC001
from rocm_perf_lab.toolchain.code_object import KernelMetadata  # noqa: TC001
from rocm_perf_lab.verify.outputs import VerificationResult  # noqa: TC001

Stage = Literal["answer", "compile", "guard", "duplicate", "gate", "verification", "measurement"]
"""Where a proposal was decided: `answer` is a model's that holds no source, `gate` a run with all checks on."""
_ID_DIGITS = 12


@dataclass(frozen=True)
class Proposal:
    """One rewritten source. `id` is a hash of its text, so that equal rewrites are one proposal."""

    id: str
    parent_id: str | None
    transform: str
    description: str
    text: str

    @classmethod
    def of(cls, text: str, *, transform: str, description: str, parent: Proposal | None) -> Proposal:
        """A proposal for a source text."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
        return cls(digest, parent.id if parent else None, transform, description, text)

    def diff(self, other: Proposal, file_name: str) -> str:
        """Unified diff from this source to `other`, as `git apply` and `patch` take it."""
        old, new = _lines(self.text), _lines(other.text)
        name = f"{file_name}\t" if " " in file_name else file_name  # a tab ends a name with spaces
        lines = difflib.unified_diff(old, new, fromfile=f"a/{name}", tofile=f"b/{name}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True)
class Verdict:
    """What became of a proposal. `stage` is where it was decided; later fields are None where it did not get so far.

    improvement: relative gain over the best source at that time; 0.25 means a quarter less time.
    followed: whether it became a parent, which in a beam not only the accepted do.
    log: all that the compiler said where it refused.
    """

    proposal: Proposal
    accepted: bool
    stage: Stage
    reason: str
    guards: tuple[GuardResult, ...] = ()
    kernel: KernelMetadata | None = None
    occupancy_waves: float | None = None
    compile_cached: bool | None = None
    verification: VerificationResult | None = None
    runtime_ns: float | None = None
    improvement: float | None = None
    comparison: PairedComparison | None = None
    share: KernelShare | None = None
    code_sha256: str | None = None
    followed: bool = False
    log: str = ""


def _lines(text: str) -> list[str]:
    """Lines as diff tools see them: a form feed or a lone carriage return ends none."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
