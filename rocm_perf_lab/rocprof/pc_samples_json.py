"""PC samples in rocprofv3's JSON: `buffer_records.pc_sample_host_trap` and `pc_sample_stochastic`.

Each record refers to a text and a comment (the source line) of `strings` by `inst_index`; -1 marks code that rocprofv3 could not
identify. Names of kernels come from the dispatches, if they were traced too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof.json_document import Rows
from rocm_perf_lab.rocprof.json_files import ROOT, opened
from rocm_perf_lab.rocprof.json_stream import JsonError, JsonStream
from rocm_perf_lab.rocprof.pc_sample_rows import (
    UNKNOWN,
    InstructionKey,
    SampleRows,
    pipe_bits,
    reason_number,
)
from rocm_perf_lab.rocprof.pc_samples import PcSampling, SamplingMethod

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LISTS = {f"pc_sample_{method.value}": method for method in SamplingMethod}
_ANY_RECORD = re.compile(rb'"pc_sample_(?:host_trap|stochastic)"\s*:\s*\[\s*\{')
_BLOCK = 1 << 22
_LONGEST_MARK = 256
_COLUMNS = ("text", "code_object", "address", "dispatch", "mask", "issued", "reason", "waves", "accepted", "refused")
_SIGNED_MASK = (1 << 64) - 1


def has_samples(path: Path) -> bool:
    """Return True if a JSON file contains PC samples, without parsing it.

    Raises:
        JsonError: The file cannot be read or decompressed.
    """
    rest = b""
    with opened(path) as source:
        while block := source.read(_BLOCK):
            if _ANY_RECORD.search(rest + block):
                return True
            rest = block[-_LONGEST_MARK:]
    return False


def read_json(path: Path) -> list[PcSampling]:
    """Return the samples of each method of each process in a file.

    Raises:
        JsonError: The file is not JSON of rocprofv3, or is damaged.
    """
    found: list[PcSampling] = []
    with opened(path) as source:
        stream = JsonStream(source, path)
        for key in stream.members():
            if key != ROOT:
                stream.skip()
            elif stream.peek() == "[":
                for _ in stream.entries():
                    found += _Process(path).read(stream)
            else:
                found += _Process(path).read(stream)
    return found


class _Process:
    """Samples of one process; texts may follow the records that refer to them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: list[str] = []
        self._comments: list[str] = []
        self._kernel_names: dict[int, str] = {}
        self._kernel_of: dict[int, int] = {}
        self._records: dict[SamplingMethod, Rows] = {}

    def read(self, stream: JsonStream) -> list[PcSampling]:
        """Return the samples by method."""
        for key in stream.members():
            if key == "strings":
                self._read_strings(stream)
            elif key == "kernel_symbols":
                for position, symbol in enumerate(stream.values()):
                    self._take_symbol(position, symbol)
            elif key == "buffer_records":
                self._read_records(stream)
            else:
                stream.skip()
        names = {
            dispatch: self._kernel_names[kernel] for dispatch, kernel in self._kernel_of.items() if kernel in self._kernel_names
        }
        return [self._sampling(method, rows, names) for method, rows in self._records.items() if len(rows)]

    def _read_strings(self, stream: JsonStream) -> None:
        for key in stream.members():
            if key == "pc_sample_instructions":
                self._texts = [str(text) for text in stream.values()]
            elif key == "pc_sample_comments":
                self._comments = [str(text) for text in stream.values()]
            else:
                stream.skip()

    def _take_symbol(self, position: int, symbol: Any) -> None:
        if not isinstance(symbol, dict):
            return
        name = symbol.get("kernel_name") or symbol.get("formatted_kernel_name")
        number = symbol.get("kernel_id") or position
        if name and isinstance(number, int):
            self._kernel_names[number] = str(name).removesuffix(".kd")

    def _read_records(self, stream: JsonStream) -> None:
        for key in stream.members():
            if key in _LISTS:
                rows = self._records.setdefault(_LISTS[key], Rows(_COLUMNS))
                for record in stream.values():
                    self._understood(key, record, rows)
            elif key in ("kernel_dispatch", "kernel_dispatches"):
                for record in stream.values():
                    self._take_dispatch(record)
            else:
                stream.skip()

    def _take_dispatch(self, record: Any) -> None:
        info = record.get("dispatch_info") if isinstance(record, dict) else None
        if isinstance(info, dict):
            dispatch, kernel = info.get("dispatch_id"), info.get("kernel_id")
            if isinstance(dispatch, int) and isinstance(kernel, int):
                self._kernel_of[dispatch] = kernel

    def _understood(self, key: str, record: Any, rows: Rows) -> None:
        try:
            rows.add(_row(record))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            why = f"no {error.args[0]}" if isinstance(error, KeyError) else str(error)
            raise JsonError(
                f"a record of {key} differs from rocprofv3's format: {why}: {str(record)[:80]}",
                where=str(self._path),
                hint="collect it again; if it is of a newer ROCm, update rocm-perf-lab",
            ) from error

    def _sampling(self, method: SamplingMethod, rows: Rows, names: Mapping[int, str]) -> PcSampling:
        samples = SampleRows()
        keys: dict[tuple[int, int, int], InstructionKey | None] = {}
        columns = rows.taken()
        for text, code_object, address, dispatch, mask, issued, reason, waves, accepted, refused in zip(
            *(column.tolist() for column in columns.values()), strict=True
        ):
            place = (text, code_object, address)
            if place not in keys:
                keys[place] = self._key(text, code_object, address)
            key = keys[place]
            if key is None:
                samples.undecoded += 1
                continue
            samples.add(
                key,
                dispatch,
                exec_mask=mask & _SIGNED_MASK,
                issued=issued,
                reason=reason,
                waves=waves,
                accepted=accepted,
                refused=refused,
            )
        return PcSampling(self._path, method, samples.kernels(names), samples.undecoded)

    def _key(self, text: int, code_object: int, address: int) -> InstructionKey | None:
        """Return the instruction; None for code that rocprofv3 could not identify."""
        if text < 0 and not code_object:
            return None
        known = 0 <= text < len(self._texts)
        comment = self._comments[text] if 0 <= text < len(self._comments) else ""
        return InstructionKey(code_object, address, self._texts[text].strip() if known else "", comment)


def _row(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Return one row of `_COLUMNS`."""
    record = entry.get("record", entry)
    counter = record["pc"]
    snapshot = record.get("snapshot") or {}
    is_stochastic = "wave_issued" in record
    reason = snapshot.get("stall_reason", UNKNOWN)
    issues, stalls = pipe_bits(snapshot, "arb_state_issue_"), pipe_bits(snapshot, "arb_state_stall_")
    return (
        _integer(entry.get("inst_index", UNKNOWN)),
        _integer(counter["code_object_id"]),
        _integer(counter["code_object_offset"]),
        _integer(record.get("dispatch_id", 0)),
        _integer(record["exec_mask"]),
        int(bool(record["wave_issued"])) if is_stochastic else UNKNOWN,
        reason_number(reason) if isinstance(reason, str) else _integer(reason),
        _integer(record.get("wave_cnt", UNKNOWN)) if is_stochastic else UNKNOWN,
        issues & ~max(stalls, 0) if issues >= 0 else UNKNOWN,
        stalls,
    )


def _integer(value: Any) -> int:
    """Return a number, also from a text like `0xffff`."""
    return int(value, 0) if isinstance(value, str) else int(value)
