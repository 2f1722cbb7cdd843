"""One job of the MCP server in a separate process, which can be stopped and whose output cannot disturb the protocol.

The request is one JSON line on standard input: `{"function": "profile", "arguments": {...}}`. Each line of the answer is a JSON
object: `{"progress": TEXT}` while the job runs, then `{"result": ...}` or `{"error": TEXT}`.

    python -m rocm_perf_lab.mcp.worker
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.interrupts import termination_as_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MOST_ROWS = 25


def main() -> int:
    """Run the job; return 0, also if it failed, because the answer contains the error."""
    # Compilers and applications may write to standard output, which is for answers only.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())

    def tell(**row: Any) -> None:
        answers.write(json.dumps(row, default=str) + "\n")
        answers.flush()

    try:
        with termination_as_interrupt():
            result = call(request["function"], request["arguments"], lambda text: tell(progress=text))
    except LabError as error:
        tell(error=str(error))
    else:
        tell(result=result)
    return 0


def call(function: str, arguments: Mapping[str, Any], progress: Callable[[str], None]) -> dict[str, Any]:
    """Call a function of the API; return its main results as plain data of bounded size.

    Raises:
        LabError: The function failed.
    """
    from rocm_perf_lab import api

    found = dict(arguments)
    if function in ("profile", "optimize", "autotune"):
        given = found.pop("parameters", {})
        run = getattr(api, function)(found.pop("kernel"), **found, **given, progress=progress)
        return _run(run)
    if function == "analyze":
        return _run(api.analyze(*found.pop("paths"), **found))
    if function == "compare":
        return dict(api.compare(**found).document.model_dump(mode="json"))
    if function == "replay":
        return dict(api.replay(**found).document.model_dump(mode="json"))
    if function == "read_run":
        return _run(api.LabRun.open(found["directory"]))
    if function == "list_runs":
        table = api.runs(**{name: value for name, value in found.items() if value is not None})
        rows: list[dict[str, Any]] = json.loads(table.head(_MOST_ROWS).to_json(orient="records", date_format="iso"))
        return {"runs": [{name: value for name, value in row.items() if value is not None} for row in rows], "total": len(table)}
    return _machine()


def _run(run: Any) -> dict[str, Any]:
    """Return the summary of a run, its ledger, and the result of its job."""
    from rocm_perf_lab.api import Optimization, Tuning

    found: dict[str, Any] = {
        "directory": str(run.directory),
        "summary": run.summary,
        "time_kind": run.time_kind,
        "runtime_us": run.runtime_us,
        "metrics": run.metrics,
        "ledger": json.loads(run.ledger.head(_MOST_ROWS).to_json(orient="records")),
        "documents": sorted(path.name for path in run.directory.glob("*.json")),
    }
    if isinstance(run, Optimization):
        found |= {
            "speedup": run.speedup,
            "proposals": json.loads(run.proposals.head(_MOST_ROWS).to_json(orient="records")),
            "best_source": str(run.best_source),
            "best_diff": run.best_diff,
        }
    if isinstance(run, Tuning):
        fastest = run.trials.sort_values("runtime_us").head(_MOST_ROWS)
        found |= {"best": run.best, "fastest_trials": json.loads(fastest.to_json(orient="records"))}
    return found


def _machine() -> dict[str, Any]:
    from dataclasses import asdict

    from rocm_perf_lab.core.resources import cache_dir
    from rocm_perf_lab.device.machine import Machine
    from rocm_perf_lab.jobs.doctor.checks import LabDirectories, check_machine

    found = check_machine(Machine(), LabDirectories(cache_dir()))
    return {"can_run": list(found.can_run), "checks": [asdict(check) for check in found.checks]}


if __name__ == "__main__":
    sys.exit(main())
