"""Random damage to files: bytes, values of JSON documents, cells of tables and of SQLite databases."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from pathlib import Path

VALUES: tuple[Any, ...] = (
    0, 1, -1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", " ", "0", "-1", "0x10", "1e400", "1.5e18", "nan", "null", "a,b", 'a"b', "\0", "é", "x" * 5000, None, True, [], {}, [[]],
    {"handle": -1}, [1, 2, 3],
)  # fmt: skip
_MOST_NODES = 100_000


def mutate_bytes(content: bytes, chance: random.Random) -> bytes:
    """Flip, remove, repeat, insert or overwrite bytes at one to four places."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        length = min(chance.choice((1, 2, 4, 16, 64, 512)), len(data) - at)
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length] * chance.randint(1, 3)
            case 3:
                data[at:at] = chance.randbytes(chance.choice((1, 4, 16)))
            case 4:
                data[at : at + length] = chance.choice((b"\0", b"\xff")) * length
            case _:
                del data[at:]
    return bytes(data)


def mutate_text(content: bytes, chance: random.Random) -> bytes:
    """Damage JSON by value, CSV by cell, and either by bytes in a third of the cases."""
    if chance.random() < 1 / 3:
        return mutate_bytes(content, chance)
    if content.lstrip()[:1] in (b"{", b"["):
        return mutate_json(content, chance)
    return mutate_csv(content, chance)


def mutate_json(content: bytes, chance: random.Random) -> bytes:
    """Replace, remove or repeat one to three values."""
    document = json.loads(content)
    for _ in range(chance.randint(1, 3)):
        places = _places(document)
        if not places:
            break
        holder, key = chance.choice(places)
        match chance.randrange(4):
            case 0 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 1:
                del holder[key]
            case 2 if isinstance(holder, dict):
                holder[f"{key}x"] = holder.pop(key)
            case _:
                holder[key] = chance.choice(VALUES)
    return json.dumps(document).encode()


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return container and key of values; containers of many values contribute a few, so that all levels are hit."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting and len(found) < _MOST_NODES:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        found += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys if isinstance(holder[key], (dict, list))]
    return found


def mutate_csv(content: bytes, chance: random.Random) -> bytes:
    """Replace cells, remove or repeat cells, rows and columns."""
    rows = list(csv.reader(io.StringIO(content.decode(errors="replace"), newline="")))
    for _ in range(chance.randint(1, 3)):
        if not rows:
            break
        line = chance.randrange(len(rows))
        if not rows[line]:
            continue
        cell = chance.randrange(len(rows[line]))
        match chance.randrange(7):
            case 0:
                del rows[line]
            case 1:
                rows.insert(line, list(rows[line]))
            case 2:
                for row in rows:
                    del row[cell : cell + 1]
            case 3:
                del rows[line][cell]
            case 4:
                rows[line].append(rows[line][cell])
            case _:
                rows[line][cell] = str(chance.choice(VALUES))
    target = io.StringIO(newline="")
    csv.writer(target).writerows(rows)
    return target.getvalue().encode(errors="replace")


def mutate_database(path: Path, chance: random.Random) -> None:
    """Replace cells, and remove or rename columns, tables and views of an SQLite database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        rows = connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        tables = [name for name, kind in rows if kind == "table" and not name.startswith("sqlite_")]
        filled = [name for name in tables if connection.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")').fetchone()[0]]
        for _ in range(chance.randint(1, 4)):
            try:
                _damage(connection, chance, filled if chance.random() < 2 / 3 else tables)
            except sqlite3.Error:
                continue


def _damage(connection: sqlite3.Connection, chance: random.Random, tables: list[str]) -> None:
    table = chance.choice(tables)
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    if not columns:
        return
    column = chance.choice(columns)
    match chance.randrange(12):
        case 0:
            connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
        case 1:
            connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{column}x"')
        case 2:
            connection.execute(f'DROP TABLE "{table}"')
        case 3:
            connection.execute(f'DELETE FROM "{table}"')
        case 4:
            connection.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" LIMIT 1')
        case _:
            value = chance.choice([one for one in VALUES if not isinstance(one, (list, dict))] + [b"\0\xff"])
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                value = float(value)
            some = "" if chance.random() < 1 / 2 else f' WHERE rowid = (SELECT MAX(rowid) FROM "{table}")'
            connection.execute(f'UPDATE "{table}" SET "{column}" = ?{some}', (value,))
