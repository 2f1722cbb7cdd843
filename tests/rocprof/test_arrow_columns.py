"""Columns read with Arrow equal those of the standard library, and types that Arrow cannot represent are refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.rocprof import columns
from rocm_perf_lab.rocprof.arrow_columns import ArrowColumns, Unsuited
from rocm_perf_lab.rocprof.columns import NULL, Tables
from rocm_perf_lab.rocprof.dialects import DatabaseError, uri_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Row = tuple[int | None, float | None]

GUID = "018bcfe5-6800-7f97-8f82-19ca860d1927"
TABLE = "rocpd_thing_" + GUID.replace("-", "_")
WIDTHS = st.one_of([st.integers(-(2**bits), 2**bits - 1) for bits in (1, 7, 15, 23, 31, 47, 63)])
NUMBERS = WIDTHS.filter(lambda value: value != NULL)


@pytest.fixture(autouse=True)
def _arrow_for_small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_ARROW_PAYS_FROM_BYTES", 0)


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


def read(path: Path, *, arrow: bool) -> list[tuple[str, list[int], list[int], list[float]]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = Tables(connection, path)
        if arrow:
            tables.use_arrow(uri_of(path))
        found = tables.read("rocpd_thing", ("id",), reals=("b",), optional={"a": -5})
        return [(guid, *(one[name].tolist() for name in ("id", "a", "b"))) for guid, one in found]


def alone(path: Path) -> tuple[str, dict[str, list[float]]]:
    guid, found = ArrowColumns(uri_of(path)).read(TABLE, ("id", "a"), ("b",), null=NULL)
    return guid, {name: values.tolist() for name, values in found.items()}


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(NUMBERS, st.one_of(st.floats(allow_nan=False), st.integers(-(2**50), 2**50))), max_size=60))
def test_integers_of_every_width_are_read(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = database(tmp_path_factory.mktemp("arrow") / "x.db", rows)

    guid, found = alone(path)

    assert guid == (GUID if rows else "")
    assert found["id"] == list(range(1, len(rows) + 1))
    assert found["a"] == [value for value, _ in rows]
    assert found["b"] == [float(value or 0) for _, value in rows]


@pytest.mark.parametrize("page_bytes", [512, 4096, 65536])
def test_a_large_table_matches_the_query(tmp_path: Path, page_bytes: int) -> None:
    random = np.random.default_rng(page_bytes)
    values = random.integers(-(2**40), 2**40, 20_000) >> random.integers(0, 41, 20_000)
    rows = [(None if i % 97 == 0 else int(v), None if i % 89 == 0 else float(v) / 3) for i, v in enumerate(values)]
    path = database(tmp_path / "x.db", rows, setup=f"PRAGMA page_size = {page_bytes};")

    np.testing.assert_equal(read(path, arrow=True), read(path, arrow=False))
    assert len(alone(path)[1]["a"]) == 20_000


def test_removed_rows_leave_gaps_in_the_ids(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", [(i, 0.5) for i in range(3000)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'DELETE FROM "{TABLE}" WHERE id % 3 = 0 OR id BETWEEN 500 AND 1500')

    assert alone(path)[1]["id"] == [i for i in range(1, 3001) if i % 3 and not 500 <= i <= 1500]


def test_rows_older_than_a_new_column_have_its_default(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", [(1, 2.0)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'ALTER TABLE "{TABLE}" ADD COLUMN d INTEGER NOT NULL DEFAULT 7')
    with closing(sqlite3.connect(path)) as connection:
        tables = Tables(connection, path)
        tables.use_arrow(uri_of(path))
        ((_, found),) = tables.read("rocpd_thing", ("id", "d"))

    assert found["d"].tolist() == [7]


def test_several_guids_in_one_table_are_kept_apart(tmp_path: Path) -> None:
    other = GUID.replace("0", "1")
    path = database(tmp_path / "x.db", [(i, 0.0) for i in range(4)], guids=(GUID, other))

    assert [(guid, a) for guid, _, a, _ in read(path, arrow=True)] == [(GUID, [0, 2]), (other, [1, 3])]


def test_a_text_where_a_number_belongs_is_refused(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", [("soon", 1.0)])

    with pytest.raises(Unsuited):
        alone(path)
    with pytest.raises(DatabaseError, match="not an integer"):
        read(path, arrow=True)


def test_a_text_where_a_real_belongs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="not an integer"):
        read(database(tmp_path / "x.db", [(1, "much")]), arrow=True)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_damaged_pages_are_reported(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = database(tmp_path_factory.mktemp("arrow") / "x.db", [(i * 1000, 0.5) for i in range(400)])
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(4096, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)

    try:
        read(path, arrow=True)
    except (DatabaseError, sqlite3.Error, UnicodeDecodeError) as error:
        assert str(error)


def test_a_fraction_in_an_integer_column_is_refused(tmp_path: Path) -> None:
    for name, row in (("first.db", 0), ("last.db", 39_999)):
        path = database(tmp_path / name, [(1.5 if i == row else i, 0.5) for i in range(40_000)])

        for arrow in (True, False):
            with pytest.raises(DatabaseError, match="not an integer"):
                read(path, arrow=arrow)


def test_a_column_of_nulls_is_filled(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", [(None, None)] * 3)

    ((_, ids, a, b),) = read(path, arrow=True)

    assert (ids, a) == ([1, 2, 3], [-5] * 3)
    assert np.isnan(b).all()


def test_reading_does_not_import_pandas_which_takes_longer_than_a_million_rows(tmp_path: Path) -> None:
    path = database(tmp_path / "run.db", [(1, 2.5), (None, None)])
    program = (
        "import sys; from rocm_perf_lab.rocprof.arrow_columns import ArrowColumns;"
        "ArrowColumns(sys.argv[1]).read(sys.argv[2], ('id', 'a'), ('b',), null=-7);"
        "print('pandas' in sys.modules)"
    )

    said = subprocess.run([sys.executable, "-c", program, uri_of(path), TABLE], check=True, capture_output=True, text=True)

    assert said.stdout == "False\n"
