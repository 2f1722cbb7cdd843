"""SQLite without waits for the disk: tests commit thousands of times, and their data need not survive a power failure."""

from __future__ import annotations

import sqlite3


def skip_syncs(connection: object, _record: object) -> None:
    """Let a new connection of SQLAlchemy leave the time of writing to the system."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=OFF")
