"""PC samples in rocprofv3's CSV: `*_pc_sampling_host_trap.csv` and `*_pc_sampling_stochastic.csv`.

The tables have the text and the source line of the instruction, but not its address, and the id of the dispatch, whose kernel
`*_kernel_trace.csv` next to it names.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.csv_columns import CsvError
from rocm_perf_lab.rocprof.csv_tables import content_of
from rocm_perf_lab.rocprof.pc_sample_rows import UNKNOWN, InstructionKey, SampleRows, reason_number
from rocm_perf_lab.rocprof.pc_samples import PcSampling, SamplingMethod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_NAME = re.compile(r"^(?P<prefix>.*?)pc_sampling_(?P<method>host_trap|stochastic)\.csv(?P<packed>\.gz)?$")
_NEEDED = ("exec_mask", "dispatch_id", "instruction", "instruction_comment")
_STOCHASTIC = "wave_issued_instruction"
_UNKNOWN_CODE = "unrecognized code object"
_TRUE = {"1": 1, "true": 1, "0": 0, "false": 0}


def is_samples_csv(path: Path) -> bool:
    """Return True if the name, or else the header, is that of a table of PC samples."""
    if _NAME.match(path.name):
        return True
    if not path.name.endswith((".csv", ".csv.gz")) or path.name.endswith(".gz"):
        return False
    try:
        with path.open("rb") as source:
            header = source.readline(1 << 12).decode("utf-8-sig", errors="replace").lower()
    except OSError:
        return False
    return all(name in header for name in ("exec_mask", "instruction_comment"))


def read_csv(path: Path) -> PcSampling:
    """Return the samples of one table.

    Raises:
        CsvError: The file cannot be read, or lacks a column.
    """
    rows = _rows(path)
    header = [name.strip().lower() for name in next(rows, [])]
    if missing := [name for name in _NEEDED if name not in header]:
        raise CsvError(
            f"no column {', '.join(missing)}; the file starts with: {', '.join(header[:6]) or 'nothing'}",
            where=str(path),
            hint="pass the file as rocprofv3 wrote it",
        )
    place = {name: number for number, name in enumerate(header)}
    samples = SampleRows()
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        try:
            _add(samples, row, place)
        except (ValueError, IndexError) as error:
            raise CsvError(
                f"row {line} is not a PC sample: {error}; is the file truncated?", where=str(path), hint="collect it again"
            ) from error
    method = SamplingMethod.STOCHASTIC if _STOCHASTIC in place else SamplingMethod.HOST_TRAP
    return PcSampling(path, method, samples.kernels(_kernel_names(path)), samples.undecoded)


def _add(samples: SampleRows, row: list[str], place: Mapping[str, int]) -> None:
    text, source = row[place["instruction"]].strip(), row[place["instruction_comment"]].strip()
    if not text and source.lower().startswith(_UNKNOWN_CODE):
        samples.undecoded += 1
        return
    samples.add(
        InstructionKey(None, None, text, source),
        int(row[place["dispatch_id"]]),
        exec_mask=int(row[place["exec_mask"]], 0),
        issued=_issued(row[place[_STOCHASTIC]]) if _STOCHASTIC in place else UNKNOWN,
        reason=reason_number(row[place["stall_reason"]]) if "stall_reason" in place else UNKNOWN,
        waves=int(row[place["wave_count"]] or UNKNOWN) if "wave_count" in place else UNKNOWN,
    )


def _issued(text: str) -> int:
    if text.strip().lower() not in _TRUE:
        raise ValueError(f"Wave_Issued_Instruction is {text[:20]!r}, not 0 or 1")
    return _TRUE[text.strip().lower()]


def _rows(path: Path) -> Iterator[list[str]]:
    text = content_of(path).decode("utf-8-sig", errors="replace")
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise CsvError(f"the file is not CSV: {error}", where=str(path), hint="collect it again") from error


def _kernel_names(path: Path) -> dict[int, str]:
    """Return the kernel of each dispatch from the kernel trace next to the samples; empty without one."""
    match = _NAME.match(path.name)
    if match is None:
        return {}
    beside = [path.with_name(f"{match['prefix']}kernel_trace.csv{suffix}") for suffix in ("", ".gz")]
    trace = next((file for file in beside if file.is_file()), None)
    if trace is None:
        return {}
    rows = _rows(trace)
    header = [name.strip().lower() for name in next(rows, [])]
    if "dispatch_id" not in header or "kernel_name" not in header:
        return {}
    dispatch, name = header.index("dispatch_id"), header.index("kernel_name")
    return {int(row[dispatch]): row[name] for row in rows if len(row) > max(dispatch, name) and row[dispatch].isdecimal()}
