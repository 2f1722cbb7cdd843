"""Documents of a run for the HTML report: those in a directory, or one in a file, recognised by its content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROFILE, ANALYSIS, OPTIMIZE, AUTOTUNE, RECORDING = (
    "profile.json", "analysis.json", "optimize.json", "autotune.json", "report.json",
)  # fmt: skip
_OF_THE_PROFILE = (PROFILE, ANALYSIS, "roofline.json", "dag.json", RECORDING, "checks.json")
_OF_THE_JOB = (OPTIMIZE, AUTOTUNE, "replay.json", "run.json", "compare.json", "verify.json")
_CAPTURE = ("dispatch.json", "memory_regions.json")
_KEYS = {
    "replay": ("execution", "timing", "restored_bytes"),
    "run": ("command", "findings", "used_gpu"),
    "compare": ("base", "new", "kernels", "regressions"),
    "verify": ("verdict", "stage", "candidate", "not_checked"),
    "optimize": ("verdicts", "baseline", "speedup"),
    "autotune": ("trials", "best_config"),
    "recording": ("files", "application", "ledger"),
}
"""Keys of the documents that commands print with `--json`."""


def run_documents(run: Path, profile: Path) -> dict[str, Any]:
    """Return the documents of a run by name, without the suffix; empty if there are none.

    Args:
        run: Directory of the run, or a file with one document.
        profile: Directory of its profile.

    Raises:
        LabError: A document is not valid JSON, or the file holds no known document.
    """
    if run.is_file():
        return _shaped(_recognised(run))
    places = [(profile, name) for name in _OF_THE_PROFILE] + [(run, name) for name in _OF_THE_JOB]
    found = {name.removesuffix(".json"): read_document(place / name) for place, name in places if (place / name).is_file()}
    if all((run / name).is_file() for name in _CAPTURE):
        found["capture"] = {name.removesuffix(".json"): read_document(run / name) for name in _CAPTURE}
    return _shaped(found)


def read_document(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        LabError: The file is not valid JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LabError(f"invalid JSON: {error}", where=str(path), hint="run the job again") from error


def _recognised(path: Path) -> dict[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        # `verify --json` prints one document per line.
        content = [json.loads(line) for line in lines] if len(lines) > 1 and lines[0].endswith("}") else read_document(path)
    except ValueError as error:
        raise LabError(f"invalid JSON: {error}", where=str(path), hint="pass a run's directory or a --json document") from error
    first = content[0] if isinstance(content, list) and content else content
    for kind, keys in _KEYS.items():
        if isinstance(first, dict) and all(key in first for key in keys):
            return {"report" if kind == "recording" else kind: content}
    raise LabError(
        "the file is not a document of a run",
        where=str(path),
        hint="pass the directory of a run, or the output of run, replay full-vm, compare or verify with --json",
    )


def _shaped(found: dict[str, Any]) -> dict[str, Any]:
    """Convert documents with two layouts to one: replays to a list with titles, verdicts to a list."""
    replay = found.get("replay")
    if replay is not None:
        sides = (("captured code object", replay.get("captured")), ("override", replay.get("override")))
        replays = [{"title": title, **side} for title, side in sides if side is not None]
        found["replay"] = {
            "replays": replays or [{"title": "replay", **replay}],
            "speedup": replay.get("speedup"),
            "indistinguishable": replay.get("indistinguishable", False),
        }
    if isinstance(found.get("verify"), dict):
        found["verify"] = [found["verify"]]
    return found


def rewrite_points(run: Path, optimize: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the roofline coordinates of each measured rewrite: arithmetic intensity and rate at the DRAM level.

    Args:
        run: Directory of the optimization.
        optimize: Content of its optimize.json; None if the run is not an optimization.
    """
    points = []
    for verdict in (optimize or {}).get("verdicts", ()):
        path = run / "proposals" / verdict["proposal"] / "roofline.json"
        roofline = read_document(path)["roofline"] if path.is_file() else None
        if roofline and roofline["intensity"] and roofline["gflop_per_s"]:
            point = {name: roofline[name] for name in ("intensity", "gflop_per_s")}
            points.append({"proposal": verdict["proposal"], **point})
    return points


def ledger_of_best(run: Path, optimize: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the ledger of lost time of the best rewrite; None without an accepted one."""
    if optimize is None or optimize["best"]["proposal"] == optimize["baseline"]["proposal"]:
        return None
    path = run / "proposals" / optimize["best"]["proposal"] / ANALYSIS
    ledger: dict[str, Any] | None = read_document(path).get("ledger") if path.is_file() else None
    return ledger
