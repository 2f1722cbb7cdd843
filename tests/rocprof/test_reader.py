"""Databases read back after writing, databases of several processes, and refused files."""

from __future__ import annotations

import dataclasses
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.schema import make_guid, suffix_of, table_names
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import GUID, REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

TARGET = load_target("mi300x")
SUFFIX = suffix_of(GUID)
TIMES = st.integers(0, 2**62)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "run_results.db"
    run = [dispatch(500, 900, kernel=REDUCE, queue=1), dispatch(100, 350, counters={"SQ_WAVES": 16384})]
    write_database(path, recorded_run(TARGET, run))
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_dispatches_come_in_order_of_start(database: Path) -> None:
    trace = read_database(database)

    assert [trace.kernels[k].name for k in trace.dispatches.kernel] == [VEC_COPY.display_name, "reduce"]
    assert trace.dispatches.start_ns.tolist() == [100, 500]
    assert trace.dispatches.duration_ns.tolist() == [250, 400]
    assert trace.dispatches.queue.tolist() == [0, 1]
    assert trace.dispatches.grid.tolist() == [[1048576, 1, 1]] * 2
    assert trace.counters_of(0) == {"SQ_WAVES": 16384.0}
    assert trace.counters_of(1) == {}


def test_mangled_names_lose_their_descriptor_suffix(database: Path) -> None:
    assert [kernel.mangled_name for kernel in read_database(database).kernels] == ["_Z7vecCopyPdS_S_ii", "reduce"]


def test_emulated_and_measured_runs_are_distinguished(database: Path, tmp_path: Path) -> None:
    write_database(tmp_path / "real.db", recorded_run(TARGET, [dispatch(0, 1)], emulated=False))
    change(tmp_path / "real.db", f"""UPDATE "rocpd_info_agent{SUFFIX}" SET extdata = '{{"cu_count": 304}}'""")

    assert read_database(database).provenance.time_kind == "emulated"
    assert read_database(tmp_path / "real.db").provenance.time_kind == "measured"


def test_instances_of_a_counter_are_summed(database: Path) -> None:
    change(database, f'INSERT INTO "rocpd_pmc_event{SUFFIX}" (event_id, pmc_id, value) VALUES (2, 1, 16.0)')

    assert read_database(database).counters_of(0) == {"SQ_WAVES": 16400.0}


def test_streaming_samples_are_not_counter_values(database: Path) -> None:
    change(
        database,
        f'ALTER TABLE "rocpd_pmc_event{SUFFIX}" ADD COLUMN sample_id INTEGER',
        f'INSERT INTO "rocpd_pmc_event{SUFFIX}" (event_id, pmc_id, value, sample_id) VALUES (2, 1, 99.0, 7)',
    )

    assert read_database(database).counters_of(0) == {"SQ_WAVES": 16384.0}


def test_further_columns_and_a_newer_minor_version_are_accepted(database: Path) -> None:
    change(
        database,
        f'ALTER TABLE "rocpd_kernel_dispatch{SUFFIX}" ADD COLUMN graph_exec_id INTEGER NOT NULL DEFAULT 0',
        f"""UPDATE "rocpd_metadata{SUFFIX}" SET value = '3.0.5' WHERE tag = 'schema_version'""",
    )

    trace = read_database(database)

    assert (len(trace.dispatches), trace.schema_version) == (2, "3.0.5")


def test_tables_are_found_without_their_plain_views(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        views = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
    change(database, *(f"DROP VIEW {view}" for view in views))

    assert len(read_database(database).dispatches) == 2


def test_equal_ids_of_two_processes_in_one_file_stay_separate(database: Path, tmp_path: Path) -> None:
    other = make_guid(1_700_000_000_001, "other")
    write_database(tmp_path / "b.db", recorded_run(TARGET, [dispatch(0, 7, kernel=REDUCE)], guid=other))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(f"ATTACH '{tmp_path / 'b.db'}' AS b")
        for table in table_names():
            connection.execute(f'CREATE TABLE "{table}{suffix_of(other)}" AS SELECT * FROM b."{table}{suffix_of(other)}"')

    trace = read_database(database)

    assert [process.guid for process in trace.processes] == sorted([GUID, other])
    assert len(trace.kernels) == 4
    first = int(trace.dispatches.kernel[0])
    assert trace.processes[trace.kernels[first].process].guid == other
    assert trace.dispatches.process.tolist() == [1, 0, 0]


def test_the_file_is_not_altered(database: Path) -> None:
    before = database.read_bytes()

    read_database(database)

    assert database.read_bytes() == before
    assert [entry.name for entry in database.parent.iterdir()] == [database.name]


def has_times(row: tuple[int, int, int]) -> bool:
    """Return whether the reader keeps a dispatch: 0 to 0 means that it was not timed."""
    return row[:2] != (0, 0)


@settings(max_examples=25, deadline=None)
@given(times=st.lists(st.tuples(TIMES, TIMES, st.integers(0, 7)).filter(has_times), max_size=8), waves=st.floats(0, 1e18))
def test_times_queues_and_counters_survive_the_round_trip(
    times: list[tuple[int, int, int]], waves: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("round") / "x.db"
    run = [dispatch(start, end, queue=queue, counters={"SQ_WAVES": waves}) for start, end, queue in times]

    write_database(path, recorded_run(TARGET, run))
    trace = read_database(path)

    found = trace.dispatches
    assert list(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)) == sorted((s, e) for s, e, _ in times)
    assert sorted(found.queue.tolist()) == sorted(queue for _, _, queue in times)
    assert [trace.counters_of(i) for i in range(len(found))] == [{"SQ_WAVES": waves}] * len(times)


def failing(path: Path) -> str:
    with pytest.raises(DatabaseError) as caught:
        read_database(path)
    assert str(path) in str(caught.value)
    return caught.value.what


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "cannot open" in failing(tmp_path / "none.db")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()

    assert "empty" in failing(tmp_path / "x.db")


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("Kind,Agent_Id\n")

    assert "not an SQLite file" in failing(tmp_path / "x.db")


@pytest.mark.parametrize("kept", [50, 5000])
def test_a_truncated_file_is_refused(database: Path, kept: int) -> None:
    database.write_bytes(database.read_bytes()[:kept])

    assert "truncated" in failing(database)


def test_a_damaged_file_is_refused(database: Path) -> None:
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    database.write_bytes(content)

    assert "damaged" in failing(database)


def test_a_locked_file_is_refused(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")

        assert "locked" in failing(database)


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        (("A",), "rocprof v1"),
        (("OPS", "HSA", "HIP"), "rocprof v1"),
        (("rocpd_metadata", "rocpd_op", "rocpd_api", "rocpd_string"), "RPD"),
        (("compute_workload", "compute_kernel"), "rocprofiler-compute"),
        (("songs",), "not a rocpd database; its tables: songs"),
    ],
)
def test_other_databases_are_refused_by_name(tmp_path: Path, tables: tuple[str, ...], name: str) -> None:
    change(tmp_path / "x.db", *(f"CREATE TABLE {table} (id INTEGER)" for table in tables))

    assert name in failing(tmp_path / "x.db")


def test_an_unknown_major_version_is_refused(database: Path) -> None:
    change(database, f"""UPDATE "rocpd_metadata{SUFFIX}" SET value = '5.1.0' WHERE tag = 'schema_version'""")

    assert "version 5.1.0 is not supported; supported versions: 3.x and 4.x" in failing(database)


def test_a_database_without_version_is_refused(database: Path) -> None:
    change(database, f'DELETE FROM "rocpd_metadata{SUFFIX}"')

    assert "no schema_version" in failing(database)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    change(
        tmp_path / "x.db",
        "CREATE TABLE rocpd_metadata (tag TEXT, value TEXT)",
        "INSERT INTO rocpd_metadata VALUES ('schema_version', '3')",
    )

    assert "incomplete: no such table: rocpd_info_process" in failing(tmp_path / "x.db")


def test_a_missing_column_is_named(database: Path) -> None:
    change(
        database,
        "PRAGMA legacy_alter_table = ON",
        f'ALTER TABLE "rocpd_info_process{SUFFIX}" RENAME COLUMN pid TO number',
    )

    assert "no such column: pid" in failing(database)


def test_a_reference_to_a_missing_row_is_refused(database: Path) -> None:
    change(database, f'DELETE FROM "rocpd_info_agent{SUFFIX}" WHERE id = 1')

    assert "row 1" in failing(database)


def test_a_nonnumeric_time_is_refused(database: Path) -> None:
    change(database, f"""UPDATE "rocpd_kernel_dispatch{SUFFIX}" SET start = 'soon' WHERE id = 1""")

    assert "not an integer" in failing(database)


def test_extdata_must_be_json(database: Path) -> None:
    change(database, f"""UPDATE "rocpd_info_agent{SUFFIX}" SET extdata = '{{' WHERE id = 1""")

    assert "not contain JSON" in failing(database)


def test_a_kernel_name_of_64_kb_is_read_whole(tmp_path: Path) -> None:
    long = dataclasses.replace(REDUCE, mangled_name="k" * 65536, display_name="k" * 65536)
    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(0, 1, kernel=long)], kernels=(long,)))

    assert len(read_database(tmp_path / "x.db").kernels[0].name) == 65536


def test_a_file_cut_at_any_page_is_refused(database: Path) -> None:
    content = database.read_bytes()
    page = int.from_bytes(content[16:18])

    for end in range(page, len(content), page):
        database.write_bytes(content[:end])
        with pytest.raises(DatabaseError, match="truncated"):
            read_database(database)
