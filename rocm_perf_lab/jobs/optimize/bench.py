"""The workbench in the words of the closed loop: every proposal is built, run and compared in a directory of its own."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.roofline import Roofline
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.profile.job import require_clean
from rocm_perf_lab.optimize.loop import BuiltCandidate, Evaluation, GateError
from rocm_perf_lab.optimize.ranking import KernelShare
from rocm_perf_lab.statistics.paired_test import compare_exactly, compare_sequentially
from rocm_perf_lab.toolchain.build import CompileError
from rocm_perf_lab.verify.isolation import run_isolated
from rocm_perf_lab.verify.outputs import VerificationResult

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.examination import Examined
    from rocm_perf_lab.jobs.profile.workbench import CompiledKernel, Turn, Workbench
    from rocm_perf_lab.optimize.loop import MeasuredSource
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.statistics.paired_test import AcceptanceRule, Pair, PairedComparison
    from rocm_perf_lab.toolchain.sandbox import Limits, Sandbox
    from rocm_perf_lab.verify.checker import CorrectnessChecker


class KernelBench:
    """Builds, runs and compares proposals on one device.

    Args:
        bench: What does it.
        directory: Gets one directory per proposal.
        file_name: Of a proposal's source.
        deterministic: Whether times of the device never vary.
        dispatches: Of one half of a pair, where they do.
        sandbox: Where proposals are compiled.
        examiner: Tries proposals; it has learned the unmodified kernel.
        run_limits: Of the process that runs a proposal; None where the device has one of its own.
    """

    def __init__(
        self,
        bench: Workbench,
        directory: Path,
        file_name: str,
        *,
        deterministic: bool,
        dispatches: int,
        sandbox: Sandbox,
        examiner: CorrectnessChecker,
        run_limits: Limits | None = None,
    ) -> None:
        self._bench = bench
        self._directory = directory
        self._file_name = file_name
        self._deterministic = deterministic
        self._dispatches = dispatches
        self._sandbox = sandbox
        self._examiner = examiner
        self._run_limits = run_limits
        self._compiled: dict[str, CompiledKernel] = {}
        self.turns: dict[str, Turn] = {}

    def directory(self, proposal: Proposal) -> Path:
        """Where a proposal's files are."""
        return self._directory / proposal.id

    def build(self, proposal: Proposal) -> BuiltCandidate:
        """Write the source into its directory and compile it there."""
        path = self.directory(proposal) / self._file_name
        write_text(path, proposal.text)
        try:
            compiled = self._bench.compile(path, sandbox=self._sandbox)
        except CompileError as error:
            directory = f"{path.parent}{os.sep}"  # a model, and a repeated run, are told the same in any directory
            raise CompileError(
                error.what.replace(directory, ""), log=error.log.replace(directory, ""), where=str(path), hint=error.hint
            ) from error
        return self.built(proposal, compiled, path)

    def built(self, proposal: Proposal, compiled: CompiledKernel, source: Path) -> BuiltCandidate:
        """Remember a compiled proposal."""
        self._compiled[proposal.id] = compiled
        return BuiltCandidate(
            kernel=compiled.kernel,
            code_sha256=compiled.machine_code_sha256,
            occupancy_waves=compiled.occupancy.waves_per_simd,
            cached=compiled.build.cached,
            inspection=self._bench.inspect(compiled, source, sandbox=self._sandbox),
        )

    def evaluate(self, proposal: Proposal, built: BuiltCandidate) -> Evaluation:
        """Try it on what it never saw, then run it on the device; in a process of its own where the device is this one."""
        if self._run_limits is None:
            evaluation, turn = self._evaluate(proposal)
        else:
            evaluation, turn = run_isolated(lambda: self._evaluate(proposal), self._run_limits)
        if turn is not None:
            self.turns[proposal.id] = turn
        return evaluation

    def _evaluate(self, proposal: Proposal) -> tuple[Evaluation, Turn | None]:
        examination = self._examiner.examine(self.directory(proposal) / self._file_name)
        if examination.gate is not None:
            raise GateError(examination.gate)
        if not examination.verification.passed:
            return Evaluation(examination.verification, 0.0), None
        turn = self._bench.run(self._compiled[proposal.id], self.directory(proposal))
        require_clean(turn.findings, "of the proposal")
        evaluation = evaluation_of(turn)
        checks = (*examination.verification.checks, *evaluation.verification.checks)
        return replace(evaluation, verification=VerificationResult(checks)), turn

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> PairedComparison:
        """The times that are known where they cannot vary; else pairs, old and new taking turns at going first."""
        if self._deterministic:
            return compare_exactly(old.runtime_ns, new.runtime_ns)
        directory = self.directory(new.proposal) / "comparison"
        taken = 0

        def measure(count: int) -> list[Pair]:
            nonlocal taken
            pairs = [self._pair(old.proposal, new.proposal, directory, taken + n) for n in range(count)]
            taken += count
            return pairs

        return compare_sequentially(measure, acceptance)

    def _pair(self, old: Proposal, new: Proposal, directory: Path, number: int) -> Pair:
        times = {p.id: self._time_ns(p, directory) for p in ((old, new) if number % 2 == 0 else (new, old))}
        return times[old.id], times[new.id]

    def _time_ns(self, proposal: Proposal, directory: Path) -> float:
        if proposal.id not in self._compiled:  # judged before an interruption
            self.build(proposal)
        return self._bench.time_ns(self._compiled[proposal.id], directory / proposal.id, dispatches=self._dispatches)


def read_source(path: Path) -> str:
    """The source with its newlines as they are.

    Raises:
        LabError: It is missing or not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise LabError("the source file cannot be read", where=str(path), hint="check kernel.source") from error
    except UnicodeDecodeError as error:
        raise LabError("the source file is not UTF-8", where=str(path), hint="convert it to UTF-8") from error


def evaluation_of(turn: Turn, *, runtime_ns: float | None = None) -> Evaluation:
    """What the loop wants to know of a turn; `runtime_ns` where it was measured before an interruption."""
    verification = turn.verification if turn.verification is not None else VerificationResult(())
    return Evaluation(verification, runtime_ns if runtime_ns is not None else turn.runtime_ns, share_of(turn))


def share_of(turn: Examined) -> KernelShare:
    """The kernel's part of the critical path, and how far it is from the roof."""
    roof = turn.diagnosis.roofline
    headroom = turn.runtime_ns / roof.bound_ns if isinstance(roof, Roofline) and roof.bound_ns > 0 else None
    share = turn.diagnosis.critical_shares.get(turn.profile.kernel.mangled_name, 1.0)
    return KernelShare(turn.profile.kernel.name, share, headroom)
