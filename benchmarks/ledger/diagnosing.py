"""Runs of the cases on the emulator, and their diagnosis with three kinds of evidence."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from benchmarks.ledger.cases import KERNELS, NEAR, Case, Written
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.analysis.ledger_verdict import UNDECIDED
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue
from rocm_perf_lab.profiling.passes import run_passes
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.att.directories import read_kernel_trace
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.ledger import Ledger
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.toolchain.code_object import CodeObject

TARGET = "mi300x"
_DATABASE = Path("trace") / "run_results.db"
_THREAD_TRACE = Path("att")


class EvidenceKind(StrEnum):
    """Evidence of a diagnosis; the times of dispatches are always known."""

    ALL = "all"
    TRACE = "thread trace"
    COUNTERS = "counters"


@dataclass(frozen=True)
class Answer:
    """First line of one ledger, in the vocabulary of the labels; `second` is the next line."""

    evidence: EvidenceKind
    found: str
    confidence: float
    second: str
    ledger: Ledger


@dataclass(frozen=True)
class DiagnosedCase:
    """A case, its emulated time, the processor time of the run, and the answer to each kind of evidence."""

    case: Case
    duration_us: float
    processor_seconds: float
    answers: tuple[Answer, ...]

    def is_right(self, answer: Answer) -> bool:
        """Return whether the first line is an accepted answer."""
        return answer.found in self.case.accepted

    def answer(self, evidence: EvidenceKind) -> Answer:
        """Return the answer to one kind of evidence."""
        return next(answer for answer in self.answers if answer.evidence == evidence)


@dataclass(frozen=True)
class _Recording:
    trace: Trace
    att: AttTrace
    profile: Profile


def diagnose_case(case: Case, recordings: Path | None = None) -> DiagnosedCase:
    """Run a case on the emulator and diagnose it.

    Args:
        case: The case.
        recordings: Directory that keeps the database and the thread trace of every case; a recording in it replaces the run.
    """
    started = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) if recordings is None else recordings / case.name
        recording = _recorded(case, directory)
    answers = tuple(_answer(kind, recording) for kind in EvidenceKind)
    duration_us = float(np.median(recording.profile.durations_ns)) / 1e3
    return DiagnosedCase(case, duration_us, time.process_time() - started, answers)


def _recorded(case: Case, directory: Path) -> _Recording:
    code = _code_object(case.source)
    kernel = find_kernel(code, case.kernel)
    target = load_target(TARGET)
    if (directory / _DATABASE).exists():
        trace, att = read_database(directory / _DATABASE), read_kernel_trace(directory / _THREAD_TRACE, kernel.symbol)
    else:
        counters = yaml.safe_load((resource_dir("conf") / "passes" / "default.yaml").read_text())["counters"]
        launch = Launch(code, kernel.symbol, case.grid, (case.block, 1, 1), 0, _arguments(case))
        device = EmulatorDevice(target=target, sample_seed=1)
        passes = run_passes(device, launch, directory=directory, runs=1, counters=counters, att=directory / _THREAD_TRACE)
        if passes.att is None:
            raise RuntimeError(f"{case.name}: {passes.att_reason}")
        trace, att = passes.trace, passes.att
    return _Recording(trace, att, build_profile(trace, target=target, resources=kernel, symbol=kernel.symbol))


@cache
def _code_object(source: str) -> CodeObject:
    return compile_source(CompileRequest(source=KERNELS / source, architecture=load_target(TARGET).architecture)).code_object


def _arguments(case: Case) -> tuple[BufferValue | ScalarValue, ...]:
    arguments: list[BufferValue | ScalarValue] = []
    for number, value in enumerate(case.arguments()):
        name = f"argument_{number}"
        if isinstance(value, Written):
            arguments.append(BufferValue(name, value.data, written=True))
        elif isinstance(value, np.ndarray):
            arguments.append(BufferValue(name, value, written=False))
        else:
            arguments.append(ScalarValue(name, value.tobytes()))
    return tuple(arguments)


def _answer(kind: EvidenceKind, recording: _Recording) -> Answer:
    profile = recording.profile
    if kind == EvidenceKind.TRACE:
        profile = replace(profile, counter_passes=(), population_counters=())
    att = None if kind == EvidenceKind.COUNTERS else recording.att
    ledger = diagnose(profile, recording.trace, deterministic=True, att=att).ledger
    lines = [str(loss.cause) for loss in ledger.losses]
    found = _first_line(ledger)
    return Answer(kind, found, ledger.confidence, next((line for line in lines if line != found), ""), ledger)


def _first_line(ledger: Ledger) -> str:
    """Return the verdict in the vocabulary of the labels."""
    if ledger.verdict == UNDECIDED:
        return "undecided"
    if ledger.roof is not None and ledger.verdict.startswith(NEAR):
        return f"{NEAR}{ledger.roof.name}"
    return ledger.verdict
