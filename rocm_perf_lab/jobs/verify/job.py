"""`job=verify`: check candidates for a described kernel with guards and trials, without timing."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.jobs.optimize.setup import build_guards, limits_of, sandbox_of, trial_runners
from rocm_perf_lab.jobs.verify.candidates import read_candidates
from rocm_perf_lab.jobs.verify.document import UntakenBranch, VerifyDocument
from rocm_perf_lab.jobs.verify.evidence import evidence_of, renamed
from rocm_perf_lab.jobs.verify.results import VerdictWriter
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.optimize.candidate import CandidateChecker
from rocm_perf_lab.optimize.guards import warnings_of
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.policy import seeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.verify.candidates import CandidateFile
    from rocm_perf_lab.jobs.verify.document import JudgeStage, JudgeVerdict
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.candidate import CandidateResult
    from rocm_perf_lab.toolchain.sandbox import Sandbox
    from rocm_perf_lab.verify.checker import CorrectnessResult
    from rocm_perf_lab.verify.policy import TrialPolicy

_VERDICTS: dict[str, tuple[JudgeVerdict, JudgeStage]] = {
    "compile": ("refused", "compile"),
    "guard": ("refused", "guard"),
    "gate": ("wrong", "gate"),
    "verification": ("wrong", "verification"),
    "right": ("correct", "verification"),
    "coverage": ("refused", "coverage"),
}
_REQUIRED_COVERAGE = "(optimizer.verification.require_coverage)"
_NOT_CHECKED = (
    "shapes, inputs and addresses outside the trials",
    "effects of the order of workgroups: the emulator runs them sequentially",
    "time",
)


class VerifyJob:
    """Checks candidates for a described kernel like the optimizer, without timing.

    Args:
        candidates: Source files that replace the source of the kernel.
    """

    def __init__(self, *, candidates: Sequence[str]) -> None:
        self._candidates = read_candidates(tuple(map(str, candidates)))

    def run(self, lab: Lab) -> None:
        """Check every candidate, and write `verify.json`.

        Raises:
            LabError: The unmodified kernel does not compile, or fails its own trials.
            NegativeResult: A candidate is not correct.
        """
        sandbox = sandbox_of(lab.config.optimizer)
        policy = seeded(lab.config.optimizer.verification)
        assert policy.seed is not None
        with VerdictWriter(lab, sandbox.protection(), kernel=lab.config.kernel.name, count=len(self._candidates)) as writer:
            with lab.console.status("running the unmodified kernel"):
                checker = _checker(lab, sandbox, policy)
            writer.begin(checker.correctness.summary, seed=policy.seed)
            for candidate in self._candidates:
                path = candidate.placed(lab.output_dir / "candidates", lab.config.kernel.source.name)
                with lab.console.status(f"checking {candidate.path}"):
                    result = checker.check(path)
                result = replace(result, reason=result.reason.replace(f"{path.parent}{os.sep}", ""))
                writer.add(_document(lab, candidate, result, checker, seed=policy.seed, isolation=writer.isolation))
        writer.require_all_correct()


def _checker(lab: Lab, sandbox: Sandbox, policy: TrialPolicy) -> CandidateChecker:
    config = lab.config
    settings = config.optimizer
    return CandidateChecker(
        config.kernel,
        compiler=find_compiler(config.toolchain.compilers),
        target=config.target,
        guards=build_guards(config),
        policy=policy,
        optimisation=config.toolchain.optimisation,
        sandbox=sandbox,
        run_limits=limits_of(settings, settings.isolation.run_timeout_s) if lab.device.identity.emulated else None,
        runners=trial_runners(config, lab.device),
    )


def _document(
    lab: Lab, candidate: CandidateFile, result: CandidateResult, checker: CandidateChecker, *, seed: int, isolation: str
) -> VerifyDocument:
    kernel, target, found = lab.config.kernel, lab.config.target, result.correctness
    name = kernel.source.name
    verdict, stage = _VERDICTS["coverage" if _lacks_coverage(result) else result.stage]
    said = str(found.verification) if result.stage == "right" and found is not None else result.reason
    same = candidate.content == kernel.source_path.read_bytes()
    return VerifyDocument(
        verdict=verdict,
        stage=stage,
        reason=renamed(said, name, candidate.path.name),
        evidence=evidence_of(result, seed=seed, file_name=name),
        candidate=str(candidate.path),
        sha256=candidate.sha256,
        kernel=kernel.name,
        source=str(kernel.source_path),
        target=target.name,
        architecture=target.architecture,
        seed=seed,
        trials=len(checker.correctness.trials),
        tried=(checker.correctness.summary,),
        uncovered=_untaken(found, name, candidate.path.name),
        assumptions=tuple(renamed(str(a), name, candidate.path.name) for a in (found.assumptions if found is not None else ())),
        warnings=(*(["the candidate is identical to the unmodified source"] if same else []), *warnings_of(result.guards)),
        notes=(*checker.correctness.notes, *(found.notes if found is not None else ())),
        not_checked=(*_unguarded(kernel), *_NOT_CHECKED),
        isolation=isolation,
    )


def _lacks_coverage(result: CandidateResult) -> bool:
    """Return whether a candidate is rejected only because of `optimizer.verification.require_coverage`."""
    found = result.correctness
    return found is not None and bool(found.uncovered) and result.reason == f"{found.uncovered[0].message} {_REQUIRED_COVERAGE}"


def _untaken(found: CorrectnessResult | None, name: str, shown: str) -> tuple[UntakenBranch, ...]:
    branches = found.uncovered if found is not None else ()
    return tuple(
        UntakenBranch(line=branch.line, source=branch.source, kind=branch.kind, message=renamed(branch.message, name, shown))
        for branch in branches
    )


def _unguarded(kernel: KernelDescription) -> tuple[str, ...]:
    language = find_language(kernel.language)
    if language.rewritable:
        return ()
    return (f"guards: they parse HIP, and this kernel is written in {language.name}; its text is checked",)
