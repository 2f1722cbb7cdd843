"""Damaged inputs in every format: `python -m benchmarks.fuzzing [--inputs 1000]`.

Every input is damaged at random places with a seeded generator, and read like `rocm-perf analyze` reads it; every tenth goes
through the whole analysis. Allowed are a result and an error message of the package. Any other exception, more than five seconds
of processor time, and memory that grows with the number of inputs are failures, which are printed with their seed.
"""

from __future__ import annotations

import argparse
import gc
import io
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, Publisher
from benchmarks.fuzz_inputs import Format, formats
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

INPUTS = 1000
LONGEST_S = 5.0
GROWTH_MIB = 64
_WHOLE_EVERY = 10
_WARMUP = 50
"""Inputs after which caches and lazily loaded modules should no longer grow."""
_SHOWN_FRAMES = 3


class TooLongError(BaseException):
    """An input that took too much processor time; no handler of the package catches it."""


@dataclass
class Outcome:
    """Outcomes of the inputs of one format."""

    name: str
    inputs: int = 0
    results: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    processor_s: float = 0.0
    slowest_s: float = 0.0
    growth_mib: float = 0.0


def fuzz(one: Format, inputs: int, directory: Path, *, seed: int = 1, whole_every: int = _WHOLE_EVERY) -> Outcome:
    """Read damaged inputs of one format.

    Args:
        one: The format.
        inputs: Number of damaged inputs.
        directory: Empty directory for them.
        seed: Equal seeds damage equally.
        whole_every: One in so many inputs goes through the whole analysis.
    """
    outcome = Outcome(one.name)
    start = time.process_time()
    before = _resident_mib()
    for number in range(inputs):
        place = directory / "input"
        name = one.write(place, random.Random(f"{one.name} {seed} {number}"))
        begin = time.process_time()
        with _Judged(outcome, f"{one.name}, input {number} ({name})"), _limited():
            read(one, place, directory / "documents" if number % whole_every == 0 else None)
        outcome.slowest_s = max(outcome.slowest_s, time.process_time() - begin)
        outcome.inputs += 1
        shutil.rmtree(place)
        if number + 1 == _WARMUP:
            gc.collect()
            before = _resident_mib()
    gc.collect()
    outcome.growth_mib = max(0.0, _resident_mib() - before)
    outcome.processor_s = time.process_time() - start
    return outcome


class _Judged:
    """Context that counts a result, an error of the package, or a failure: any other exception."""

    def __init__(self, outcome: Outcome, what: str) -> None:
        self._outcome = outcome
        self._what = what

    def __enter__(self) -> None:
        """Begin an input."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, KeyboardInterrupt):
            return False
        if error is None:
            self._outcome.results += 1
        elif isinstance(error, LabError) and error.what:
            self._outcome.refused += 1
        else:
            self._outcome.failures.append(f"{self._what}: {_described(error)}")
        return True


def read(one: Format, place: Path, documents: Path | None) -> None:
    """Read an input as `rocm-perf analyze` does; with `documents` the whole analysis is written there.

    Raises:
        LabError: The input is refused.
    """
    if one.is_code:
        _read_code(place)
        return
    if documents is not None:
        from rocm_perf_lab.jobs.analyze.job import run_analyze
        from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest

        with redirect_stdout(io.StringIO()):
            run_analyze(AnalyzeRequest((place,), output=documents, verbose=True))
        return
    from rocm_perf_lab.rocprof.att.reader import read_directory
    from rocm_perf_lab.rocprof.loading import load_recording
    from rocm_perf_lab.rocprof.pc_samples_loading import sampled_files
    from rocm_perf_lab.rocprof.pc_samples_reader import read_pc_samples
    from rocm_perf_lab.rocprof.roofline_csv import read_roofline_csv

    loaded = load_recording([place])
    for path in sampled_files(loaded.files):
        read_pc_samples(path)
    for directory in loaded.thread_traces:
        read_directory(directory)
    if loaded.roofline is not None:
        read_roofline_csv(loaded.roofline)


def _read_code(place: Path) -> None:
    from rocm_perf_lab.toolchain.compilers import ToolSearch
    from rocm_perf_lab.toolchain.disassembly import disassemble
    from rocm_perf_lab.toolchain.kernel_file import read_kernel_file
    from rocm_perf_lab.toolchain.source_lines import line_table

    for path in place.iterdir():
        for code_object in read_kernel_file(path):
            source_of = line_table(code_object)
            for kernel in code_object.kernels:
                for line in disassemble(code_object, kernel.symbol, search=ToolSearch(executables="")):
                    source_of(line.address)


@contextmanager
def _limited() -> Iterator[None]:
    """Limit the processor time of one input, and turn warnings of calculations into errors."""

    def stop(_number: int, _frame: Any) -> None:
        raise TooLongError(f"more than {LONGEST_S:g} s of processor time")

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def _described(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_SHOWN_FRAMES:]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__}: {str(error)[:120]} at {where}"


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(arguments: list[str] | None = None) -> int:
    """Fuzz every format and print the outcomes; return 1 after any failure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzzing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=INPUTS, help="damaged inputs per format")
    parser.add_argument("--only", default="", help="formats whose name contains this text")
    parser.add_argument("--seed", type=int, default=1)
    publisher = Publisher("fuzzing", parser, arguments)
    chosen = publisher.options
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "build").mkdir()
        every = [one for one in formats(Path(scratch) / "build") if chosen.only in one.name]
        outcomes = []
        for number, one in enumerate(every):
            place = Path(scratch) / str(number)
            place.mkdir()
            outcomes.append(fuzz(one, chosen.inputs, place, seed=chosen.seed))
    for failure in [failure for outcome in outcomes for failure in outcome.failures]:
        print(failure, file=sys.stderr)
    publisher.publish_figures(
        "damaged inputs", [_figure(outcome) for outcome in outcomes], [vars(outcome) for outcome in outcomes]
    )
    return 1 if any(outcome.failures or outcome.growth_mib > GROWTH_MIB for outcome in outcomes) else 0


def _figure(outcome: Outcome) -> Figure:
    value = (
        f"{outcome.inputs:,} inputs: {outcome.results:,} results, {outcome.refused:,} errors, {len(outcome.failures)} failures; "
        f"slowest {outcome.slowest_s:.2f} s, growth {outcome.growth_mib:.0f} MiB"
    )
    key = f"format_{zlib.crc32(outcome.name.encode()):08x}"
    return Figure(key, outcome.name, value, f"0 failures, < {GROWTH_MIB} MiB")


if __name__ == "__main__":
    sys.exit(main())
