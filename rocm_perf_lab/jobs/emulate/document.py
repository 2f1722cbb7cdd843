"""The JSON document of an emulated launch, printed by `rocm-perf emulate --json`."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.device.argument_text import format_argument
from rocm_perf_lab.jobs.emulate.request import EmulateRequest, Emulation, summarise_output
from rocm_perf_lab.rocprof.counter_catalogue import counter_certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def emulation_document(emulation: Emulation, request: EmulateRequest, files: Mapping[str, str]) -> str:
    """Return the document; NaN and infinities become the strings NaN, Infinity and -Infinity."""
    kernel, launch, occupancy = emulation.kernel, emulation.launch, emulation.occupancy
    certificates = counter_certificates(emulation.target.architecture, emulation.counters)
    document = {
        "schema_version": "1.0",
        "kernel": kernel.name,
        "symbol": kernel.symbol,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "work_items": list(launch.geometry.work_items),
        "dynamic_lds_bytes": launch.dynamic_lds_bytes,
        "arguments": [{"name": argument.name, "text": format_argument(argument)} for argument in emulation.arguments],
        "resources": {
            "vgpr": kernel.vgpr_count - kernel.agpr_count,
            "agpr": kernel.agpr_count,
            "sgpr": kernel.sgpr_count,
            "lds_bytes": kernel.lds_bytes,
            "scratch_bytes": kernel.scratch_bytes,
        },
        "occupancy": {
            "waves_per_simd": occupancy.waves_per_simd,
            "max_waves_per_simd": occupancy.max_waves_per_simd,
            "limiter": occupancy.limiter,
        },
        "counters": {name: _whole(value) for name, value in emulation.counters.items()},
        "counter_certificates": certificates,
        "estimated_counters": [name for name, certificate in certificates.items() if certificate == "estimated"],
        "time_us_emulated": emulation.duration_ns / 1000 if emulation.identity.has_times else None,
        "error_bands": _error_bands(emulation) if emulation.identity.has_times else None,
        "outputs": [_output_row(name, values, files) for name, values in emulation.outputs.items()],
        "findings": [vars(finding) for finding in emulation.findings],
        "printed": [{"stream": "stderr" if p.to_stderr else "stdout", "text": p.text} for p in emulation.printed],
        "host_calls": emulation.host_calls,
        "notes": list(emulation.notes),
        "provenance": {
            "device": emulation.identity.name,
            "emulated": emulation.identity.emulated,
            "versions": dict(emulation.identity.versions),
            "target": emulation.target.name,
            "architecture": launch.code_object.architecture,
            "code_object": str(request.file),
            "code_object_sha256": launch.code_object.sha256,
            "check": request.check,
            "sample_seed": emulation.sample_seed,
        },
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _error_bands(emulation: Emulation) -> dict[str, Any]:
    """Return the error bands of the emulated time in order of increasing coverage."""
    errors = emulation.target.timing_errors
    bounds = [(band.coverage, *band.around(emulation.duration_ns / 1000)) for band in errors.time]
    return {
        "status": errors.status,
        "source": errors.source,
        "time": [{"coverage": coverage, "low_us": low, "high_us": high} for coverage, low, high in bounds],
        "ratio": [{"coverage": band.coverage, "factor": band.factor} for band in errors.ratio],
    }


def _output_row(name: str, values: NDArray[Any], files: Mapping[str, str]) -> dict[str, Any]:
    row = summarise_output(name, values)
    return {
        "name": row.name,
        "dtype": row.dtype,
        "shape": list(row.shape),
        "min": _json_number(row.smallest),
        "max": _json_number(row.largest),
        "mean": _json_number(row.mean),
        "nan_count": row.nan_count,
        "first": [_json_number(value) for value in row.first],
        "file": files.get(name),
    }


def _json_number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value
