"""`rocm-perf compare`: two profiles, kernel by kernel, with noise taken into account.

Takes two profile.json files or the folders that hold them; prints a table, or with `--json` one document.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.table import Table
from rich.text import Text

from rocm_perf_lab.analysis.comparison import KernelTimes, RunTimes, compare, differences
from rocm_perf_lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.analysis.comparison import KernelComparison

PROFILE = "profile.json"
_SCHEMA_MAJOR = "1."
_LARGEST_PROFILE_BYTES = 1 << 30
_COLOURS = {"faster": "green", "slower": "red", "unclear": "yellow", "new": "cyan", "gone": "cyan"}


class CompareError(LabError):
    """Files that are no profiles, or profiles that cannot be compared."""


@dataclass(frozen=True)
class CompareRequest:
    """The words of the command line."""

    base: Path
    new: Path
    fail_over: str = "5%"
    force: bool = False


class _Loose(BaseModel):
    """What is read of a profile; versions before and after this one have less and more."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Kernel(_Loose):
    name: str
    mangled_name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class _Gpu(_Loose):
    architecture: str
    name: str


class _Stability(_Loose):
    runs: int
    stddev_ms: float
    warm_up_runs: int = 0
    durations_ms: tuple[float, ...] = ()


class _Summary(_Loose):
    name: str
    mangled_name: str
    calls: int
    total_ms: float
    median_ms: float | None = None
    durations_ms: tuple[float, ...] = ()


class _Provenance(_Loose):
    time_kind: Literal["emulated", "measured"]


class _Profile(_Loose):
    schema_version: str
    kernel: _Kernel
    gpu: _Gpu
    runtime_ms: float
    stability: _Stability
    kernels: tuple[_Summary, ...]
    provenance: _Provenance


def run_compare(request: CompareRequest, console: Console, *, as_json: bool) -> bool:
    """Print the comparison; True where a kernel is significantly slower by more than the threshold.

    Raises:
        CompareError: A file is no profile, the threshold no number, or the runs are of different kinds.
    """
    threshold = parse_share(request.fail_over)
    base, new = read_run(request.base), read_run(request.new)
    unlike = differences(base, new)
    if unlike and not request.force:
        raise CompareError(
            f"these times say nothing of each other: {'; '.join(unlike)}",
            where=f"{request.base} and {request.new}",
            remedy="compare runs of one device and target, or add --force to see the numbers all the same",
        )
    rows = compare(base, new)
    regressions = [row for row in rows if row.is_regression(threshold)]
    if as_json:
        print(_document(request, threshold, (base, new), rows, unlike), end="")
    else:
        _show(console, rows, threshold, _time_words(base, new), unlike)
    return bool(regressions)


def parse_share(text: str) -> float:
    """`5%` and `0.05` are the same.

    Raises:
        CompareError: Not a share.
    """
    number, is_percent = text.strip().removesuffix("%").strip(), text.strip().endswith("%")
    try:
        share = float(number) / (100 if is_percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf") or (share >= 1 and not is_percent):
        raise CompareError(f"{text!r} is no share", where="--fail-over", remedy="write 5% or 0.05")
    return share


def read_run(path: Path) -> RunTimes:
    """The times in a profile.json, or in that of a run's folder.

    Raises:
        CompareError: There is no profile, or it cannot be read.
    """
    file = path / PROFILE if path.is_dir() else path
    try:
        if file.stat().st_size > _LARGEST_PROFILE_BYTES:
            raise CompareError("this file is too large for a profile", where=str(file))
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CompareError(f"there is no {file.name}", where=str(path), remedy=_where_profiles_are(path)) from error
    except OSError as error:
        raise CompareError(f"cannot read the profile: {error.strerror or error}", where=str(file)) from error
    except (ValueError, RecursionError) as error:
        raise CompareError(f"no JSON: {error}", where=str(file), remedy="give the profile.json of a run") from error
    return _run_times(_validated(found, file))


def _validated(found: Any, file: Path) -> _Profile:
    version = found.get("schema_version") if isinstance(found, dict) else None
    if isinstance(version, str) and not version.startswith(_SCHEMA_MAJOR):
        raise CompareError(
            f"this profile has schema version {version}, this version of the lab reads {_SCHEMA_MAJOR}x",
            where=str(file),
            remedy="profile again, or update the lab",
        )
    try:
        return _Profile.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CompareError(
            f"this is no profile: {first['msg']}",
            where=f"{file}, key {key}" if key else str(file),
            remedy="give the profile.json of a run, or the run's folder",
        ) from error


def _where_profiles_are(path: Path) -> str:
    inside = sorted(path.glob(f"*/{PROFILE}"))[:3] if path.is_dir() else []
    if inside:
        return f"did you mean {' or '.join(str(file.parent) for file in inside)}?"
    return "give the profile.json of a run, or the run's folder"


def _run_times(profile: _Profile) -> RunTimes:
    kind = profile.provenance.time_kind
    return RunTimes(
        emulated=kind == "emulated",
        traits=(("time_kind", kind), ("architecture", profile.gpu.architecture), ("gpu", profile.gpu.name)),
        kernels=_kernels(profile),
    )


def _kernels(profile: _Profile) -> tuple[KernelTimes, ...]:
    """The profiled kernel with all that is known of it, and the others of the run."""
    kernel, spread = profile.kernel, profile.stability
    x, y, z = kernel.grid
    main = KernelTimes(
        name=kernel.name,
        mangled_name=kernel.mangled_name,
        time_ms=profile.runtime_ms,
        runs=spread.runs - spread.warm_up_runs,
        stddev_ms=spread.stddev_ms,
        durations_ms=spread.durations_ms,
        launch=f"{x}x{y}x{z} of {'x'.join(map(str, kernel.block))}",
    )
    others = tuple(_summary_times(row) for row in profile.kernels if row.mangled_name != kernel.mangled_name)
    return (main, *others)


def _summary_times(row: _Summary) -> KernelTimes:
    mean_ms = row.total_ms / max(row.calls, 1)
    time_ms = mean_ms if row.median_ms is None else row.median_ms
    return KernelTimes(row.name, row.mangled_name, time_ms, row.calls, durations_ms=row.durations_ms)


def _time_words(base: RunTimes, new: RunTimes) -> tuple[str, str]:
    return dict(base.traits)["time_kind"], dict(new.traits)["time_kind"]


def _show(
    console: Console, rows: Sequence[KernelComparison], threshold: float, words: tuple[str, str], unlike: Sequence[str]
) -> None:
    for difference in unlike:
        console.print(Text(f"compared by force, although they differ in {difference}", style="yellow"))
    word = words[0] if words[0] == words[1] else f"{words[0]}, {words[1]}"
    table = Table(title=f"times in us {word}; change with its 95 % interval", title_justify="left", expand=False)
    table.add_column("kernel", overflow="fold", max_width=26)
    for heading in ("base", "new", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        verdict = Text(row.verdict, style=_COLOURS.get(row.verdict, ""))
        name = row.name if len(row.name) <= 2 * 26 else f"{row.name[:49]}..."
        table.add_row(Text(name), _us(row.base_ms), _us(row.new_ms), _percent(row.change), _range(row), verdict)
    console.print(table)
    for row in rows:
        if row.note:
            console.print(Text(f"{row.name[:40]}: {row.note}"))
    regressions = [row.name for row in rows if row.is_regression(threshold)]
    if regressions:
        slower = ", ".join(name[:60] for name in regressions)
        console.print(Text(f"significantly slower by more than {_share(threshold)}: {slower}", style="red"))
    else:
        console.print(Text(f"no kernel is significantly slower by more than {_share(threshold)}"))


def _us(time_ms: float | None) -> str:
    return "-" if time_ms is None else f"{time_ms * 1000:.5g}" if time_ms < 100 else f"{time_ms * 1000:,.0f}"


def _percent(change: float | None) -> str:
    return "-" if change is None else f"{change:+.1%}"


def _share(threshold: float) -> str:
    return f"{100 * threshold:g}%"


def _range(row: KernelComparison) -> str:
    if row.basis == "exact":
        return "exact"
    return "-" if row.interval is None else f"{row.interval[0]:+.1%} to {row.interval[1]:+.1%}"


def _document(
    request: CompareRequest,
    threshold: float,
    runs: tuple[RunTimes, RunTimes],
    rows: Sequence[KernelComparison],
    unlike: Sequence[str],
) -> str:
    names, sides = ("base", "new"), (request.base, request.new)
    document = {
        "schema_version": "1.0",
        **{name: {"path": str(path), **dict(run.traits)} for name, path, run in zip(names, sides, runs, strict=True)},
        "differences": list(unlike),
        "fail_over": threshold,
        "kernels": [asdict(row) | {"regression": row.is_regression(threshold)} for row in rows],
        "regressions": [row.mangled_name for row in rows if row.is_regression(threshold)],
    }
    return json.dumps(document, indent=2) + "\n"
