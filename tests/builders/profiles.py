"""Traces and profiles of small runs, written as a database and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.profiling.profile import Profile, build_profile
from rocm_perf_lab.rocprof.metrics import load_metrics
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.rocprof.trace import Trace

DATA = Path(__file__).parents[1] / "data"
VEC_COPY_NS = 10_000


def vec_copy_counters() -> dict[str, float]:
    """MI300X counters of a vector copy; FLOP counters that the file lacks are 0, the kernel has no float arithmetic."""
    stored: dict[str, float] = json.loads((DATA / "vcopy_mi300x.json").read_text())["dispatches"][0]
    return {**dict.fromkeys(load_metrics("gfx942")["flops"].counters, 0.0), **stored}


def vec_copy_trace(directory: Path, counters: Mapping[str, float] | None = None) -> Trace:
    """One dispatch of the copy on an MI300X, 10 us long."""
    path = directory / "vec_copy_results.db"
    run = [dispatch(1000, 1000 + VEC_COPY_NS, counters=vec_copy_counters() if counters is None else counters)]
    write_database(path, recorded_run(load_target("mi300x"), run, kernels=(VEC_COPY,)))
    return read_database(path)


def vec_copy_profile(directory: Path, counters: Mapping[str, float] | None = None) -> Profile:
    """The profile of :func:`vec_copy_trace`."""
    return build_profile(vec_copy_trace(directory, counters), target=load_target("mi300x"))
