"""A written database, opened with plain sqlite3 through the views that other tools use."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.rocprof.recording import AgentRecord
from rocm_perf_lab.rocprof.schema import make_guid, table_names
from rocm_perf_lab.rocprof.writer import DatabaseWriteError, write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import GUID, REDUCE, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

TARGET = load_target("mi300x")


def rows(path: Path, query: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def test_the_kernels_view_shows_a_dispatch_with_grid_in_work_items(tmp_path: Path) -> None:
    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(100, 350, kernel=REDUCE, queue=2)]))

    (row,) = rows(tmp_path / "x.db", "SELECT * FROM kernels")

    assert (row["name"], row["start"], row["end"], row["duration"]) == ("reduce", 100, 350, 250)
    assert (row["grid_x"], row["workgroup_x"], row["lds_size"], row["scratch_size"]) == (1048576, 256, 1024, 16)
    assert (row["vgpr_count"], row["accum_vgpr_count"], row["sgpr_count"]) == (32, 0, 32)
    assert (row["queue"], row["stream"], row["category"]) == ("Queue 2", "Default Stream", "KERNEL_DISPATCH")
    assert (row["pid"], row["tid"], row["agent_type"], row["dispatch_id"]) == (4242, 4242, "GPU", 1)


def test_counters_collection_sums_the_instances_of_a_counter(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    write_database(path, recorded_run(TARGET, [dispatch(0, 10, counters={"TCC_HIT": 7.0, "SQ_WAVES": 3.0})]))
    with closing(sqlite3.connect(path)) as connection, connection:
        suffix = GUID.replace("-", "_")
        connection.execute(
            f'INSERT INTO "rocpd_pmc_event_{suffix}" (event_id, pmc_id, value)'
            " SELECT event_id, pmc_id, 5.0 FROM pmc_events WHERE counter_name = 'TCC_HIT'"
        )

    found = rows(path, "SELECT counter_name, value, kernel_name, grid_size FROM counters_collection")

    assert {row["counter_name"]: row["value"] for row in found} == {"TCC_HIT": 12.0, "SQ_WAVES": 3.0}
    assert {row["grid_size"] for row in found} == {1048576}
    assert len(rows(path, "SELECT * FROM pmc_events WHERE counter_name = 'TCC_HIT'")) == 2


def test_summary_views_count_in_microseconds_and_percent(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    write_database(path, recorded_run(TARGET, [dispatch(0, 1000), dispatch(3000, 6000, kernel=REDUCE)]))

    first, second = rows(path, "SELECT * FROM top_kernels")
    (busy,) = rows(path, "SELECT * FROM busy")

    assert (first["name"], first["total_calls"], first["total_duration"], first["percentage"]) == ("reduce", 1, 3.0, 75)
    assert (second["average"], second["percentage"]) == (1.0, 25)
    assert (busy["GpuTime"], busy["WallTime"]) == (4000, 6000)


def test_tables_have_guid_suffixes_and_plain_views(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    write_database(path, recorded_run(TARGET, [dispatch(0, 1)]))

    tables = {row["name"] for row in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    metadata = {row["tag"]: row["value"] for row in rows(path, "SELECT * FROM rocpd_metadata")}

    suffix = "_" + GUID.replace("-", "_")
    assert tables - {"sqlite_sequence"} == {name + suffix for name in table_names()}
    assert metadata == {"schema_version": "3", "uuid": suffix, "guid": GUID}
    assert rows(path, "PRAGMA foreign_key_check") == []
    assert uuid.UUID(GUID).version == 7


def test_every_shipped_view_can_be_queried(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    write_database(path, recorded_run(TARGET, [dispatch(0, 1, counters={"SQ_WAVES": 1})]))

    views = [row["name"] for row in rows(path, "SELECT name FROM sqlite_master WHERE type = 'view'")]
    filled = {view for view in views if rows(path, f"SELECT * FROM {view}")}

    assert {"processes", "threads", "code_objects", "kernel_symbols", "pmc_info", "top", "busy"} <= filled
    assert {"memory_copies", "regions", "regions_and_samples", "scratch_memory", "stream_args"} <= set(views) - filled


def test_the_gpu_agent_states_its_facts_and_that_it_is_emulated(tmp_path: Path) -> None:
    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(0, 1)]))

    (agent,) = rows(tmp_path / "x.db", "SELECT * FROM rocpd_info_agent WHERE type = 'GPU'")

    extdata = json.loads(agent["extdata"])
    assert (agent["name"], agent["product_name"]) == ("gfx942", "AMD Instinct MI300X")
    assert (extdata["cu_count"], extdata["num_xcc"], extdata["gfx_target_version"]) == (304, 8, 90402)
    assert extdata["rocm_perf_lab"]["emulated"] is True
    assert extdata["rocm_perf_lab"]["device"] == "emulator"


def test_the_users_environment_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TEST_SECRET", "do-not-leak")

    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(0, 1)]))

    assert b"do-not-leak" not in (tmp_path / "x.db").read_bytes()


def test_equal_runs_result_in_equal_bytes(tmp_path: Path) -> None:
    run = recorded_run(TARGET, [dispatch(0, 5, counters={"SQ_WAVES": 4})])

    write_database(tmp_path / "a.db", run)
    write_database(tmp_path / "b.db", run)

    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()


def test_a_guid_orders_by_time_and_differs_by_seed() -> None:
    assert make_guid(1000, "a") < make_guid(1001, "a")
    assert make_guid(1000, "a") != make_guid(1000, "b")
    assert uuid.UUID(make_guid(1000, "a")).variant == uuid.RFC_4122


def test_a_failed_write_leaves_the_old_database_only(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    write_database(path, recorded_run(TARGET, [dispatch(0, 1)]))
    before = path.read_bytes()
    run = recorded_run(TARGET, [dispatch(0, 1)])
    twice = dataclasses.replace(run, code_objects=run.code_objects * 2)

    with pytest.raises(DatabaseWriteError, match="UNIQUE"):
        write_database(path, twice)

    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.db"]


def test_a_directory_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    with pytest.raises(DatabaseWriteError) as caught:
        write_database(tmp_path / "out" / "x.db", recorded_run(TARGET, [dispatch(0, 1)]))

    assert str(tmp_path / "out") in str(caught.value)


def test_a_dispatch_of_an_unknown_kernel_is_refused(tmp_path: Path) -> None:
    run = recorded_run(TARGET, [dispatch(0, 1, kernel=REDUCE)], kernels=())

    with pytest.raises(DatabaseWriteError, match="dispatch 0 is of kernel 2"):
        write_database(tmp_path / "x.db", run)

    assert not (tmp_path / "x.db").exists()


def test_an_agent_has_the_facts_of_its_target() -> None:
    agent = AgentRecord.from_target(load_target("rx6800xt"), device="emulator", emulated=True, versions={})

    assert (agent.name, agent.properties["wave_front_size"], agent.properties["simd_per_cu"]) == ("gfx1030", 32, 2)
