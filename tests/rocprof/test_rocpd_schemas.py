"""rocpd databases of other writers and schemas: rocprof-sys, views only, missing columns, schema 4, several machines."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow
import pytest

from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof import columns
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.reader import read_database, read_databases
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd_by_hand import MI300X, NODE, Database

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace

GUID = "0198a9b2-0000-7000-8000-000000000001"
SUFFIX = "_" + GUID.replace("-", "_")
TARGET = load_target("mi300x")


@pytest.fixture(params=[False, True], ids=["queries", "arrow"], autouse=True)
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large databases are read by Arrow: with the same result."""
    monkeypatch.setattr(columns, "_ARROW_PAYS_FROM_BYTES", 0 if request.param else 1 << 60)


def written(path: Path, more: Callable[[Database], None] | None = None, *, guid: str = GUID, pid: int = 77) -> Path:
    """Three dispatches of 50 ns in 100, each of 3 waves in two instances, and the call that launched the first."""
    with Database(path) as database:
        database.process(guid, pid)
        database.agent(1)
        database.kernel(5, "_Z2k1i", "k1(int)", arch_vgpr_count=8, group_segment_size=64)
        database.counter(9, "SQ_WAVES", 1)
        database.text(1, "hipLaunchKernel")
        for number in range(3):
            start = 1000 + number * 100
            database.dispatch(10 + number * 7, 5, start, start + 50, agent=1, event=100 + number, stack=200 + number)
            database.values(100 + number, 9, 1.0, 2.0)
        database.region(900, 950, name=1, event=500, stack=200)
        if more:
            more(database)
    return path


def change(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement.replace("{s}", SUFFIX))
    return path


def without_column(table: str, *names: str) -> tuple[str, ...]:
    return (f"DROP VIEW {table}", *(f'ALTER TABLE "{table}{SUFFIX}" DROP COLUMN {name}' for name in names))


def assert_whole(trace: Trace) -> None:
    assert trace.dispatches.duration_ns.tolist() == [50, 50, 50]
    assert [trace.counters_of(i) for i in range(3)] == [{"SQ_WAVES": 3.0}] * 3
    assert trace.dispatches.correlation.tolist() == [200, 201, 202]
    assert [trace.regions.names[int(name)] for name in trace.regions.name] == ["hipLaunchKernel"]
    assert [kernel.name for kernel in trace.kernels] == ["k1(int)"]
    assert trace.notes == ()


def test_views_are_read_if_tables_have_other_names(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        named = connection.execute("SELECT name, type FROM sqlite_master WHERE name LIKE 'rocpd%'").fetchall()
        for name, _ in (pair for pair in named if pair[1] == "view"):
            connection.execute(f"DROP VIEW {name}")
        for name, _ in (pair for pair in named if pair[1] == "table"):
            plain = name.removesuffix(SUFFIX)
            connection.execute(f'ALTER TABLE "{name}" RENAME TO "stored_{plain}"')
            connection.execute(f'CREATE VIEW "{plain}" AS SELECT * FROM "stored_{plain}"')

    assert_whole(read_database(path))


def test_registers_that_are_not_in_the_table_are_unknown(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db")
    change(path, *without_column("rocpd_info_kernel_symbol", "arch_vgpr_count", "accum_vgpr_count", "sgpr_count"))

    trace = read_database(path)

    assert_whole(trace)
    assert (trace.kernels[0].arch_vgpr_count, trace.kernels[0].static_lds_bytes) == (0, 64)
    assert "the trace does not state the kernel's register counts" in " ".join(build_profile(trace, target=TARGET).notes)


def test_agents_may_lack_optional_properties(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db")

    assert_whole(read_database(change(path, *without_column("rocpd_info_agent", "product_name", "extdata", "model_name"))))


def test_identifying_columns_are_required(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db")

    with pytest.raises(DatabaseError, match="incomplete: no such column: pid"):
        read_database(change(path, *without_column("rocpd_info_agent", "pid")))


@pytest.mark.parametrize("table", ["event", "pmc_event", "kernel_dispatch"])
def test_a_guid_must_be_text(tmp_path: Path, table: str) -> None:
    path = change(written(tmp_path / "x.db"), f"""UPDATE "rocpd_{table}{{s}}" SET guid = x'ff00'""")

    if table == "kernel_dispatch":
        with pytest.raises(DatabaseError, match="is inconsistent"):
            read_database(path)
    else:
        assert read_database(path).dispatches.duration_ns.tolist() == [50, 50, 50]


def test_json_in_a_blob_is_json(tmp_path: Path) -> None:
    path = change(written(tmp_path / "x.db"), 'UPDATE "rocpd_info_agent{s}" SET extdata = CAST(extdata AS BLOB)')

    assert read_database(path).agents[0].properties["num_xcc"] == 8


def test_a_dispatch_without_queue_or_stream_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", lambda d: d.dispatch(99, 5, 1300, 1350, agent=1, queue=None, stream=None))

    trace = read_database(path)

    assert (trace.dispatches.queue.tolist(), trace.dispatches.stream.tolist()) == ([0, 0, 0, -1], [0, 0, 0, -1])


def test_an_undescribed_kernel_is_named_by_its_id(tmp_path: Path) -> None:
    def unknown(database: Database) -> None:
        database.dispatch(98, 0, 1300, 1400, agent=1)
        database.dispatch(99, 0, 1500, 1600, agent=1)

    trace = read_database(written(tmp_path / "x.db", unknown))

    assert [trace.kernels[int(kernel)].name for kernel in trace.dispatches.kernel] == [
        *["k1(int)"] * 3,
        *["unknown_kernel_0"] * 2,
    ]
    assert build_profile(trace, target=TARGET).kernel.name == "unknown_kernel_0"


def test_an_unnamed_kernel_gets_a_name(tmp_path: Path) -> None:
    path = change(written(tmp_path / "x.db"), 'UPDATE "rocpd_info_kernel_symbol{s}" SET display_name = NULL, kernel_name = NULL')

    assert read_database(path).kernels[0].name == "unknown_kernel_5"


def test_a_name_ends_at_nul(tmp_path: Path) -> None:
    names = "display_name = 'f(int)' || char(0) || 'x', kernel_name = '_Z1fi.kd' || char(0)"

    (kernel,) = read_database(change(written(tmp_path / "x.db"), f'UPDATE "rocpd_info_kernel_symbol{{s}}" SET {names}')).kernels

    assert (kernel.name, kernel.mangled_name) == ("f(int)", "_Z1fi")


def test_a_dispatch_that_was_never_timed_does_not_stretch_the_run(tmp_path: Path) -> None:
    def never_timed(database: Database) -> None:
        database.dispatch(99, 5, 0, 0, agent=1, event=700)
        database.values(700, 9, 1.0)

    trace = read_database(written(tmp_path / "x.db", never_timed))

    assert trace.dispatches.start_ns.tolist() == [1000, 1100, 1200]
    assert trace.notes == (
        "1 dispatches have no times and were ignored",
        "1 counter values belong to no dispatch; ignored",
    )


def test_values_without_a_dispatch_are_counted_in_a_note(tmp_path: Path) -> None:
    path = change(written(tmp_path / "x.db"), 'UPDATE "rocpd_pmc_event{s}" SET event_id = NULL')

    trace = read_database(path)

    assert (trace.counters, trace.notes) == ({}, ("6 counter values belong to no dispatch; ignored",))


@pytest.mark.parametrize(
    ("environment", "noted"), [({"ROCPROF_KERNEL_REPLAY": "1"}, True), ({"ROCPROF_KERNEL_REPLAY": "0"}, False)]
)
def test_kernel_replay_in_a_database_is_noted(tmp_path: Path, environment: dict[str, str], noted: bool) -> None:
    path = written(tmp_path / "x.db", lambda d: d.execute("UPDATE {info_process} SET environment = ?", json.dumps(environment)))

    assert any("their sum; collect with rocprofv3 -f json" in note for note in read_database(path).notes) == noted


def test_without_events_there_are_still_dispatches_and_counters(tmp_path: Path) -> None:
    trace = read_database(change(written(tmp_path / "x.db"), 'DELETE FROM "rocpd_event{s}"'))

    assert trace.counters_of(0) == {"SQ_WAVES": 3.0}
    assert trace.dispatches.correlation.tolist() == [-1, -1, -1]


def test_a_run_with_api_calls_only_is_read(tmp_path: Path) -> None:
    trace = read_database(change(written(tmp_path / "x.db"), 'DELETE FROM "rocpd_kernel_dispatch{s}"'))

    assert (len(trace.dispatches), len(trace.regions)) == (0, 1)


def test_marked_ranges_have_the_users_text(tmp_path: Path) -> None:
    def marked(database: Database) -> None:
        database.text(2, "roctxRangePushA")
        database.region(800, 2000, name=2, event=600, stack=1)
        database.region(2000, 2100, name=2, event=601, stack=2)
        database.execute("UPDATE {event} SET extdata = ? WHERE id = 600", json.dumps({"message": "forward"}))

    regions = read_database(written(tmp_path / "x.db", marked)).regions

    assert [regions.names[int(name)] for name in regions.name] == ["roctx: forward", "hipLaunchKernel", "roctxRangePushA"]


def test_rocprof_sys_counts_its_agents_and_threads(tmp_path: Path) -> None:
    """There ids of agents and threads are numbers of rows, the guid is a hash, and so is the suffix of the tables."""
    guid = "c4ca4238a0b923820dcc509a6f75849b"

    def counted(database: Database) -> None:
        database.execute("UPDATE {info_thread} SET id = 1, tid = 4711")
        database.execute("UPDATE {region} SET tid = 1")
        database.execute("INSERT INTO {metadata} (tag, value) VALUES ('upid', ?)", guid)

    trace = read_database(written(tmp_path / "rocpd.db", counted, guid=guid))

    assert_whole(trace)
    assert trace.regions.thread.tolist() == [4711]


def test_processes_of_several_machines_have_no_common_clock(tmp_path: Path) -> None:
    one = written(tmp_path / "1.db")
    other = written(tmp_path / "2.db", guid=GUID.replace("0001", "0002"))

    trace = read_databases([one, other])

    assert [process.machine for process in trace.processes] == [f"m-{GUID}", f"m-{GUID.replace('0001', '0002')}"]
    assert trace.notes == ("the processes ran on 2 machines, whose clocks differ: their times cannot be compared",)


def test_processes_of_one_machine_need_no_note(tmp_path: Path) -> None:
    paths = [written(tmp_path / "1.db"), written(tmp_path / "2.db", guid=GUID.replace("0001", "0002"), pid=78)]
    for path, guid in zip(paths, (GUID, GUID.replace("0001", "0002")), strict=True):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"""UPDATE "rocpd_info_node_{guid.replace("-", "_")}" SET machine_id = 'm'""")

    assert read_databases(paths).notes == ()


def test_processes_with_different_schemas_in_one_file(tmp_path: Path) -> None:
    second = GUID.replace("0001", "0002")
    path = written(tmp_path / "x.db")
    with Database(path, views=False) as database:
        database.process(second, 78)
        database.agent(1)
        database.kernel(5, "_Z2k2i", "k2(int)", arch_vgpr_count=16)
        database.dispatch(1, 5, 5000, 5100, agent=1)
    other = second.replace("-", "_")
    change(path, f'ALTER TABLE "rocpd_info_kernel_symbol_{other}" DROP COLUMN sgpr_count', "DROP VIEW rocpd_info_kernel_symbol")

    trace = read_database(path)

    assert trace.dispatches.process.tolist() == [0, 0, 0, 1]
    assert [(kernel.name, kernel.arch_vgpr_count) for kernel in trace.kernels] == [("k1(int)", 8), ("k2(int)", 16)]


def with_tracks(path: Path) -> Path:
    """As schema 4.1 lays it out: rows name a track, which names process, agent, queue and stream."""
    owners = {"kernel_dispatch": "pid, tid, agent_id, queue_id, stream_id", "region": "pid, tid, NULL, NULL, NULL"}
    statements = [
        'DROP TABLE IF EXISTS "rocpd_track{s}"',
        'CREATE TABLE "rocpd_track{s}" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER,'
        " agent_id INTEGER, queue_id INTEGER, stream_id INTEGER)",
        "DROP VIEW rocpd_info_agent",
        'ALTER TABLE "rocpd_info_agent{s}" ADD COLUMN generic_name TEXT',
        "UPDATE \"rocpd_info_agent{s}\" SET generic_name = name, name = 'my card'",
        "UPDATE \"rocpd_metadata{s}\" SET value = '4.1.0' WHERE tag = 'schema_version'",
    ]
    for table, owner in owners.items():
        statements += [
            f"DROP VIEW rocpd_{table}",
            f'ALTER TABLE "rocpd_{table}{{s}}" ADD COLUMN track_id INTEGER',
            f'INSERT INTO "rocpd_track{{s}}" (guid, nid, pid, tid, agent_id, queue_id, stream_id)'
            f' SELECT DISTINCT guid, nid, {owner} FROM "rocpd_{table}{{s}}"',
            f'UPDATE "rocpd_{table}{{s}}" SET track_id = (SELECT max(id) FROM "rocpd_track{{s}}")',
        ]
        dropped = ("nid", *(name for name in owner.split(", ") if name != "NULL"))
        statements += [f'ALTER TABLE "rocpd_{table}{{s}}" DROP COLUMN {name}' for name in dropped]
    return change(path, *statements)


def test_schema_4_identifies_owners_by_track(tmp_path: Path) -> None:
    path = with_tracks(
        written(tmp_path / "x.db", lambda d: d.execute("UPDATE {kernel_dispatch} SET queue_id = 3, stream_id = 4, tid = 7"))
    )

    trace = read_database(path)

    assert_whole(trace)
    assert (trace.schema_version, trace.agents[0].name) == ("4.1.0", "gfx942")
    assert set(zip(trace.dispatches.queue.tolist(), trace.dispatches.stream.tolist(), strict=True)) == {(3, 4)}
    assert trace.regions.thread.tolist() == [77]


def test_schema_4_may_compress_properties(tmp_path: Path) -> None:
    text = json.dumps(dict(MI300X)).encode()
    packed = b"LZ4F" + len(text).to_bytes(4, "little") + pyarrow.compress(text, codec="lz4", asbytes=True)
    path = written(tmp_path / "x.db", lambda d: d.execute("UPDATE {info_agent} SET extdata = ?", packed))
    change(path, "UPDATE \"rocpd_metadata{s}\" SET value = '4' WHERE tag = 'schema_version'")

    assert read_database(path).agents[0].properties["num_xcc"] == 8


@pytest.mark.parametrize("packed", [b"LZ4F\x10\0\0\0broken", b"LZ4F", b"\x0c\x0d"])
def test_invalid_compression_is_refused(tmp_path: Path, packed: bytes) -> None:
    path = written(tmp_path / "x.db", lambda d: d.execute("UPDATE {info_agent} SET extdata = ?", packed))

    with pytest.raises(DatabaseError, match="an extdata column does not contain JSON"):
        read_database(path)


def test_the_node_is_that_of_the_process(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.db", lambda d: d.execute(f"UPDATE {{info_node}} SET machine_id = '', hostname = 'n1' WHERE id = {NODE}")
    )

    assert read_database(path).processes[0].machine == "n1"
