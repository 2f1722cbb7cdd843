"""Tracked runs as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.tracking.run import TrackingError
from rocm_perf_lab.tracking.store import store_client

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from mlflow.entities import Run

PARENT = "mlflow.parentRunId"
_MOST_RUNS = 10_000
_PAGE = 1000


def runs_table(*, uri: str | None, experiment: str, children: bool, tags: Mapping[str, str]) -> pd.DataFrame:
    """Return the runs of an experiment with their tags, parameters and metrics as columns, the newest first.

    Args:
        uri: Store; None uses MLFLOW_TRACKING_URI, else the SQLite file in the working directory.
        experiment: Name of the experiment; one that does not exist has no runs.
        children: Include child runs.
        tags: Required values of tags.

    Raises:
        TrackingError: The store cannot be reached, or a condition has both kinds of quotation marks.
    """
    import pandas as pd

    with store_client(uri) as client:
        found = client.get_experiment_by_name(experiment)
        if found is None:
            return pd.DataFrame()
        where = " and ".join(f"tags.`{name}` = {_literal(name, value)}" for name, value in tags.items())
        runs: list[Run] = []
        token = None
        while len(runs) < _MOST_RUNS:
            page = client.search_runs([found.experiment_id], where, max_results=_PAGE, page_token=token)
            runs += page
            token = page.token
            if not token:
                break
    return pd.DataFrame([_row(run) for run in runs if children or PARENT not in run.data.tags])


def _literal(name: str, value: str) -> str:
    """Return a value as text of a filter, which has two kinds of quotation marks and no escapes."""
    if "`" in name or ("'" in value and '"' in value):
        raise TrackingError(f"cannot filter by {name}={value!r}", where=name, hint="remove a quotation mark from the condition")
    quote = '"' if "'" in value else "'"
    return f"{quote}{value}{quote}"


def _row(run: Run) -> dict[str, object]:
    import pandas as pd

    tags = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.")}
    facts = {
        "run_id": run.info.run_id,
        "name": run.info.run_name,
        "status": run.info.status,
        "start": pd.Timestamp(run.info.start_time, unit="ms", tz="UTC"),
    }
    if PARENT in run.data.tags:
        facts["parent"] = run.data.tags[PARENT]
    return {**facts, **run.data.params, **tags, **run.data.metrics}
