"""PC samples in rocpd databases: `rocpd_gpu_pc_sample` (schema 3.0.4 and later), and `rocpd_pc_sampling` of prereleases.

The state of the arbiter is in packed records (`rocpd_blob_event`), whose layout the database describes itself.
"""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof.dialects import UNREADABLE, DatabaseError, database_error, names_in, open_read_only
from rocm_perf_lab.rocprof.pc_sample_rows import UNKNOWN, InstructionKey, SampleRows, pipe_bits, reason_number
from rocm_perf_lab.rocprof.pc_samples import PcSampling, SamplingMethod

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_TABLES = ("rocpd_gpu_pc_sample", "rocpd_pc_sampling")
_FORMATS = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i",
            (8, False): "Q", (8, True): "q"}  # fmt: skip
_PIPE_FIELDS = ("arb_state_issue_", "arb_state_stall_")
_NOT_UNDERSTOOD = (ValueError, TypeError, OverflowError, struct.error)


def has_sample_tables(tables: Iterable[str]) -> bool:
    """Return True if the tables of a database include one for PC samples, which may be empty."""
    return any(name.startswith(_TABLES) for name in tables)


def read_rocpd(path: Path) -> list[PcSampling]:
    """Return the samples of each method in a database; empty if it has none.

    Raises:
        DatabaseError: The database is damaged.
    """
    with closing(open_read_only(path)) as connection:
        try:
            found: dict[SamplingMethod, SampleRows] = {}
            names: dict[int, str] = {}
            tables = names_in(connection)
            for table in sorted(tables):
                base = next((one for one in _TABLES if table.startswith(one)), None)
                if base is None or (table == base and any(other.startswith(f"{base}_") and other != table for other in tables)):
                    continue  # the plain name is a view of the others
                if not _is_table(connection, table):
                    continue
                suffix = table.removeprefix(base)
                names |= _kernel_names(connection, tables, suffix)
                _Table(connection, tables, table, suffix).read(found)
        except UNREADABLE as error:
            raise database_error(path, error) from error
        except _NOT_UNDERSTOOD as error:
            raise DatabaseError(f"a PC sample has an unexpected value: {error}", where=str(path)) from error
    return [
        PcSampling(path, method, samples.kernels(names), samples.undecoded) for method, samples in found.items() if len(samples)
    ]


def _is_table(connection: sqlite3.Connection, name: str) -> bool:
    row = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return row is not None and row[0] == "table"


def _columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(str(row[1]) for row in connection.execute(f"PRAGMA table_info({_quoted(table)})"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _kernel_names(connection: sqlite3.Connection, tables: frozenset[str], suffix: str) -> dict[int, str]:
    """Return the mangled name of the kernel of each dispatch; empty if dispatches were not traced."""
    dispatches, symbols = f"rocpd_kernel_dispatch{suffix}", f"rocpd_info_kernel_symbol{suffix}"
    if not {dispatches, symbols} <= tables:
        return {}
    rows = connection.execute(
        f"SELECT d.dispatch_id, k.kernel_name FROM {_quoted(dispatches)} d JOIN {_quoted(symbols)} k ON k.id = d.kernel_id"
    )
    return {int(dispatch): str(name).removesuffix(".kd") for dispatch, name in rows if isinstance(dispatch, int) and name}


class _Table:
    """Table of samples, with its related tables."""

    def __init__(self, connection: sqlite3.Connection, tables: frozenset[str], name: str, suffix: str) -> None:
        self._connection = connection
        self._tables = tables
        self._name = name
        self._suffix = suffix
        self._present = _columns(connection, name)

    def read(self, found: dict[SamplingMethod, SampleRows]) -> None:
        """Add the samples to those of their method."""
        texts = self._texts()
        for row in self._rows():
            method = self._method(row)
            samples = found.setdefault(method, SampleRows())
            code_object, address = row.get("code_object_id"), row.get("code_object_offset")
            text, source = row.get("instruction"), row.get("instruction_comment")
            if text is None and code_object is not None:
                text, source = texts.get((code_object, address), ("", ""))
            if not text and not code_object:
                samples.undecoded += 1
                continue
            key = InstructionKey(_optional(code_object), _optional(address), str(text or "").strip(), str(source or ""))
            mask = row.get("exec_mask")
            samples.add(
                key,
                int(row.get("dispatch_id") or 0),
                exec_mask=_mask(mask) if mask is not None else None,
                **_state(row, method),
            )

    def _method(self, row: Mapping[str, Any]) -> SamplingMethod:
        stated = {str(method): method for method in SamplingMethod}.get(str(row.get("method") or ""))
        if stated is not None:
            return stated
        return (
            SamplingMethod.STOCHASTIC
            if _first(row, "wave_issued", "wave_issued_instruction") is not None
            else SamplingMethod.HOST_TRAP
        )

    def _rows(self) -> Iterator[dict[str, Any]]:
        packed = f"rocpd_blob_event{self._suffix}"
        layouts = self._layouts()
        if not layouts or packed not in self._tables or "event_id" not in self._present:
            for row in self._connection.execute(f"SELECT * FROM {_quoted(self._name)}"):
                yield dict(zip(self._present, row, strict=True))
            return
        has_schema = "schema_id" in _columns(self._connection, packed)
        schema = "b.schema_id" if has_schema else "NULL"
        for *values, number, blob in self._connection.execute(
            f"SELECT s.*, {schema}, b.blob FROM {_quoted(self._name)} s LEFT JOIN {_quoted(packed)} b ON b.event_id = s.event_id"
        ):
            row = dict(zip(self._present, values, strict=True))
            layout = layouts.get(number) if number is not None else next(iter(layouts.values()))
            yield row | (_unpacked(blob, layout) if isinstance(blob, bytes) and layout else {})

    def _layouts(self) -> dict[int, dict[str, struct.Struct | int]]:
        """Return, by schema of packed records, the offset and format of the arbiter's fields."""
        schemas, fields = f"rocpd_info_blob_schema{self._suffix}", f"rocpd_info_blob_field{self._suffix}"
        if not {schemas, fields} <= self._tables:
            return {}
        found: dict[int, dict[str, Any]] = {}
        orders = dict(self._connection.execute(f"SELECT id, byte_order FROM {_quoted(schemas)}").fetchall())
        rows = self._connection.execute(f"SELECT schema_id, name, offset, size, is_signed FROM {_quoted(fields)}")
        for schema, name, offset, size, is_signed in rows:
            code = _FORMATS.get((size, bool(is_signed)))
            if schema in orders and code and str(name).startswith(_PIPE_FIELDS) and isinstance(offset, int) and offset >= 0:
                order = ">" if str(orders[schema] or "little").startswith("b") else "<"
                found.setdefault(schema, {})[str(name)] = (offset, struct.Struct(order + code))
        return found

    def _texts(self) -> dict[tuple[Any, Any], tuple[str, str]]:
        """Return text and source line by code object and address, if rocprofv3 stored them."""
        table = f"rocpd_disassembly_data{self._suffix}"
        if table not in self._tables:
            return {}
        wanted = ("code_object_id", "code_object_offset", "instruction", "comment")
        if not set(wanted) <= set(_columns(self._connection, table)):
            return {}
        rows = self._connection.execute(f"SELECT {', '.join(wanted)} FROM {_quoted(table)}")
        return {(code_object, address): (str(text or ""), str(comment or "")) for code_object, address, text, comment in rows}


def _unpacked(blob: bytes, layout: Mapping[str, Any]) -> dict[str, int]:
    fields = {}
    for name, (offset, form) in layout.items():
        if offset + form.size <= len(blob):
            (fields[name],) = form.unpack_from(blob, offset)
    return fields


def _state(row: Mapping[str, Any], method: SamplingMethod) -> dict[str, int]:
    """Return the arguments of :meth:`SampleRows.add` that only stochastic samples have."""
    if method is SamplingMethod.HOST_TRAP:
        return {}
    reason = row.get("stall_reason")
    issues, stalls = (pipe_bits(row, prefix) for prefix in _PIPE_FIELDS)
    return {
        "issued": int(bool(_first(row, "wave_issued", "wave_issued_instruction"))),
        "reason": reason_number(reason) if isinstance(reason, str) and not reason.isdecimal() else int(reason or 0),
        "waves": int(row.get("wave_count") or UNKNOWN),
        "accepted": issues & ~max(stalls, 0) if issues >= 0 else UNKNOWN,
        "refused": stalls,
    }


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _mask(value: Any) -> int:
    """Return an execution mask, which is a number or a text like `0xffff`."""
    return int(value, 0) if isinstance(value, str) else int(value)


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
