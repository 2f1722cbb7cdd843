"""Counters that rocprof-compute collects with its native tool, next to the databases of its passes.

A pass of a workload is `out/<pass>/<pid>/<pid>.db` with the dispatches, and `out/<pass>/<pid>_native_counter_collection.csv.gz`
with a row per counter instance, by dispatch id.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.csv_counters import counters_by_dispatch
from rocm_perf_lab.rocprof.dialects import UNREADABLE, database_error, open_read_only
from rocm_perf_lab.rocprof.trace import timed
from rocm_perf_lab.rocprof.write_ahead import settled

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace


def with_native_counters(trace: Trace) -> Trace:
    """Add the counters next to a database to its trace, if the trace has none.

    Raises:
        DatabaseError: The file with counters cannot be read.
    """
    file = _beside(trace.path)
    if file is None or trace.counters or len(trace.processes) != 1:
        return trace
    ids = np.array(_dispatch_ids(trace.path), np.int64)
    order = np.argsort(ids, kind="stable")
    (counters, *replays), notes = counters_by_dispatch([file], [], (ids[order], order))
    return replace(
        trace, counters=counters, replays=tuple(replays), notes=(*trace.notes, f"counters are those of {file.name}", *notes)
    )


def _beside(database: Path) -> Path | None:
    pid = database.stem.partition("_")[0]
    names = [f"{pid}_native_counter_collection.csv{packed}" for packed in ("", ".gz")]
    files = (directory / name for directory in (database.parent, database.parent.parent) for name in names)
    return next((file for file in files if file.is_file()), None)


def _dispatch_ids(database: Path) -> list[int]:
    """Return dispatch ids in the order of the trace's dispatches."""
    with settled(database) as file:
        connection = open_read_only(file)
        try:
            query = 'SELECT dispatch_id, start, "end" FROM rocpd_kernel_dispatch ORDER BY start, "end", id'
            rows = np.array(connection.execute(query).fetchall(), np.int64).reshape(-1, 3)
            ids: list[int] = rows[timed(rows[:, 1], rows[:, 2]), 0].tolist()
            return ids
        except UNREADABLE as error:
            raise database_error(database, error) from error
        finally:
            connection.close()
