"""One run as plain data for the HTML report: its documents, code, sources and wavefronts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.report.documents import PROFILE, ledger_of_best, read_document, rewrite_points, run_documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocm_perf_lab.report.chunks import Chunks
    from rocm_perf_lab.rocprof.att.model import AttTrace

_SOURCES = (".hip", ".cu", ".cpp", ".cc", ".c", ".h", ".hpp", ".cuh", ".py", ".s")
SNAPSHOT = ".kernel_source"
"""Directory of a run with the kernel's source as it was when the run started."""
ORIGIN = "origin.json"
"""Command and commit of a run."""
_LARGEST_SOURCE = 1 << 20
_MOST_SOURCES = 40
_MOST_SAMPLES = 2000
"""Maximum number of single times, and of dispatches with counters, in the page."""


def run_view(directory: Path, chunks: Chunks, *, documents: Path | None = None, att: Path | None = None) -> dict[str, Any]:
    """Return the data of a run.

    Args:
        directory: Directory of the run.
        chunks: Receives parts that the page decodes on demand.
        documents: Directory of the profile; None is that of the run, or of its baseline.
        att: Decoded thread trace outside of the run.

    Raises:
        LabError: The directory holds no document of a run, or a document is not valid JSON.
    """
    place = documents or (directory / "baseline" if (directory / "baseline" / PROFILE).is_file() else directory)
    found = run_documents(directory, place)
    if not found:
        raise LabError("there is no run", where=str(directory), hint="pass the directory of a run, with its profile.json")
    recording = found.pop("report", {})
    for name in ("profile", "analysis"):
        found.setdefault(name, None)
    _shorten(found)
    config = _config(directory)
    trace = _thread_trace(att or place / "att", found["profile"], recording)
    traced = (found["analysis"] or {}).get("thread_trace") or recording.get("thread_trace")
    return {
        "name": _name(directory, found),
        "directory": str(directory),
        **found,
        "application": recording.get("application"),
        "ledger": (found["analysis"] or {}).get("ledger") or recording.get("ledger"),
        "thread_trace": traced,
        "notes": list(recording.get("notes", ())),
        "time_kind": _time_kind(found, recording),
        "code": _code(place, trace, traced),
        "waves": _waves(trace, chunks),
        "sources": _sources(directory, config, trace),
        "proposals": _proposals(directory, found.get("optimize")),
        "path": rewrite_points(directory, found.get("optimize")),
        "best_ledger": ledger_of_best(directory, found.get("optimize")),
        "metrics": _metric_formulas(found["profile"]),
        "reproduce": _reproduction(directory, config),
    }


def _config(directory: Path) -> dict[str, Any]:
    """Return the configuration of a run, also for the directory of its baseline."""
    path = next((one for one in _above(directory, "config.json") if one.is_file()), None)
    found: dict[str, Any] = read_document(path) if path is not None else {}
    return found


def _above(directory: Path, name: str) -> tuple[Path, ...]:
    """Return the possible paths of a run's file: in its directory, or in the parent if it is the directory of a baseline."""
    return (directory / name, *((directory.parent / name,) if directory.name == "baseline" else ()))


def _name(directory: Path, found: Mapping[str, Any]) -> str:
    kernel = (found.get("profile") or found.get("autotune") or {}).get("kernel", {}).get("name")
    if "replay" in found:
        kernel = found["replay"]["replays"][0]["kernel"]["name"]
    if "capture" in found:
        kernel = found["capture"]["dispatch"]["kernel"]["name"]
    return f"{_without_parameters(kernel)} ({directory.name})" if kernel else directory.name


def _without_parameters(name: str) -> str:
    """Return the name of a kernel without the list of its parameters."""
    short = name.partition("(")[0]
    return name if not short or short.endswith(("::", " ", "<")) or short.count("<") != short.count(">") else short


def _time_kind(found: Mapping[str, Any], recording: Mapping[str, Any]) -> str:
    profile = found.get("profile") or {}
    replays = found.get("replay", {}).get("replays", ())
    kinds = (
        profile.get("provenance", {}).get("time_kind"),
        *(found.get(name, {}).get("time_kind") for name in ("autotune", "run")),
        *(replay["timing"]["kind"] for replay in replays),
        found.get("compare", {}).get("new", {}).get("time_kind"),
        recording.get("time_kind"),
    )
    return str(next((kind for kind in kinds if kind), "measured"))


def _shorten(found: dict[str, Any]) -> None:
    """Limit the lists that grow with the number of dispatches."""
    profile = found["profile"]
    if profile is None:
        return
    for row in (profile["stability"], *profile["kernels"], *(launch for k in profile["kernels"] for launch in k["launches"])):
        row["durations_ms"] = row.get("durations_ms", [])[:_MOST_SAMPLES]
    profile["counters"] = profile["counters"][:_MOST_SAMPLES]


def _thread_trace(att: Path, profile: Mapping[str, Any] | None, recording: Mapping[str, Any]) -> AttTrace | None:
    """Return the thread trace of the run's kernel, with its curves; None if no trace can be read."""
    from rocm_perf_lab.rocprof.att.content import AttError
    from rocm_perf_lab.rocprof.att.directories import find_directories, read_kernel_trace
    from rocm_perf_lab.rocprof.att.reader import read_directory

    symbol = (profile or recording.get("thread_trace") or {}).get("kernel")
    name = symbol["mangled_name"] if isinstance(symbol, dict) else symbol
    understood = (Path(row["path"]) for row in recording.get("files", {}).get("understood", ()) if "trace" in row["content"])
    for path in (att, *understood):
        if not path.exists():
            continue
        try:
            directories = find_directories(path)
            chosen = Path(read_kernel_trace(directories, name).provenance.directory).name if name else directories[0].name
            return read_directory(next(one for one in directories if one.name == chosen))
        except AttError:
            continue
    return None


def _code(place: Path, trace: AttTrace | None, traced: Mapping[str, Any] | None) -> dict[str, Any] | None:
    from rocm_perf_lab.report.instructions import counted_code, traced_code

    if trace is not None:
        return traced_code(trace, traced)
    return counted_code(place)


def _waves(trace: AttTrace | None, chunks: Chunks) -> dict[str, Any] | None:
    from rocm_perf_lab.report.wavefronts import wavefronts

    return wavefronts(trace, chunks) if trace is not None and trace.waves else None


def _sources(directory: Path, config: Mapping[str, Any], trace: AttTrace | None) -> dict[str, str]:
    """Return source texts by file name: those of the thread trace, of the run, and next to the kernel's source.

    If a file changed after the run, the text stored by the run is returned, if available.
    """
    texts = {Path(name).name: text[:_LARGEST_SOURCE] for name, text in (trace.snapshots if trace is not None else {}).items()}
    kernel = config.get("kernel")
    described = Path(kernel["directory"]) if isinstance(kernel, dict) and "directory" in kernel else None
    own = directory if directory.parent.name == "proposals" else None
    for place in (directory / SNAPSHOT, own, described):
        for path in _source_files(place) if place is not None and place.is_dir() else ():
            texts.setdefault(path.name, path.read_text(encoding="utf-8", errors="replace")[:_LARGEST_SOURCE])
    return texts


def _source_files(directory: Path) -> Iterator[Path]:
    files = (path for path in sorted(directory.iterdir()) if path.suffix in _SOURCES and path.is_file())
    for count, path in enumerate(files):
        if count == _MOST_SOURCES:
            return
        yield path


def _proposals(directory: Path, optimize: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the sources of an optimization by proposal id, including the unmodified source, from its journal."""
    if optimize is None:
        return {}
    texts: dict[str, str] = {}
    for path in sorted((directory / "proposals").glob("*/*")):
        if path.suffix in _SOURCES and path.suffix != ".s" and path.stat().st_size < _LARGEST_SOURCE:
            texts.setdefault(path.parent.name, path.read_text(encoding="utf-8", errors="replace"))
    kernel = _config(directory).get("kernel", {})
    source = Path(kernel.get("directory", ""), kernel.get("source", ""))
    if source.is_file():
        texts[optimize["baseline"]["proposal"]] = source.read_text(encoding="utf-8", errors="replace")
    return texts


def _metric_formulas(profile: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """Return unit, description and formula of each metric of the GPU's architecture."""
    from rocm_perf_lab.rocprof.metrics import architectures, load_metrics

    architecture = profile["gpu"]["architecture"] if profile is not None else None
    if architecture not in architectures():
        return {}
    return {
        name: {"unit": metric.unit, "description": metric.description, "formula": metric.expression}
        for name, metric in load_metrics(architecture).items()
    }


def _reproduction(directory: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    from shlex import join

    overrides = next((one for one in _above(directory, "config/overrides.yaml") if one.is_file()), None)
    arguments: Sequence[str] = ()
    if overrides is not None:
        from rocm_perf_lab.core.resources import load_yaml

        arguments = load_yaml(overrides.read_text(encoding="utf-8")) or ()
    command = config.get("job", {}).get("command")
    origin: Mapping[str, Any] = next((read_document(one) for one in _above(directory, ORIGIN) if one.is_file()), {})
    line: str | None
    if origin.get("command"):
        line = str(origin["command"])
    elif arguments:
        line = join(["python", "-m", "rocm_perf_lab", *map(str, arguments)])
    else:
        line = join(["rocm-perf", "profile", "--", *map(str, command)]) if isinstance(command, list) and command else None
    return {"command": line, "commit": origin.get("git_commit"), "config": config}
