"""Proposals, which are rewritten sources with a parent, and verdicts on them."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from rocm_perf_lab.optimize.counter_rule import ExactCounts  # noqa: TC001
from rocm_perf_lab.optimize.guards import GuardResult  # noqa: TC001
from rocm_perf_lab.optimize.profile_summary import ProfileSummary  # noqa: TC001
from rocm_perf_lab.optimize.ranking import KernelShare  # noqa: TC001

# The journal evaluates the annotations of a verdict, so their types are imported at run time.
from rocm_perf_lab.statistics.paired_test import PairedComparison  # noqa: TC001
from rocm_perf_lab.toolchain.code_object import KernelMetadata  # noqa: TC001
from rocm_perf_lab.verify.outputs import VerificationResult  # noqa: TC001

Stage = Literal["answer", "compile", "guard", "duplicate", "gate", "verification", "measurement"]
"""Stage that determined a verdict; `answer`: a model's answer without a usable source, `gate`: a run with all checks."""
_ID_DIGITS = 12


@dataclass(frozen=True)
class Proposal:
    """Rewritten source. `id` is a hash of its text, so that equal rewrites have equal ids."""

    id: str
    parent_id: str | None
    transform: str
    description: str
    text: str

    @classmethod
    def of(cls, text: str, *, transform: str, description: str, parent: Proposal | None) -> Proposal:
        """Return the proposal for a source text."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
        return cls(digest, parent.id if parent else None, transform, description, text)

    def diff(self, other: Proposal, file_name: str) -> str:
        """Return the unified diff from this source to `other`, for `git apply` and `patch`."""
        old, new = _lines(self.text), _lines(other.text)
        name = f"{file_name}\t" if " " in file_name else file_name  # A tab terminates names with spaces.
        lines = difflib.unified_diff(old, new, fromfile=f"a/{name}", tofile=f"b/{name}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True)
class Verdict:
    """Result of one proposal. Fields of stages that were not reached are None.

    Args:
        proposal: Proposal.
        accepted: Whether it became the best source.
        stage: Stage that determined the verdict.
        reason: Reason of the decision.
        guards: Results of guards.
        kernel: Metadata of the compiled kernel.
        occupancy_waves: Waves per SIMD.
        compile_cached: Whether the build came from the cache.
        verification: Result of the trials.
        runtime_ns: Runtime of the kernel in ns.
        improvement: Relative gain over the best source at that time; 0.25 means 25 % less time.
        comparison: Comparison with the best source at that time.
        share: Share of the kernel in the total time, with its headroom.
        code_sha256: Hash of the machine code and of its launch.
        followed: Whether it became a parent; with beam search, proposals that are not accepted can be.
        log: Output of the compiler, if compilation failed.
        counts: Exact counters of the launch, if the device has them.
        by_counters: Whether exact counters determined the verdict, since emulated times were indistinguishable.
        uncovered: Branches that were taken in no trial, one sentence each.
        profile: Summary of its profile.
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
    counts: ExactCounts | None = None
    by_counters: bool = False
    uncovered: tuple[str, ...] = ()
    profile: ProfileSummary | None = None

    @property
    def is_indistinguishable(self) -> bool:
        """True if its emulated time is inside the error band around that of the best source at that time."""
        return self.stage == "measurement" and self.comparison is not None and self.comparison.is_indistinguishable


def _lines(text: str) -> list[str]:
    """Split text into lines like diff tools: a form feed or a single carriage return does not end a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
