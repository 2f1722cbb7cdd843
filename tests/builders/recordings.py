"""Reading of one recorded run in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.loading import load_recording

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace


def read_passes(paths: Sequence[Path]) -> tuple[Trace, tuple[Trace, ...]]:
    """Return the timed trace and the counter passes of the only run."""
    (run,) = load_recording(paths).runs
    return run.trace, run.counter_passes


def read_run(paths: Sequence[Path]) -> Trace:
    """Return the trace of the only run, which has no counter passes."""
    trace, passes = read_passes(paths)
    assert passes == ()
    return trace
