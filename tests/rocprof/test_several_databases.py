"""Several processes, files and directories of one run as one trace."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.finding import find_databases
from rocm_perf_lab.rocprof.reader import read_database, read_databases
from rocm_perf_lab.rocprof.schema import make_guid, suffix_of
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import GUID, REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

TARGET = load_target("mi300x")
OTHER = make_guid(1_700_000_000_001, "other")


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two processes with equal pids, queues and kernel ids."""
    paths = (tmp_path / "host" / "1_results.db", tmp_path / "host" / "2_out.sqlite")
    first = [dispatch(100, 200, counters={"SQ_WAVES": 1.0}), dispatch(500, 600, kernel=REDUCE, queue=1)]
    second = [dispatch(150, 450, kernel=REDUCE, queue=1, counters={"SQ_WAVES": 7.0})]
    write_database(paths[0], recorded_run(TARGET, first))
    write_database(paths[1], recorded_run(TARGET, second, guid=OTHER))
    return paths


def test_dispatches_of_all_processes_come_in_order(two: tuple[Path, Path]) -> None:
    trace = read_databases(two)

    assert trace.dispatches.start_ns.tolist() == [100, 150, 500]
    assert [trace.processes[p].guid for p in trace.dispatches.process] == [GUID, OTHER, GUID]
    assert [trace.kernels[k].name for k in trace.dispatches.kernel] == [VEC_COPY.display_name, "reduce", "reduce"]
    assert [trace.kernels[k].process for k in trace.dispatches.kernel] == trace.dispatches.process.tolist()
    assert [trace.agents[a].process for a in trace.dispatches.agent] == trace.dispatches.process.tolist()
    assert [trace.counters_of(i) for i in range(3)] == [{"SQ_WAVES": 1.0}, {"SQ_WAVES": 7.0}, {}]
    assert {(queue.process, queue.id) for queue in trace.queues} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert trace.paths == two


def test_one_symbol_of_several_processes_is_one_kernel(two: tuple[Path, Path]) -> None:
    ranked = rank_kernels(read_databases(two))

    assert [(kernel.name, kernel.total_ns) for kernel in ranked] == [("reduce", 400), (VEC_COPY.display_name, 100)]


def test_a_directory_means_the_databases_in_it(two: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("no database")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection, connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")

    assert find_databases(tmp_path) == two
    assert len(read_databases([tmp_path]).dispatches) == 3


def test_a_directory_without_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernel_trace.csv").touch()

    with pytest.raises(DatabaseError, match=r"no rocpd database among 1 files: kernel_trace\.csv"):
        read_databases([tmp_path])


def test_a_damaged_database_in_a_directory_is_an_error(two: tuple[Path, Path], tmp_path: Path) -> None:
    two[1].write_bytes(two[1].read_bytes()[:5000])

    with pytest.raises(DatabaseError, match="truncated"):
        read_databases([tmp_path])


def test_an_open_tracking_database_is_ignored(two: tuple[Path, Path], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE runs (id INTEGER)")

        assert find_databases(tmp_path) == two


def test_a_copy_of_a_file_counts_once(two: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copy(two[0], tmp_path / "copy.db")

    trace = read_databases([*two, tmp_path / "copy.db"])

    assert len(trace.dispatches) == 3
    assert trace.notes == ("copy.db equals 1_results.db and was ignored",)


def test_equal_file_names_are_shown_with_directories(two: tuple[Path, Path], tmp_path: Path) -> None:
    for directory in ("trace", "counters_1"):
        (tmp_path / directory).mkdir()
        shutil.copy(two[0], tmp_path / directory / "run_results.db")

    trace = read_databases([tmp_path / "trace" / "run_results.db", tmp_path / "counters_1" / "run_results.db"])

    assert trace.notes == ("counters_1/run_results.db equals trace/run_results.db and was ignored",)


def test_a_process_that_comes_twice_is_refused(two: tuple[Path, Path], tmp_path: Path) -> None:
    write_database(tmp_path / "again.db", recorded_run(TARGET, [dispatch(1, 2)]))

    with pytest.raises(DatabaseError, match=r"is in 1_results\.db and again in again\.db"):
        read_databases([*two, tmp_path / "again.db"])


def test_emulated_and_measured_runs_are_not_mixed(two: tuple[Path, Path], tmp_path: Path) -> None:
    run = recorded_run(TARGET, [dispatch(1, 2)], emulated=False, guid=make_guid(2, "measured"))
    write_database(tmp_path / "measured.db", run)

    with pytest.raises(DatabaseError, match="emulated and measured"):
        read_databases([*two, tmp_path / "measured.db"])


def test_a_process_without_dispatches_adds_nothing(two: tuple[Path, Path], tmp_path: Path) -> None:
    write_database(tmp_path / "idle.db", recorded_run(TARGET, [], guid=make_guid(3, "idle")))

    trace = read_databases([tmp_path / "idle.db", *two])

    assert (len(trace.processes), len(trace.dispatches)) == (3, 3)
    assert [trace.processes[p].guid for p in trace.dispatches.process] == [GUID, OTHER, GUID]


def test_merging_equals_reading_one_merged_file(two: tuple[Path, Path], tmp_path: Path) -> None:
    merged = tmp_path / "merged.db"
    shutil.copy(two[0], merged)
    with closing(sqlite3.connect(merged, isolation_level=None)) as connection:
        connection.execute(f"ATTACH '{two[1]}' AS b")
        rows = connection.execute("SELECT name, sql FROM b.sqlite_master WHERE type = 'table' AND name LIKE 'rocpd%'").fetchall()
        for name, sql in rows:
            connection.execute(sql)
            connection.execute(f'INSERT INTO main."{name}" SELECT * FROM b."{name}"')

    one, several = read_database(merged), read_databases(two)

    for name, column in vars(one.dispatches).items():
        assert column.tolist() == getattr(several.dispatches, name).tolist(), name
    assert [dataclasses.astuple(kernel) for kernel in one.kernels] == [dataclasses.astuple(k) for k in several.kernels]


def test_base_tables_agree_with_the_views(two: tuple[Path, Path]) -> None:
    with closing(sqlite3.connect(two[0])) as connection, connection:
        connection.execute(f'INSERT INTO "rocpd_pmc_event{suffix_of(GUID)}" (event_id, pmc_id, value) VALUES (1, 1, 2.5)')
        # With an API call, correlation ids are read too.
        connection.execute(
            f'INSERT INTO "rocpd_region{suffix_of(GUID)}" (nid, pid, tid, start, end, name_id, event_id)'
            f' SELECT nid, pid, tid, 1, 2, 1, NULL FROM "rocpd_kernel_dispatch{suffix_of(GUID)}" LIMIT 1'
        )
        kernels = connection.execute(
            "SELECT name, start, end, queue_id, stream_id, grid_x, workgroup_x, lds_size, scratch_size, vgpr_count, stack_id"
            " FROM kernels ORDER BY start"
        ).fetchall()
        counters = connection.execute("SELECT start, counter_name, value FROM counters_collection").fetchall()
    trace = read_database(two[0])
    found = trace.dispatches

    assert kernels == [
        (
            trace.kernels[found.kernel[i]].name,
            *(int(column[i]) for column in (found.start_ns, found.end_ns, found.queue, found.stream)),
            *(int(column[i][0]) for column in (found.grid, found.workgroup)),
            *(int(column[i]) for column in (found.lds_bytes, found.scratch_bytes)),
            trace.kernels[found.kernel[i]].arch_vgpr_count,
            int(found.correlation[i]),
        )
        for i in range(len(found))
    ]
    assert counters == [
        (int(found.start_ns[d]), name, value)
        for name, column in trace.counters.items()
        for d, value in zip(column.dispatch, column.value, strict=True)
    ]
