"""The rocpd database schema as data: SQL text, table names, identifiers.

A database is one SQLite file per process and pass. Its tables have the suffix `_<guid>`, and views without suffix provide
their plain names. The SQL is in `sql/`; layout and names are those of rocprofiler-sdk 1.0 (ROCm 7.0).
"""

from __future__ import annotations

import hashlib
import re
import uuid
from pathlib import Path

SCHEMA_VERSION = "3"
KNOWN_MAJOR_VERSIONS = frozenset({"3", "4"})
PROVENANCE_KEY = "rocm_perf_lab"
"""Key in an agent's extdata under which a device of rocm-perf-lab identifies itself; rocprofv3 never writes it."""

_SQL = Path(__file__).parent / "sql"
_CREATED_TABLE = re.compile(r'CREATE TABLE "(rocpd_\w+)\{suffix\}"')


def table_names() -> tuple[str, ...]:
    """Return every base table, without suffix, in order of creation."""
    return tuple(_CREATED_TABLE.findall(_tables_sql()))


def suffix_of(guid: str) -> str:
    """Return the table suffix of a database: `_0198a9b2_...`."""
    return "_" + guid.replace("-", "_")


def creation_sql(guid: str) -> str:
    """Return the whole schema of one database: suffixed tables, plain views of them, and the views that tools query."""
    suffix = suffix_of(guid)
    plain = "\n".join(f'CREATE VIEW {name} AS SELECT * FROM "{name}{suffix}";' for name in table_names())
    views = (_SQL / "views.sql").read_text()
    return "\n".join([_tables_sql().format(suffix=suffix, guid=guid), plain, views])


def make_guid(unix_ms: int, seed: str) -> str:
    """Return a UUIDv7 (RFC 9562) of that time with random bits from `seed`: equal arguments return an equal guid."""
    random_bits = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:10])
    value = (unix_ms & ((1 << 48) - 1)) << 80 | random_bits
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def _tables_sql() -> str:
    return (_SQL / "tables.sql").read_text()
