"""Reader for `code.json` of a decoded thread trace: every instruction with its totals over all traced wavefronts.

Columns are found by the names in the file's header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof.att.content import AttError, load
from rocm_perf_lab.rocprof.att.model import InstructionRow, KernelLabel, PcSamples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_COLUMNS = (
    "ISA", "_", "LineNumber", "Source", "Codeobj", "Vaddr", "Hit", "Latency", "Stall", "Idle",
)  # fmt: skip
"""Order of the columns in files without header (version 2)."""
_OTHER_NAMES = {
    "Hitcount": "Hit", "CodeObj": "Codeobj", "PC_Issued": "Issued", "PC_Stalled": "Stalled", "Stall_Reasons": "NotIssuedReasons",
}  # fmt: skip
"""Alternative column names."""
_LIMIT = 1 << 56


@dataclass(frozen=True)
class Code:
    """Rows and kernel labels in code order."""

    rows: tuple[InstructionRow, ...]
    kernels: tuple[KernelLabel, ...]
    has_cycles: bool
    version: str
    lacks: tuple[str, ...]
    """Cycle columns missing in the file."""
    notes: tuple[str, ...]


def read_code(path: Path) -> Code:
    """Read the code.

    Raises:
        AttError: The file does not exist, or rows do not match their header.
    """
    content = load(path)
    if not isinstance(content, dict) or "code" not in content:
        raise AttError("code.json has no key `code`", where=str(path.parent))
    header = content.get("header")
    names = header.split(",") if isinstance(header, str) else header if isinstance(header, list) else _COLUMNS
    names = [_OTHER_NAMES.get(name, name) for name in (str(one).strip().strip("[]") for one in names)]
    try:
        return _code(names, content["code"] or (), str(content.get("version", "")))
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise AttError(
            f"code.json has a row that does not fit its header: {error!r}",
            where=str(path.parent),
            hint="a newer format, or a damaged file: decode the trace again",
        ) from error


def _code(names: Sequence[str], entries: Sequence[Sequence[Any]], version: str) -> Code:
    notes = []
    if not entries:
        notes.append("the decoder found no code: either the code object was not captured or no wavefront was traced")
    text_at = names.index("ISA") if "ISA" in names else 0
    width = min((len(entry) for entry in entries if not _is_label(entry, text_at)), default=len(names))
    at = {name: place for place, name in enumerate(names) if place < width}
    if missing := [name for name in ("ISA", "LineNumber", "Hit") if name not in at]:
        raise KeyError(*missing)
    if absent := tuple(name for name in ("Latency", "Stall", "Idle") if name not in at):
        notes.append(f"code.json (version {version or 'unknown'}) has no column {', '.join(absent)}")
    rows: list[InstructionRow] = []
    kernels: list[KernelLabel] = []
    for entry in entries:
        text = str(entry[at["ISA"]] or "")
        source = str(entry[at["Source"]] or "") if at.get("Source", len(entry)) < len(entry) else ""
        line, code_object, address = (_number(entry, at, name) for name in ("LineNumber", "Codeobj", "Vaddr"))
        if _is_label(entry, text_at):
            kernels.append(KernelLabel(line, text[1:].strip(), source, code_object, address))
            continue
        hits, latency, stall, idle = (_number(entry, at, name) for name in ("Hit", "Latency", "Stall", "Idle"))
        samples = _samples(entry, at) if "Issued" in at and "Stalled" in at else None
        rows.append(InstructionRow(line, text, source, code_object, address, hits, latency, stall, idle, samples))
    rows.sort(key=lambda row: row.line)
    kernels.sort(key=lambda label: label.line)
    return Code(tuple(rows), tuple(kernels), "Latency" in at, version, absent, tuple(notes))


def _is_label(entry: Sequence[Any], text_at: int) -> bool:
    return len(entry) > text_at and str(entry[text_at]).startswith(";")


def _number(entry: Sequence[Any], at: Mapping[str, int], name: str) -> int:
    return _counted(entry[at[name]]) if at.get(name, len(entry)) < len(entry) else 0


def _counted(value: Any) -> int:
    """Return a number of a row; sums of such numbers must fit into 64 bits."""
    number = int(value or 0)
    if abs(number) >= _LIMIT:
        raise OverflowError(f"{number} is too large")
    return number


def _samples(entry: Sequence[Any], at: Mapping[str, int]) -> PcSamples:
    reasons = entry[at["NotIssuedReasons"]] if "NotIssuedReasons" in at else None
    return PcSamples(
        service=str(entry[at["ServiceType"]]) if "ServiceType" in at else "",
        issued=_counted(entry[at["Issued"]]),
        stalled=_counted(entry[at["Stalled"]]),
        reasons=tuple(_counted(count) for count in reasons) if isinstance(reasons, list) else (),
    )
