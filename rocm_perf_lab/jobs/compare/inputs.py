"""Input of `rocm-perf compare`: profile.json, wall_time.json of a run without a profiler, or the directory of either.

Only the fields that a comparison needs are read, so that profiles of other versions are accepted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, ValidationError

from rocm_perf_lab.analysis.comparison_model import EmulatedBands, KernelTimes, RunTimes
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import similar_paths
from rocm_perf_lab.jobs.run_directory import ROCPD_DIRECTORY
from rocm_perf_lab.rocprof.dialects import SQLITE_MAGIC
from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from pathlib import Path

PROFILE = "profile.json"
WALL_TIME = "wall_time.json"
WHOLE_COMMAND = "whole command"
_SCHEMA_MAJOR = "1."
_LARGEST_PROFILE_BYTES = 1 << 30


class CompareError(LabError):
    """Invalid profile, or two profiles that cannot be compared."""


class _Loose(BaseModel):
    """Base of the document models; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Kernel(_Loose):
    name: str
    mangled_name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class _Gpu(_Loose):
    architecture: str
    name: str
    compute_units: int | None = None


class _Stability(_Loose):
    runs: NonNegativeInt
    stddev_ms: NonNegativeFloat
    warm_up_runs: NonNegativeInt = 0
    durations_ms: tuple[NonNegativeFloat, ...] = ()


class _TimeBand(_Loose):
    coverage: float
    low_ms: NonNegativeFloat
    high_ms: NonNegativeFloat


class _Launch(_Loose):
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    calls: NonNegativeInt
    median_ms: NonNegativeFloat
    durations_ms: tuple[NonNegativeFloat, ...] = ()
    dram_bytes: NonNegativeFloat | None = None


class _Summary(_Loose):
    name: str
    mangled_name: str
    calls: NonNegativeInt
    total_ms: NonNegativeFloat
    median_ms: NonNegativeFloat | None = None
    durations_ms: tuple[NonNegativeFloat, ...] = ()
    launches: tuple[_Launch, ...] = ()


class _Provenance(_Loose):
    time_kind: Literal["emulated", "measured"]
    versions: dict[str, str] = {}
    hashes: dict[str, str] = {}


class _ErrorBands(_Loose):
    time: tuple[_TimeBand, ...]
    ratio: tuple[RatioBand, ...]


class _Profile(_Loose):
    schema_version: str
    kernel: _Kernel
    gpu: _Gpu
    runtime_ms: NonNegativeFloat | None
    stability: _Stability
    kernels: tuple[_Summary, ...]
    provenance: _Provenance
    error_bands: _ErrorBands | None = None


class _WallTime(_Loose):
    schema_version: str
    command: tuple[str, ...]
    runtime_ms: NonNegativeFloat
    stability: _Stability


def read_run(path: Path) -> RunTimes:
    """Read the times in a profile.json or wall_time.json, or in the directory of a run.

    Raises:
        CompareError: There is no profile, or it cannot be read.
    """
    file = _file_of(path)
    try:
        if file.stat().st_size > _LARGEST_PROFILE_BYTES:
            raise CompareError("this file is too large for a profile", where=str(file))
        content = file.read_bytes()
        if content.startswith(SQLITE_MAGIC):
            raise CompareError(
                "this is a database, not a profile",
                where=str(file),
                hint=f"rocm-perf analyze {file} --output DIR, then compare DIR",
            )
        found = json.loads(content.decode("utf-8"))
    except FileNotFoundError as error:
        what = f"there is no {file.name}" if path.exists() or path.suffix else "no such file or directory"
        raise CompareError(what, where=str(path), hint=_where_profiles_are(path)) from error
    except OSError as error:
        raise CompareError(f"cannot read the profile: {error.strerror or error}", where=str(file)) from error
    except (ValueError, RecursionError) as error:
        raise CompareError(f"invalid JSON: {error}", where=str(file), hint="pass the profile.json of a run") from error
    return _run_times(found, file)


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    wall = path / WALL_TIME
    return wall if wall.exists() and not (path / PROFILE).exists() else path / PROFILE


def _where_profiles_are(path: Path) -> str:
    if not path.exists():
        near = similar_paths(path)
        return f"did you mean {' or '.join(near)}?" if near else "pass the profile.json or the directory of a run"
    inside = sorted(path.glob(f"*/{PROFILE}"))[:3] if path.is_dir() else []
    if inside:
        return f"did you mean {' or '.join(str(file.parent) for file in inside)}?"
    if path.is_dir() and ((path / ROCPD_DIRECTORY).is_dir() or next(path.glob("**/*.db"), None)):
        return f"there are databases: rocm-perf analyze {path} --output DIR, then compare DIR"
    if path.is_dir() and (next(path.glob("**/*_kernel_trace.csv"), None) or _is_recording(path)):
        return f"there is a recording: rocm-perf analyze {path} --output DIR, then compare DIR"
    return "pass the profile.json or the directory of a run"


def _is_recording(path: Path) -> bool:
    from rocm_perf_lab.rocprof.discovery import DiscoveryError, discover

    try:
        discover([path])
    except DiscoveryError:
        return False
    return True


def _run_times(found: Any, file: Path) -> RunTimes:
    version = found.get("schema_version") if isinstance(found, dict) else None
    if isinstance(version, str) and not version.startswith(_SCHEMA_MAJOR):
        raise CompareError(
            f"unsupported schema version {version}: this version reads {_SCHEMA_MAJOR}x",
            where=str(file),
            hint="profile again, or update rocm-perf-lab",
        )
    try:
        if isinstance(found, dict) and "command" in found and "kernel" not in found:
            return _of_wall_time(_WallTime.model_validate(found))
        profile = _Profile.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CompareError(
            f"invalid profile: {_problem(first['type'], first['msg'])}",
            where=f"{file}, key {key}" if key else str(file),
            hint="pass the profile.json or the directory of a run",
        ) from error
    if profile.runtime_ms is None:
        raise CompareError(
            f"{NO_EMULATED_TIME}: there are no times to compare", where=str(file), hint="compare the counters in profile.json"
        )
    return _of_profile(profile, profile.runtime_ms)


def _problem(kind: str, message: str) -> str:
    """Return the message of pydantic, without the name of the model."""
    return "an object is expected" if kind == "model_type" else message[:1].lower() + message[1:]


def _of_profile(profile: _Profile, runtime_ms: float) -> RunTimes:
    kind, gpu = profile.provenance.time_kind, profile.gpu
    units = [] if gpu.compute_units is None else [("compute_units", str(gpu.compute_units))]
    return RunTimes(
        emulated=kind == "emulated",
        traits=(("time_kind", kind), ("timed", "kernels"), ("architecture", gpu.architecture), ("gpu", gpu.name), *units),
        kernels=_kernels(profile, runtime_ms),
        versions=tuple(sorted(profile.provenance.versions.items())),
        source=profile.provenance.hashes.get("database"),
        bands=_bands(profile) if kind == "emulated" else None,
    )


def _bands(profile: _Profile) -> EmulatedBands | None:
    """Return the widest error bands of a profile with emulated times, if it has any."""
    known = profile.error_bands
    if known is None or not known.time or not known.ratio or not profile.runtime_ms:
        return None
    widest = known.time[-1]
    low, high = widest.low_ms / profile.runtime_ms, widest.high_ms / profile.runtime_ms
    return EmulatedBands(TimeBand(coverage=widest.coverage, low=min(low, 1.0), high=max(high, 1.0)), known.ratio[-1])


def _kernels(profile: _Profile, runtime_ms: float) -> tuple[KernelTimes, ...]:
    """Return the times of the profiled kernel, then those of the other kernels of the run; one per launch shape."""
    kernel, spread = profile.kernel, profile.stability
    own = [row for row in profile.kernels if row.mangled_name == kernel.mangled_name]
    # The profile's times are those of the first launch.
    launches = [(row, launch) for row in own[:1] for launch in row.launches]
    main = KernelTimes(
        name=kernel.name,
        mangled_name=kernel.mangled_name,
        time_ms=runtime_ms,
        runs=spread.runs - spread.warm_up_runs,
        stddev_ms=spread.stddev_ms,
        durations_ms=spread.durations_ms,
        launch=_launch_text(kernel.grid, kernel.block),
        workgroups=prod(kernel.grid),
        dram_bytes=launches[0][1].dram_bytes if launches else None,
        code_sha256=profile.provenance.hashes.get("code_object"),
    )
    more = [_launch_times(row, launch) for row, launch in launches[1:]]
    rest = [times for row in profile.kernels if row.mangled_name != kernel.mangled_name for times in _summary_times(row)]
    return (main, *more, *rest)


def _summary_times(row: _Summary) -> list[KernelTimes]:
    if len(row.launches) > 1:
        return [_launch_times(row, launch) for launch in row.launches]
    mean_ms = row.total_ms / max(row.calls, 1)
    time_ms = mean_ms if row.median_ms is None else row.median_ms
    times = KernelTimes(row.name, row.mangled_name, time_ms, row.calls, durations_ms=row.durations_ms)
    return [replace(times, **_work_of(launch)) for launch in row.launches] or [times]


def _launch_times(row: _Summary, launch: _Launch) -> KernelTimes:
    times = KernelTimes(row.name, row.mangled_name, launch.median_ms, launch.calls, durations_ms=launch.durations_ms)
    return replace(times, **_work_of(launch))


def _work_of(launch: _Launch) -> dict[str, Any]:
    """Return the fields that describe the amount of work of a dispatch."""
    return {
        "launch": _launch_text(launch.grid, launch.block),
        "workgroups": prod(launch.grid),
        "dram_bytes": launch.dram_bytes,
    }


def _launch_text(grid: tuple[int, int, int], block: tuple[int, int, int]) -> str:
    return f"{'x'.join(map(str, grid))} of {'x'.join(map(str, block))}"


def _of_wall_time(found: _WallTime) -> RunTimes:
    """Return the wall-clock times of the command as the times of one kernel."""
    spread = found.stability
    whole = KernelTimes(
        name="whole_command",
        mangled_name="whole_command",
        time_ms=found.runtime_ms,
        runs=spread.runs - spread.warm_up_runs,
        stddev_ms=spread.stddev_ms,
        durations_ms=spread.durations_ms,
    )
    return RunTimes(emulated=False, traits=(("time_kind", "measured"), ("timed", WHOLE_COMMAND)), kernels=(whole,))
