"""Schemas of ROCm 7.0 to 10, copies and API calls, and data that is odd but can be read."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof import columns
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.finding import is_rocpd
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.schema import suffix_of
from rocm_perf_lab.rocprof.trace import MemoryCopy
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.recordings import read_run
from tests.builders.rocpd import GUID, REDUCE, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

TARGET = load_target("mi300x")
SUFFIX = suffix_of(GUID)
VERSIONS = {
    "3": (),
    "3.0.2": (
        f'ALTER TABLE "rocpd_kernel_dispatch{SUFFIX}" ADD COLUMN graph_exec_id INTEGER DEFAULT 0',
        f'ALTER TABLE "rocpd_kernel_dispatch{SUFFIX}" ADD COLUMN graph_node_id INTEGER DEFAULT 0',
        f'ALTER TABLE "rocpd_memory_copy{SUFFIX}" ADD COLUMN graph_exec_id INTEGER DEFAULT 0',
        f'CREATE TABLE "rocpd_graph_launch{SUFFIX}" (id INTEGER PRIMARY KEY, guid TEXT, graph_exec_id INTEGER)',
    ),
    "3.0.3": (
        *(
            f'ALTER TABLE "rocpd_pmc_event{SUFFIX}" ADD COLUMN {c} INTEGER'
            for c in ("sample_id", "xcc", "shader_engine", "instance")
        ),
        f'ALTER TABLE "rocpd_info_pmc{SUFFIX}" ADD COLUMN spm_support INTEGER',
        "CREATE VIEW spm_counters AS SELECT 1",
    ),
    "3.0.5": (f'CREATE TABLE "rocpd_hip_event{SUFFIX}" (id INTEGER PRIMARY KEY, guid TEXT)',),
}


@pytest.fixture(params=[False, True], ids=["queries", "arrow"])
def database(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(columns, "_ARROW_PAYS_FROM_BYTES", 0 if request.param else 1 << 60)
    path = tmp_path / "run_results.db"
    run = [dispatch(100, 350, counters={"SQ_WAVES": 4.0, "TCC_HIT_max": 9.0}), dispatch(500, 900, kernel=REDUCE, queue=1)]
    write_database(path, recorded_run(TARGET, run))
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_schema_of_rocm_7_to_10_is_read_the_same(database: Path, version: str) -> None:
    plain = read_database(database)
    tag = f"""UPDATE "rocpd_metadata{SUFFIX}" SET value = '{version}' WHERE tag = 'schema_version'"""
    change(database, *VERSIONS[version], tag)

    trace = read_database(database)

    assert trace.schema_version == version
    for name, column in vars(trace.dispatches).items():
        assert column.tolist() == getattr(plain.dispatches, name).tolist()
    assert [trace.counters_of(i) for i in range(2)] == [{"SQ_WAVES": 4.0, "TCC_HIT_max": 9.0}, {}]


def test_a_nic_among_the_agents_does_not_matter(database: Path) -> None:
    change(
        database,
        "PRAGMA ignore_check_constraints = ON",
        f"""INSERT INTO "rocpd_info_agent{SUFFIX}" (id, nid, pid, type, name) SELECT 9, nid, pid, 'NIC', 'mlx5'
            FROM "rocpd_info_agent{SUFFIX}" WHERE id = 1""",
    )

    assert [agent.kind for agent in read_database(database).agents] == ["CPU", "GPU", "NIC"]


def test_tables_that_only_some_runs_have_may_be_missing(database: Path) -> None:
    tables = ("memory_copy", "region", "pmc_event", "info_pmc", "event", "info_stream")
    with closing(sqlite3.connect(database)) as connection:
        views = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
    change(database, *(f"DROP VIEW {view}" for view in views), *(f'DROP TABLE "rocpd_{table}{SUFFIX}"' for table in tables))

    trace = read_database(database)

    assert (len(trace.dispatches), len(trace.memory_copies), len(trace.regions), trace.counters) == (2, 0, 0, {})
    assert trace.dispatches.correlation.tolist() == [-1, -1]


def test_copies_and_api_calls_are_read_with_their_correlation(database: Path) -> None:
    change(
        database,
        f"""INSERT INTO "rocpd_string{SUFFIX}" (id, string) VALUES (50, 'MEMORY_COPY_HOST_TO_DEVICE'), (51, 'hipLaunchKernel')""",
        f'INSERT INTO "rocpd_event{SUFFIX}" (id, stack_id) VALUES (70, 33), (71, 1)',
        f"""INSERT INTO "rocpd_memory_copy{SUFFIX}" (nid, pid, start, end, name_id, src_agent_id, dst_agent_id, size, stream_id,
            event_id) SELECT nid, 4242, 10, 90, 50, 0, 1, 4096, 0, 70 FROM "rocpd_info_process{SUFFIX}" """,
        f"""INSERT INTO "rocpd_region{SUFFIX}" (nid, pid, tid, start, end, name_id, event_id)
            SELECT nid, 4242, 4242, 40, 60, 51, 71 FROM "rocpd_info_process{SUFFIX}" """,
    )

    trace = read_database(database)

    assert list(trace.memory_copies) == [MemoryCopy(0, "MEMORY_COPY_HOST_TO_DEVICE", 4096, 10, 90, None, 0)]
    assert [trace.agents[int(agent[0])].kind for agent in (trace.memory_copies.source, trace.memory_copies.destination)] == [
        "CPU",
        "GPU",
    ]
    assert trace.memory_copies.correlation.tolist() == [33]
    assert trace.regions.names[int(trace.regions.name[0])] == "hipLaunchKernel"
    assert (trace.regions.thread.tolist(), trace.regions.correlation.tolist()) == ([4242], [1])
    assert trace.dispatches.correlation.tolist() == [1, 2]


def test_instances_are_combined_as_the_counter_defines(database: Path) -> None:
    change(database, f'INSERT INTO "rocpd_pmc_event{SUFFIX}" (event_id, pmc_id, value) VALUES (1, 1, 6.0), (1, 2, 3.0)')

    assert read_database(database).counters_of(0) == {"SQ_WAVES": 10.0, "TCC_HIT_max": 9.0}


def test_a_counter_described_for_two_agents_belongs_to_the_agent_of_its_dispatch(database: Path) -> None:
    change(
        database,
        f"""INSERT INTO "rocpd_info_pmc{SUFFIX}" (id, nid, pid, agent_id, target_arch, name, symbol)
            SELECT 77, nid, pid, 0, 'GPU', name, symbol FROM "rocpd_info_pmc{SUFFIX}" WHERE id = 1""",
        f'INSERT INTO "rocpd_pmc_event{SUFFIX}" (event_id, pmc_id, value) VALUES (2, 77, 5.0)',
    )

    trace = read_database(database)

    assert [trace.counters_of(i).get("SQ_WAVES") for i in range(2)] == [4.0, 5.0]


def test_nan_values_are_ignored_with_a_note(database: Path) -> None:
    change(database, f'UPDATE "rocpd_pmc_event{SUFFIX}" SET value = NULL WHERE pmc_id = 1')

    trace = read_database(database)

    assert trace.counters_of(0) == {"TCC_HIT_max": 9.0}
    assert trace.notes == ("SQ_WAVES: 1 dispatches have a value that is not a number; ignored",)
    assert trace.notes[0] in build_profile(trace, target=TARGET).notes


def test_negative_counts_stay_visible(database: Path) -> None:
    change(database, f'UPDATE "rocpd_pmc_event{SUFFIX}" SET value = -5 WHERE pmc_id = 1')

    trace = read_database(database)

    assert trace.counters_of(0)["SQ_WAVES"] == -5.0
    assert trace.notes == ("SQ_WAVES: 1 dispatches have an impossible negative count",)


def test_a_sum_does_not_hide_a_negative_instance(database: Path) -> None:
    change(database, f'INSERT INTO "rocpd_pmc_event{SUFFIX}" (event_id, pmc_id, value) VALUES (1, 1, -1.0)')

    assert "SQ_WAVES" not in read_database(database).counters_of(0)


def test_unknown_counters_are_ignored_with_a_note(database: Path) -> None:
    change(database, f'INSERT INTO "rocpd_pmc_event{SUFFIX}" (event_id, pmc_id, value) VALUES (1, 999, 1.0)')

    assert read_database(database).notes == ("1 counter values belong to counters that the database does not describe; ignored",)


def test_missing_and_decreasing_times_are_accepted(database: Path) -> None:
    change(
        database,
        f'UPDATE "rocpd_kernel_dispatch{SUFFIX}" SET "end" = start WHERE id = 1',
        f'UPDATE "rocpd_kernel_dispatch{SUFFIX}" SET "end" = start - 7 WHERE id = 2',
    )

    trace = read_database(database)
    profile = build_profile(trace, target=TARGET)

    assert trace.dispatches.duration_ns.tolist() == [0, -7]
    assert profile.durations_ns == (0,)
    assert "1 dispatches have a duration of 0" in profile.notes
    assert "1 dispatches end before they start and were ignored" in profile.notes


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        (("experiments", "runs", "alembic_version", "metrics"), "a tracking database of MLflow"),
        (("studies", "trials", "alembic_version"), "a study database of Optuna"),
        (("StringIds", "TARGET_INFO_GPU", "CUPTI_ACTIVITY_KIND_KERNEL"), "an Nsight Systems export"),
        ((), "not a rocpd database; its tables: none"),
    ],
)
def test_databases_of_other_tools_are_identified(tmp_path: Path, tables: tuple[str, ...], name: str) -> None:
    change(tmp_path / "x.db", "PRAGMA user_version = 1", *(f"CREATE TABLE {table} (id INTEGER)" for table in tables))

    with pytest.raises(DatabaseError, match=name):
        read_database(tmp_path / "x.db")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("out_results.json", b'{"rocprofiler-sdk-tool": []}', r"JSON \(rocprofv3 -f json"),
        ("out_results.pftrace", b"\n\x10\x08\x01", r"viewer trace \(\.pftrace\)"),
    ],
)
def test_other_profiler_outputs_are_identified(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DatabaseError, match=what):
        read_database(tmp_path / name)


def test_a_directory_is_not_a_database(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="cannot open the database: Is a directory"):
        read_database(tmp_path)


def test_write_ahead_mode_is_read_without_a_trace(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = database.read_bytes()

    assert len(read_database(database).dispatches) == 2
    assert database.read_bytes() == before
    assert [entry.name for entry in database.parent.iterdir()] == [database.name]


def test_a_write_ahead_log_is_read_and_left_unchanged(database: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copied"
    directory.mkdir()
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(f'DELETE FROM "rocpd_kernel_dispatch{SUFFIX}" WHERE id = 1')
        writer.commit()
        for path in (database, database.with_name("run_results.db-wal")):
            shutil.copy(path, directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    trace = read_run([directory])

    assert len(trace.dispatches) == 1
    assert trace.path == directory / "run_results.db"
    assert trace.notes == (
        "the content of run_results.db-wal was read too; its writer may still be running",
        "2 counter values belong to no dispatch; ignored",
    )
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_database_may_be_entirely_in_its_log(database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "fresh.db")) as fresh:
        fresh.execute("PRAGMA journal_mode = WAL")
        fresh.execute("PRAGMA wal_autocheckpoint = 0")
        with closing(sqlite3.connect(database)) as source:
            fresh.executescript("".join(source.iterdump()).replace("BEGIN TRANSACTION;", "BEGIN;"))

        assert is_rocpd(tmp_path / "fresh.db")
        assert len(read_database(tmp_path / "fresh.db").dispatches) == 2


def test_a_killed_writer_leaves_a_partial_database(database: Path) -> None:
    database.with_name("run_results.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))

    with pytest.raises(DatabaseError, match=r"partial.*-journal"):
        read_database(database)


def test_a_read_only_directory_is_accepted(database: Path) -> None:
    database.chmod(0o444)
    database.parent.chmod(0o555)
    try:
        assert len(read_database(database).dispatches) == 2
    finally:
        database.parent.chmod(0o755)
