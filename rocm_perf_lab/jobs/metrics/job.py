"""`rocm-perf metrics`: print the definitions in `metrics.yaml` as tables or as JSON."""

from __future__ import annotations

import ast
import difflib
import json
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.counter_catalogue import counter_catalogue, describe_counter, has_catalogue, metric_certificate
from rocm_perf_lab.rocprof.metrics import architectures as all_architectures
from rocm_perf_lab.rocprof.metrics import load_metrics, metric_architectures
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from rocm_perf_lab.rocprof.counter_catalogue import CounterDescription
    from rocm_perf_lab.rocprof.metrics import Metric

_KINDS = {
    "events": "deterministic counts: counters of several passes may be combined",
    "cycles": "times: all counters must be from one pass",
}


class MetricError(LabError):
    """Metric that does not exist, or is not available on this architecture."""


def list_metrics(console: Console, *, target: str | None, as_json: bool) -> None:
    """Print all metrics, or those of the target's architecture.

    Raises:
        TargetError: The target does not exist.
    """
    wanted = _architecture(target)
    known = {name: found for name, found in metric_architectures().items() if wanted is None or wanted in found}
    metrics = {name: load_metrics(wanted or found[0])[name] for name, found in known.items()}
    if as_json:
        rows = [_row(metric, known[name], wanted) for name, metric in metrics.items()]
        counters = counter_catalogue(wanted) if wanted is None or has_catalogue(wanted) else {}
        listed = [_counter_row(name, counter) for name, counter in counters.items()]
        print(json.dumps({"schema_version": "1.1", "metrics": rows, "counters": listed}, indent=2))
        return
    title = f"metrics of {wanted}" if wanted else "metrics"
    table = Table(title=title, title_justify="left", expand=False, show_edge=False, box=None, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("description", overflow="fold")
    for name, metric in metrics.items():
        only = "" if wanted or len(known[name]) == len(all_architectures()) else f" ({', '.join(known[name])})"
        table.add_row(Text(name), Text(metric.unit), Text(metric.description + only))
    console.print(table)


def show_metric(console: Console, name: str, *, target: str | None, as_json: bool) -> None:
    """Print formula, counters, unit and source of a metric, for each architecture or for that of the target.

    For the name of a counter, print its meaning and the accuracy of its emulated values.

    Raises:
        MetricError: Neither a metric nor a counter has the name; the hint names the nearest metrics.
        TargetError: The target does not exist.
    """
    wanted = _architecture(target)
    known = metric_architectures()
    counter = describe_counter(name, wanted) if name not in known else None
    if counter is not None:
        _show_counter(console, name, counter, as_json=as_json)
        return
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or [other for other in known if name and name in other][:5]
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise MetricError(f"there is no metric {name!r}", where="metrics show", hint=f"{hint}list all: rocm-perf metrics list")
    if wanted is not None and wanted not in known[name]:
        raise MetricError(
            f"{wanted} has no counters for {name}",
            where=f"--target {target}",
            hint=f"it exists on {', '.join(known[name])}",
        )
    metrics = {one: load_metrics(one)[name] for one in known[name] if wanted in (None, one)}
    first = next(iter(metrics.values()))
    if as_json:
        print(json.dumps({"schema_version": "1.0", **_row(first, known[name], wanted)}, indent=2))
        return
    table = Table(show_header=False, box=None, pad_edge=False, expand=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in (
        ("metric", name),
        ("meaning", first.description),
        ("unit", first.unit),
        ("kind", f"{first.kind}: {_KINDS[first.kind]}"),
        ("source", first.source),
    ):
        table.add_row(label, Text(text))
    for architectures, metric in _grouped(metrics):
        table.add_row("")
        table.add_row("on", Text(", ".join(architectures)))
        table.add_row("formula", Text(metric.formula))
        if ast.unparse(ast.parse(metric.formula, mode="eval")) != metric.expression:
            table.add_row("in counters", Text(metric.expression))
        table.add_row("counters", Text(", ".join(metric.counters)))
        if metric.at_most:
            table.add_row("at most", Text(f"{metric.at_most}; a greater value is discarded"))
        if metric.otherwise:
            table.add_row("or", Text(f"{metric.otherwise.expression}, if the profiler reports that derived counter instead"))
        for one in architectures:
            certificate = metric_certificate(one, metric)
            if certificate is not None:
                table.add_row("emulated", Text(f"{certificate} on {one}"))
        if metric.assume_zero:
            table.add_row("assumed 0", Text(f"{', '.join(metric.assume_zero)}, if not collected"))
    console.print(table)


def _show_counter(console: Console, name: str, counter: CounterDescription, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"schema_version": "1.1", **_counter_row(name, counter)}, indent=2))
        return
    table = Table(show_header=False, box=None, pad_edge=False, expand=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {"counter": name, "meaning": counter.description, "unit": counter.unit, "emulated": str(counter)}
    for label, text in {**rows, "recordings": counter.scope, "reason": counter.reason}.items():
        if text:
            table.add_row(label, Text(text))
    console.print(table)


def _counter_row(name: str, counter: CounterDescription) -> dict[str, Any]:
    return {"name": name, **counter.model_dump()}


def _architecture(target: str | None) -> str | None:
    return None if target is None else load_target(target).architecture


def _grouped(metrics: dict[str, Metric]) -> list[tuple[list[str], Metric]]:
    """Group the architectures that share an expression."""
    groups: dict[str, tuple[list[str], Metric]] = {}
    for architecture, metric in metrics.items():
        groups.setdefault(metric.expression, ([], metric))[0].append(architecture)
    return list(groups.values())


def _row(metric: Metric, architectures: Sequence[str], wanted: str | None) -> dict[str, Any]:
    return {
        "name": metric.name,
        "unit": metric.unit,
        "kind": metric.kind,
        "description": metric.description,
        "source": metric.source,
        "architectures": {
            one: _expression(one, load_metrics(one)[metric.name]) for one in architectures if wanted in (None, one)
        },
    }


def _expression(architecture: str, metric: Metric) -> dict[str, Any]:
    return {
        "formula": metric.formula,
        "expression": metric.expression,
        "counters": list(metric.counters),
        "assume_zero": list(metric.assume_zero),
        "at_most": metric.at_most,
        "emulated_certificate": metric_certificate(architecture, metric),
        "derived": metric.otherwise.expression if metric.otherwise else None,
    }
