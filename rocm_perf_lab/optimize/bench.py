"""Protocol between the closed loop and the code that builds, runs and compares sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.counter_rule import ExactCounts
    from rocm_perf_lab.optimize.inspection import Inspection
    from rocm_perf_lab.optimize.profile_summary import ProfileSummary
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.optimize.ranking import KernelShare
    from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.verify.outputs import VerificationResult


@dataclass(frozen=True)
class BuiltCandidate:
    """Compiled source. `code_sha256` is the hash of the machine code, without line tables, and of its launch.

    `inspection` is for guards.
    """

    kernel: KernelMetadata
    code_sha256: str
    occupancy_waves: float
    cached: bool
    inspection: Inspection | None = None


@dataclass(frozen=True)
class Evaluation:
    """Result of running one build.

    Args:
        verification: Comparison of the outputs.
        runtime_ns: Runtime of the kernel in ns, measured or emulated depending on the device.
        share: Share of the kernel in the total time, with its headroom.
        counts: Exact counters of the launch, if the device has them.
        uncovered: Branches that were taken in no trial, one sentence each.
        profile: Summary of the profile, if available.
    """

    verification: VerificationResult
    runtime_ns: float
    share: KernelShare | None = None
    counts: ExactCounts | None = None
    uncovered: tuple[str, ...] = ()
    profile: ProfileSummary | None = None


@dataclass(frozen=True)
class MeasuredSource:
    """Source with its runtime in ns, measured without interleaving, and its exact counters, if known."""

    proposal: Proposal
    runtime_ns: float
    counts: ExactCounts | None = None


class Bench(Protocol):
    """Builds, runs and compares sources. A LabError rejects the proposal."""

    def build(self, proposal: Proposal) -> BuiltCandidate:
        """Compile a proposal."""
        ...

    def evaluate(self, proposal: Proposal, built: BuiltCandidate) -> Evaluation:
        """Run a proposal and check its outputs.

        Raises:
            GateError: A memory check reported a defect.
        """
        ...

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> PairedComparison:
        """Compare the runtimes of two sources, with interleaved measurements if they vary."""
        ...


class GateError(LabError):
    """Defect found by a run with all memory checks."""
