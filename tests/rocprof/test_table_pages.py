"""Columns decoded from pages equal what SQLite says, and what cannot be decoded is left to SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.rocprof import columns
from rocm_perf_lab.rocprof.columns import NULL, Tables
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.table_pages import Irregular, Pages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Row = tuple[int | None, float | None]

GUID = "018bcfe5-6800-7f97-8f82-19ca860d1927"
TABLE = "rocpd_thing_" + GUID.replace("-", "_")
WIDTHS = st.one_of([st.integers(-(2**bits), 2**bits - 1) for bits in (1, 7, 15, 23, 31, 47, 63)])
NUMBERS = WIDTHS.filter(lambda value: value != NULL)


@pytest.fixture(autouse=True)
def _pages_for_small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_PAGES_PAY_FROM_BYTES", 0)


def database(path: Path, rows: Sequence[tuple[object, ...]], *, guids: Sequence[str] = (GUID,), setup: str = "") -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            setup + f'CREATE TABLE "{TABLE}" (id INTEGER PRIMARY KEY AUTOINCREMENT, guid TEXT, a BIGINT, b REAL, c JSONB);'
        )
        connection.execute("BEGIN")
        connection.executemany(
            f'INSERT INTO "{TABLE}" (guid, a, b, c) VALUES (?, ?, ?, ?)',
            [(guids[i % len(guids)], *row, "{}") for i, row in enumerate(rows)],
        )
        connection.execute("COMMIT")
    return path


def read(path: Path, *, pages: bool) -> list[tuple[str, list[int], list[int], list[float]]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = Tables(connection, path)
        if pages:
            tables.map_pages()
        found = tables.read("rocpd_thing", ("id",), reals=("b",), optional={"a": -5})
        return [(guid, *(one[name].tolist() for name in ("id", "a", "b"))) for guid, one in found]


def decoded(path: Path) -> tuple[dict[int, list[float]], bytes | None]:
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
    found, text = Pages(np.memmap(path, np.uint8, "r")).read(root, {0: int, 2: int, 3: float}, key=0, constant=1)
    return {position: values.tolist() for position, values in found.items()}, text


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(NUMBERS, st.one_of(st.floats(allow_nan=False), st.integers(-(2**50), 2**50))), max_size=60))
def test_every_width_of_number_is_decoded(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = database(tmp_path_factory.mktemp("pages") / "x.db", rows)

    found, text = decoded(path)

    assert text == (GUID.encode() if rows else None)
    assert found[0] == list(range(1, len(rows) + 1))
    assert found[2] == [value for value, _ in rows]
    assert found[3] == [float(value or 0) for _, value in rows]


@pytest.mark.parametrize("page_bytes", [512, 4096, 65536])
def test_a_table_of_many_pages_equals_the_query(tmp_path: Path, page_bytes: int) -> None:
    random = np.random.default_rng(page_bytes)
    values = random.integers(-(2**40), 2**40, 20_000) >> random.integers(0, 41, 20_000)
    rows = [(None if i % 97 == 0 else int(v), None if i % 89 == 0 else float(v) / 3) for i, v in enumerate(values)]
    path = database(tmp_path / "x.db", rows, setup=f"PRAGMA page_size = {page_bytes};")

    np.testing.assert_equal(read(path, pages=True), read(path, pages=False))
    assert len(decoded(path)[0][2]) == 20_000


def test_removed_rows_leave_gaps_in_the_ids(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", [(i, 0.5) for i in range(3000)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'DELETE FROM "{TABLE}" WHERE id % 3 = 0 OR id BETWEEN 500 AND 1500')

    assert decoded(path)[0][0] == [i for i in range(1, 3001) if i % 3 and not 500 <= i <= 1500]


def test_rows_older_than_a_new_column_are_left_to_sqlite(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", [(1, 2.0)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'ALTER TABLE "{TABLE}" ADD COLUMN d INTEGER NOT NULL DEFAULT 7')
    with closing(sqlite3.connect(path)) as connection:
        tables = Tables(connection, path)
        tables.map_pages()
        ((_, found),) = tables.read("rocpd_thing", ("id", "d"))

    assert found["d"].tolist() == [7]


def test_several_guids_in_one_table_are_kept_apart(tmp_path: Path) -> None:
    other = GUID.replace("0", "1")
    path = database(tmp_path / "x.db", [(i, 0.0) for i in range(4)], guids=(GUID, other))

    assert [(guid, a) for guid, _, a, _ in read(path, pages=True)] == [(GUID, [0, 2]), (other, [1, 3])]


def test_a_text_where_a_number_belongs_is_refused(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", [("soon", 1.0)])

    with pytest.raises(Irregular):
        decoded(path)
    with pytest.raises(DatabaseError, match="no whole number"):
        read(path, pages=True)


def test_a_text_where_a_real_belongs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="no whole number"):
        read(database(tmp_path / "x.db", [(1, "much")]), pages=True)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_damaged_pages_are_told_or_left_to_sqlite_and_never_crash(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = database(tmp_path_factory.mktemp("pages") / "x.db", [(i * 1000, 0.5) for i in range(400)])
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(4096, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)

    try:
        read(path, pages=True)
    except (DatabaseError, sqlite3.Error, UnicodeDecodeError) as error:
        assert str(error)
