"""Evaluation stages of a candidate for an application: compilation, guards, the user's build, and runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.verify.application_kernels import changed_kernels, kernels_of, without_effect
from rocm_perf_lab.jobs.verify.document import BrokenRule, VerifyEvidence
from rocm_perf_lab.jobs.verify.evidence import source_line
from rocm_perf_lab.optimize.guards import check_before_compilation, rejections_of, warnings_of
from rocm_perf_lab.optimize.inspection import CandidateSource
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.source_tree import SourceUnit, parse_source
from rocm_perf_lab.verify.application_outputs import ApplicationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.jobs.optimize.application_device_code import ApplicationDeviceCode
    from rocm_perf_lab.jobs.verify.application_kernels import SourceKernel
    from rocm_perf_lab.jobs.verify.application_trials import ApplicationDefect, ApplicationTrials
    from rocm_perf_lab.jobs.verify.document import JudgeStage
    from rocm_perf_lab.optimize.guards import Guard, GuardResult
    from rocm_perf_lab.toolchain.build import BuildResult

_INDEPENDENT = "the outputs of the application do not depend"


@dataclass(frozen=True)
class ApplicationDecision:
    """Stage that rejected a candidate, or None, with its reason and evidence."""

    stage: JudgeStage | None
    reason: str
    evidence: VerifyEvidence = field(default_factory=VerifyEvidence)
    kernels: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass
class ApplicationJudge:
    """Checks candidates of one source file of an application.

    Args:
        baseline: The unmodified source.
        trials: Runs of the application.
        device_code: Compiles device code for guards.
        guards: Static checks.
    """

    baseline: Proposal
    trials: ApplicationTrials
    device_code: ApplicationDeviceCode
    guards: Sequence[Guard]
    _kernels: tuple[SourceKernel, ...] = ()
    _build: BuildResult | None = None
    _insensitive: dict[tuple[str, ...], tuple[str, ...] | None] = field(default_factory=dict)

    def record(self, pattern: str | None) -> None:
        """Build, compile and run the unmodified application.

        Args:
            pattern: Regular expression for the kernels that candidates may change.

        Raises:
            LabError: The build, the compilation or a run fails, or no kernel matches.
        """
        builder = self.trials.builder
        path = builder.place(self.baseline)
        self._build = self.device_code.compile(path)
        self._kernels = kernels_of(self.baseline.text.encode(), self._build.code_object, pattern)
        builder.build(self.baseline)
        self.trials.record(self.baseline)

    def decide(self, text: str) -> ApplicationDecision:
        """Return the first stage that rejects a candidate.

        Raises:
            LabError: The outputs of the application do not depend on any kernel that candidates may change.
        """
        version = Proposal.of(text, transform="candidate", description="", parent=self.baseline)
        kernels = changed_kernels(self._kernels, text.encode())
        names = tuple(kernel.name for kernel in kernels)
        file_name = self.trials.builder.application.source.name
        unread = self._checked_before_compilation(kernels, text)
        if rejections_of(unread) is not None:
            return _refused(unread, names, file_name)
        path = self.trials.builder.place(version)
        try:
            build = self.device_code.compile(path)
            pairs = [self._sources(kernel, version, build) for kernel in kernels]
        except LabError as error:
            reason = error.what.replace(f"{path.parent}/", "")
            return ApplicationDecision("compile", reason, VerifyEvidence(source_line=source_line(reason, path.name)), names)
        results = [guard.check(*pair) for pair in pairs for guard in self.guards]
        if rejections_of(results) is not None:
            return _refused(results, names, file_name)
        insensitive = self._insensitive_warnings(kernels)
        if insensitive is None:
            return ApplicationDecision("coverage", f"{_INDEPENDENT} on {', '.join(dict.fromkeys(names))}", kernels=names)
        warnings = (*dict.fromkeys(warnings_of(results)), *insensitive)
        try:
            self.trials.builder.build(version)
        except ApplicationError as error:
            return ApplicationDecision("build", error.what, kernels=names, warnings=warnings)
        defect = self.trials.defect(version)
        if defect is not None:
            return ApplicationDecision(_stage(defect), defect.reason, _evidence(defect), names, warnings=warnings)
        count = len(self.trials.commands)
        reason = f"equal outputs with {count} set{'s' if count > 1 else ''} of arguments"
        return ApplicationDecision(None, reason, VerifyEvidence(), names, _assumptions(pairs), warnings)

    def _checked_before_compilation(self, kernels: tuple[SourceKernel, ...], text: str) -> list[GuardResult]:
        return [
            result
            for kernel in kernels
            for result in check_before_compilation(self.guards, kernel.unit, SourceUnit(text.encode(), kernel.symbol))
        ]

    def _sources(self, kernel: SourceKernel, version: Proposal, build: BuildResult) -> tuple[CandidateSource, CandidateSource]:
        """Return baseline and candidate in the form that guards examine, with the largest workgroup that both support."""
        assert self._build is not None
        items = min(
            k.max_flat_workgroup_size
            for code in (self._build.code_object, build.code_object)
            for k in code.kernels
            if k.symbol == kernel.symbol
        )
        return self._source(kernel, self.baseline, self._build, items), self._source(kernel, version, build, items)

    def _source(self, kernel: SourceKernel, version: Proposal, build: BuildResult, items: int) -> CandidateSource:
        built = self.device_code.inspected(self.trials.builder.source(version), build, kernel.symbol, work_items=items)
        unit = parse_source(version.text.encode(), kernel.symbol)
        return CandidateSource(unit, built.kernel, built.occupancy_waves, built.inspection)

    def _insensitive_warnings(self, kernels: tuple[SourceKernel, ...]) -> tuple[str, ...] | None:
        """Return warnings about command lines whose outputs do not change if kernels return immediately; None if none does.

        Raises:
            LabError: No output depends on any kernel that candidates may change.
        """
        key = tuple(kernel.symbol for kernel in kernels)
        if key not in self._insensitive:
            self._insensitive[key] = self._compared_without(kernels)
        if self._insensitive[key] is None and (kernels == self._kernels or self._insensitive_warnings(self._kernels) is None):
            raise LabError(
                f"{_INDEPENDENT} on the kernel: they do not change if it returns immediately",
                where=", ".join(kernel.name for kernel in kernels),
                hint='add --compare-file FILE, --verify "COMMAND", or --args with arguments that use the kernel',
            )
        return self._insensitive[key]

    def _compared_without(self, kernels: tuple[SourceKernel, ...]) -> tuple[str, ...] | None:
        text = without_effect(kernels, self.baseline.text.encode())
        empty = Proposal.of(text, transform="empty kernel", description="", parent=self.baseline)
        builder = self.trials.builder
        builder.place(empty)
        try:
            builder.build(empty)
        except ApplicationError:
            return (
                "it is unknown whether the outputs depend on the kernel: the build fails with a kernel that returns immediately",
            )
        same = [n for n in range(len(self.trials.commands)) if self.trials.defect_with(empty, n, runs=1) is None]
        if len(same) == len(self.trials.commands):
            return None
        return tuple(f"the outputs of {' '.join(self.trials.commands[n])} do not depend on the kernel" for n in same)


def _refused(results: Sequence[GuardResult], names: tuple[str, ...], file_name: str) -> ApplicationDecision:
    rules = tuple(dict.fromkeys((result.name, result.detail) for result in results if result.rejects))
    reason = "; ".join(f"{name}: {detail}" for name, detail in rules)
    found = tuple(BrokenRule(name=name, detail=detail) for name, detail in rules)
    return ApplicationDecision("guard", reason, VerifyEvidence(guards=found, source_line=source_line(reason, file_name)), names)


def _assumptions(pairs: Sequence[tuple[CandidateSource, CandidateSource]]) -> tuple[str, ...]:
    return tuple(
        f"workgroups of {new.source.entry} have at most {new.kernel.max_flat_workgroup_size} work-items"
        for old, new in pairs
        if new.kernel.max_flat_workgroup_size < old.kernel.max_flat_workgroup_size
    )


def _stage(defect: ApplicationDefect) -> JudgeStage:
    return "run" if defect.stage == "run" else "verification"


def _evidence(defect: ApplicationDefect) -> VerifyEvidence:
    if defect.check is None:
        return VerifyEvidence(command=defect.command)
    return VerifyEvidence(
        command=defect.command,
        output=defect.check.name.partition(" (")[0],
        element=defect.check.worst_index,
        wrong_elements=defect.check.mismatches,
        elements=defect.check.elements,
    )
