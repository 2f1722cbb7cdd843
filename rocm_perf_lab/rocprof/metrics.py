"""Metrics over hardware counters, defined in `metrics.yaml`.

A metric is computed from the counters of one dispatch, pass by pass, and from facts of the target; the result is a value, or
None with a reason. Missing, negative and NaN counters are never replaced by zero.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.arch.registry import architectures as described_architectures
from rocm_perf_lab.arch.registry import find_architecture
from rocm_perf_lab.core.expressions import ExpressionError, evaluate
from rocm_perf_lab.core.resources import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.target.model import Target

METRICS_FILE = Path(__file__).with_name("metrics.yaml")
_ALL = "1"
"""Upper bound of every share."""
_ROUNDING = 1.001
_SHOWN = 4
_PART = re.compile(r"^(TCC_EA0?_(?:RD|WR)REQ|GL2C_EA_(?:RD|WR)REQ)_(?:32|64|96)B")
"""Counter of the requests of one size among those of a counter without size."""
_OLD_NAMES = {"FetchSize": "FETCH_SIZE", "WriteSize": "WRITE_SIZE"}
_SOURCES = {
    "RC": "rocprofiler-compute",
    "SDK": "rocprofiler-sdk",
    "MX": "metrix",
    "checked": "agrees with a vector copy on an MI300X",
}


@dataclass(frozen=True)
class Metric:
    """One metric on one architecture; `expression` uses counters and facts only."""

    name: str
    unit: str
    kind: Literal["events", "cycles"]
    description: str
    expression: str
    counters: tuple[str, ...]
    assume_zero: tuple[str, ...]
    source: str
    formula: str
    """Expression as written, which may name other metrics."""
    at_most: str | None = None
    """Expression over facts: upper bound of a valid value."""
    otherwise: Metric | None = None
    """The same metric from counters that rocprofv3 derives itself (FETCH_SIZE), for traces that contain only those."""


@dataclass(frozen=True)
class MetricValue:
    """A value with the assumptions made for it, or None with the reason."""

    value: float | None
    reason: str | None = None
    notes: tuple[str, ...] = ()
    is_lower_bound: bool = False
    """True if counters of the sum were not collected; `notes` lists them."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    unit: str
    kind: Literal["events", "cycles"]
    description: str
    source: str
    expressions: dict[str, str]
    derived: dict[str, str] = {}
    assume_zero: tuple[str, ...] = ()
    at_most: str | None = None


def metric_architectures() -> dict[str, tuple[str, ...]]:
    """Return every metric with the architectures that have counters for it."""
    sets = {name: architecture.counter_set for name, architecture in described_architectures().items()}
    keys = {name: " ".join(row.expressions).split() for name, row in _rows(METRICS_FILE).items()}
    return {name: tuple(one for one, counter_set in sets.items() if counter_set in found) for name, found in keys.items()}


def architectures() -> tuple[str, ...]:
    """Return all architectures for which some metric has counters."""
    return tuple(sorted({one for found in metric_architectures().values() for one in found}))


def counter_names(architecture: str) -> set[str]:
    """Return every counter name in the metrics of `architecture`; enough to detect a list for another architecture."""
    described = find_architecture(architecture)
    if described is None:
        return set()
    expressions = _of_counter_set(described.counter_set, {name: row.expressions for name, row in _rows(METRICS_FILE).items()})
    return {name for expression in expressions.values() for name in re.findall(r"\b[A-Z]\w*", expression)}


def architectures_of(counters: Iterable[str]) -> tuple[str, ...]:
    """Return the architectures that have all these counters (gfx90a: TCC_EA_RDREQ, gfx942: TCC_EA0_RDREQ); all if ambiguous."""
    here = {name.removesuffix("_sum") for name in counters}
    known = {one: {name.removesuffix("_sum") for name in counter_names(one)} for one in architectures()}
    every = set().union(*known.values())
    return tuple(one for one, names in known.items() if here & every <= names)


def load_metrics(architecture: str) -> Mapping[str, Metric]:
    """Return the metrics for which `architecture` (for example gfx942) has counters, by name."""
    described = find_architecture(architecture)
    return MappingProxyType({}) if described is None else _metrics_of(described.counter_set, METRICS_FILE)


@cache
def _metrics_of(counter_set: str, file: Path) -> Mapping[str, Metric]:
    rows = _rows(file)
    expressions = _of_counter_set(counter_set, {name: row.expressions for name, row in rows.items()})
    derived = {**expressions, **_of_counter_set(counter_set, {name: row.derived for name, row in rows.items()})}
    metrics = {}
    for name in expressions:
        metric, other = _metric(name, rows[name], expressions), _metric(name, rows[name], derived)
        metrics[name] = metric if other.expression == metric.expression else replace(metric, otherwise=other)
    return MappingProxyType(metrics)


def _of_counter_set(counter_set: str, rows: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {
        name: expression
        for name, expressions in rows.items()
        for counter_sets, expression in expressions.items()
        if counter_set in counter_sets.split()
    }


@cache
def _rows(file: Path) -> Mapping[str, _Row]:
    rows = load_yaml(file.read_text())
    return MappingProxyType({name: _Row.model_validate(row) for name, row in rows.items()})


def target_facts(target: Target, duration_ns: float) -> dict[str, float]:
    """Return the names that expressions may use in addition to counters."""
    return {
        "duration_ns": duration_ns,
        "compute_units": target.compute_units,
        "simds_per_cu": target.simds_per_cu,
        "xcds": target.xcds,
        "max_clock_ghz": target.max_clock_mhz / 1000,
        "shader_engines": target.shader_engines,
        "l2_channels": target.caches.l2_channels_per_xcd * target.xcds,
        "wave_size": target.wave_limits.wave_size,
        "max_waves_per_cu": target.wave_limits.max_waves_per_simd * target.simds_per_cu,
    }


def evaluate_metric(metric: Metric, passes: Sequence[Mapping[str, float]], facts: Mapping[str, float]) -> MetricValue:
    """Evaluate the metric from `passes`, the counters of each profiling run of the same dispatch.

    Counters of one pass are preferred; only event counts are combined from several passes. If counters are missing, counters that
    rocprofv3 derives from them are used. `TCC_HIT`, which is summed over its instances, replaces `TCC_HIT_sum`, and
    `SQ_WAVES_sum` (its name on RDNA) replaces `SQ_WAVES`. A sum without some of its terms is a lower bound.
    """
    found = _from_passes(metric, passes, facts)
    if found.value is not None:
        return found
    complete = [_with_other_names(counters) for counters in passes]
    found = _from_passes(metric, complete, facts)
    if found.value is not None:
        return found
    other = _from_passes(metric.otherwise, complete, facts) if metric.otherwise is not None else None
    if metric.otherwise is None or other is None or other.value is None:
        bounds = [_lower_bound(one, complete, facts) for one in (metric, metric.otherwise) if one is not None]
        return max((bound for bound in bounds if bound is not None), key=lambda bound: bound.value or 0, default=found)
    note = f"{metric.name} is from {', '.join(metric.otherwise.counters)}, which the profiler derives"
    return replace(other, notes=(note, *other.notes))


def _lower_bound(metric: Metric, passes: Sequence[Mapping[str, float]], facts: Mapping[str, float]) -> MetricValue | None:
    """Return the metric without the counters that were not collected if they only add to it; None if they do not."""
    if metric.kind != "events":
        return None
    values = {name: value for one in reversed(passes) for name, value in one.items()}
    missing = [name for name in metric.counters if name not in metric.assume_zero and name not in values]
    if not missing or len(missing) == len(metric.counters):
        return None
    least = {**values, **dict.fromkeys(missing, 0.0)}
    for name in missing:
        slopes = _slopes(metric, least, facts, name)
        whole = _PART.sub(r"\1", name)
        if slopes is None or not math.isclose(*slopes, rel_tol=1e-9, abs_tol=1e-9):
            return None
        if slopes[0] < 0 and (whole == name or whole not in values):
            return None
        if slopes[0] < 0:
            least[name] = values[whole]  # requests that are counted in the whole: all of them may be of the smaller size
    found = _evaluate(metric, least, facts)
    if not found.value:
        return None
    note = f"{metric.name} is a lower bound: {', '.join(missing[:_SHOWN])} not collected"
    note += f", and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return replace(found, notes=(note, *found.notes), is_lower_bound=True)


def _slopes(metric: Metric, values: Mapping[str, float], facts: Mapping[str, float], name: str) -> tuple[float, float] | None:
    """Return the changes of a metric for the first and the second count of one counter; None if it is undefined."""
    try:
        none, one, two = (
            float(evaluate(metric.expression, {**facts, **values, name: count}, where=f"metric {metric.name}"))
            for count in (0.0, 1.0, 2.0)
        )
    except ExpressionError:
        return None
    return one - none, two - one


def _with_other_names(counters: Mapping[str, float]) -> dict[str, float]:
    renamed = {new: counters[old] for old, new in _OLD_NAMES.items() if old in counters}
    plain = {name.removesuffix("_sum"): value for name, value in counters.items()}
    return {**{f"{name}_sum": value for name, value in counters.items()}, **plain, **renamed, **counters}


def _from_passes(metric: Metric, passes: Sequence[Mapping[str, float]], facts: Mapping[str, float]) -> MetricValue:
    needed = [name for name in metric.counters if name not in metric.assume_zero]
    values = next((p for p in passes if all(name in p for name in needed)), None)
    if values is None:
        merged = {name: value for one in reversed(passes) for name, value in one.items()}
        missing = [name for name in needed if name not in merged]
        if missing:
            return MetricValue(None, f"not collected: {', '.join(missing)}")
        if metric.kind == "cycles":
            return MetricValue(None, "its counters come from different passes, whose clocks differ")
        values = merged
    return _evaluate(metric, values, facts)


def _evaluate(metric: Metric, values: Mapping[str, float], facts: Mapping[str, float]) -> MetricValue:
    assumed = [name for name in metric.assume_zero if name in metric.counters and name not in values]
    counters = {name: values.get(name, 0.0) for name in metric.counters}
    broken = [f"{name} = {value:g}" for name, value in counters.items() if math.isnan(value) or value < 0]
    if broken:
        return MetricValue(None, f"impossible counter values: {', '.join(broken)}")
    notes = (f"{metric.name} counts {', '.join(assumed)} as 0: not collected",) if assumed else ()
    try:
        value = evaluate(metric.expression, {**facts, **counters}, where=f"metric {metric.name}")
    except ExpressionError as error:
        if isinstance(error.__cause__, ZeroDivisionError):
            return MetricValue(None, "undefined: its denominator is 0")
        raise
    return _within_bounds(metric, float(value), facts, notes)


def _within_bounds(metric: Metric, value: float, facts: Mapping[str, float], notes: tuple[str, ...]) -> MetricValue:
    """Replace an impossible value by a reason: its counters come from different runs, or one of them is wrong."""
    if not math.isfinite(value) or value < 0:
        return MetricValue(None, f"impossible: {value:.4g}; its counters contradict each other")
    most = math.inf if metric.at_most is None else float(evaluate(metric.at_most, facts, where=f"metric {metric.name}"))
    if value > most * _ROUNDING:
        return MetricValue(None, f"impossible: {value:.4g} of at most {most:g}; its counters contradict each other")
    return MetricValue(min(value, most), None, notes)


def _metric(name: str, row: _Row, expressions: Mapping[str, str]) -> Metric:
    tree = _Expand(expressions).visit(ast.parse(expressions[name], mode="eval"))
    counters = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id[0].isupper()})
    return Metric(
        name=name,
        unit=row.unit,
        kind=row.kind,
        description=row.description,
        expression=ast.unparse(tree),
        counters=tuple(counters),
        assume_zero=tuple(counter for counter in row.assume_zero if counter in counters),
        source=re.sub(r"\b(RC|SDK|MX|checked)\b", lambda found: _SOURCES[found[0]], row.source),
        formula=" ".join(expressions[name].split()),
        at_most=row.at_most or (_ALL if row.unit == "ratio" else None),
    )


class _Expand(ast.NodeTransformer):
    """Replaces the name of a metric by its expression."""

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._expressions = expressions

    def visit_Name(self, node: ast.Name) -> Any:
        expression = self._expressions.get(node.id)
        return node if expression is None else self.visit(ast.parse(expression, mode="eval").body)
