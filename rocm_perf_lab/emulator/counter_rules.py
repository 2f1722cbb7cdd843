"""Counters that follow from events of a launch, by the rules of `counter_rules.yaml`."""

from __future__ import annotations

import ast
import operator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.resources import load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Number = int | float
    Rule = Callable[[Mapping[str, Any]], Any]

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def execution_counters(events: Mapping[str, int], counter_set: str) -> dict[str, int]:
    """Return the counters of the functional run, including those that are zero because an instruction class does not occur.

    Args:
        events: Counters of instruction classes and events of the runtime, by name.
        counter_set: Counters of the architecture.
    """
    counters = {name: value for name, value in events.items() if is_counter(name)}
    values: dict[str, Number] = dict(events)
    for name, rule in _rules("execution", counter_set).items():
        values[name] = counters[name] = int(rule(values))
    for name, class_counter in _section("zero_without", counter_set).items():
        if values.get(class_counter, 0) == 0:
            counters[name] = 0
    return counters


def model_counters(section: str, counter_set: str, values: Mapping[str, Number]) -> dict[str, float]:
    """Return the counters of a section (`timing`, `shared_totals`) whose rules have all values, rounded.

    A difference of two estimates that is negative makes no counter.
    """
    counters = {}
    for name, rule in _rules(section, counter_set).items():
        try:
            value = round(rule(values))
        except KeyError:
            continue
        if value >= 0:
            counters[name] = float(value)
    return counters


def array_counters(section: str, counter_set: str, values: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Return the counters of a section for several units at once, rounded, (n_units) each.

    Args:
        section: Section whose rules have all values.
        counter_set: Counters of the architecture.
        values: Events of the units, (n_units) each.
    """
    units = np.zeros(len(next(iter(values.values()))))
    return {name: np.round(units + rule(values)) for name, rule in _rules(section, counter_set).items()}


def counters_of(section: str, counter_set: str) -> tuple[str, ...]:
    """Return the names of the counters of an architecture that a section can make."""
    return tuple(_section(section, counter_set))


def is_counter(name: str) -> bool:
    """Return whether a name is a hardware counter rather than an event."""
    return name[0].isupper()


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = load_yaml(Path(__file__).with_suffix(".yaml").read_text())
    return table


def _section(section: str, counter_set: str) -> dict[str, Any]:
    """Return the rows of a section for one counter set; the keys of a mapping are the sets that have the counter."""
    found = {}
    for name, row in _table()[section].items():
        by_sets = row.items() if isinstance(row, dict) else [(counter_set, row)]
        for sets, rule in by_sets:
            if counter_set in sets.split():
                found[name] = rule
    return found


@cache
def _rules(section: str, counter_set: str) -> dict[str, Rule]:
    return {name: _compiled(ast.parse(str(text), mode="eval").body) for name, text in _section(section, counter_set).items()}


def _compiled(node: ast.expr) -> Rule:
    if isinstance(node, ast.Name):
        return operator.itemgetter(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        constant = node.value
        return lambda _values: constant
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        apply, left, right = _OPERATORS[type(node.op)], _compiled(node.left), _compiled(node.right)
        return lambda values: apply(left(values), right(values))
    raise ValueError(f"counter rule: {ast.unparse(node)!r} is not a sum, product or quotient of names and numbers")
