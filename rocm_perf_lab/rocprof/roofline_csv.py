"""rocprofiler-compute's roofline.csv: measured peaks of a GPU.

One row per device; bandwidths in GB/s, rates in GFLOP/s. A column is the median of the repetitions; columns that end in Low or
High are ignored, and a value of 0 means that the peak was not measured.
"""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.target.peaks import MeasuredPeaks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.target.peaks import MemoryLevel, Unit

_LARGEST_BYTES = 1 << 20
_LEVELS: Mapping[str, MemoryLevel] = {
    "LDSBw": "lds",
    "L1Bw": "vector_l1",
    "L2Bw": "l2",
    "MALLBw": "mall",
    "HBMBw": "dram",
}
_VECTOR = {"FP16Flops": "f16", "BF16Flops": "bf16", "FP32Flops": "f32", "FP64Flops": "f64", "I8Ops": "i8"}
_MATRIX = {
    "MFMAF8Flops": "f8",
    "MFMAF16Flops": "f16",
    "MFMABF16Flops": "bf16",
    "MFMAF32Flops": "f32",
    "MFMAF64Flops": "f64",
    "MFMAI8Ops": "i8",
}
_DEVICE_COLUMNS = ("device", "devID", "gpu_id", "GPU_ID")


class RooflineCsvError(LabError):
    """A file that is not a roofline.csv."""


def read_roofline_csv(path: Path, device: int = 0) -> MeasuredPeaks:
    """Return the peaks of one device.

    Raises:
        RooflineCsvError: The file cannot be read, has no known column, or has no row for the device.
    """
    rows = _rows(path)
    row = next((row for row in rows if _device(row) == device), None)
    if row is None:
        found = ", ".join(str(_device(row)) for row in rows) or "none"
        raise RooflineCsvError(f"there is no device {device}", where=str(path), hint=f"devices in the file: {found}")
    memory = {level: _value(row, column, path) for column, level in _LEVELS.items()}
    units: tuple[tuple[Unit, dict[str, str]], ...] = (("vector", _VECTOR), ("matrix", _MATRIX))
    compute = {(unit, dtype): _value(row, column, path) for unit, names in units for column, dtype in names.items()}
    peaks = MeasuredPeaks(
        source=f"{path.name}, device {device}",
        memory={level: value for level, value in memory.items() if value},
        compute={kind: value for kind, value in compute.items() if value},
    )
    if not peaks.memory and not peaks.compute:
        raise RooflineCsvError(
            "this file contains no peaks",
            where=str(path),
            hint="pass the roofline.csv that `rocprof-compute profile --roof-only` writes to its workload directory",
        )
    return peaks


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open("rb") as content:
            data = content.read(_LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise RooflineCsvError("this file is too large for a roofline.csv", where=str(path))
        table = csv.DictReader(io.StringIO(data.decode("utf-8-sig")), skipinitialspace=True)
        return [{name.strip(): text.strip() for name, text in row.items() if name and isinstance(text, str)} for row in table]
    except OSError as error:
        raise RooflineCsvError(
            f"cannot read the peaks: {error.strerror or error}", where=str(path), hint="check passes.roofline_csv"
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RooflineCsvError(f"not CSV: {error}", where=str(path), hint="pass a roofline.csv of rocprof-compute") from error


def _device(row: Mapping[str, str]) -> int:
    text = next((row[name] for name in _DEVICE_COLUMNS if name in row), "0")
    return int(text) if text.isdigit() else -1


def _value(row: Mapping[str, str], column: str, path: Path) -> float:
    text = row.get(column) or "0"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not math.isfinite(value) or value < 0:
        raise RooflineCsvError(f"{column} is {text!r}, not a rate", where=str(path), hint="measure the peaks again")
    return value
