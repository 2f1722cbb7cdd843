"""SQLite without waits for the disk: tests commit thousands of times, and their data need not survive a power failure."""

from __future__ import annotations

import sqlite3
from contextlib import suppress


def skip_syncs(connection: object, _record: object) -> None:
    """Let a new connection of SQLAlchemy leave the time of writing to the system."""
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.DatabaseError):  # of a file that is not a database: a later statement fails
            connection.execute("PRAGMA synchronous=OFF")
