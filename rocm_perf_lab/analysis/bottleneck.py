"""Bottleneck classification by the rules of `bottleneck.yaml`.

From a profile, its roofline and its counter metrics: the bottleneck, a confidence, reasons and next steps. A rule whose
evidence is missing is not evaluated.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.analysis.roofline import Roofline, Unavailable
from rocm_perf_lab.core.expressions import evaluate
from rocm_perf_lab.core.resources import load_yaml
from rocm_perf_lab.target.peaks import MemoryLevel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.metrics import MetricValue

_FILE = Path(__file__).with_name("bottleneck.yaml")
_LEAST_CONFIDENCE = 0.5
_COUNTERS_OF_LDS = ("SQ_INSTS_LDS", "SQ_INSTS_LDS_sum", "SQ_LDS_IDX_ACTIVE", "SQC_LDS_IDX_ACTIVE", "SQC_LDS_IDX_ACTIVE_sum")
"""If any of them is 0, the kernel does not use LDS."""


@dataclass(frozen=True)
class RuleEvidence:
    """Numbers that rules test, and text that their messages use; unknown values are absent."""

    numbers: Mapping[str, float]
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bottleneck:
    """Result of the classification. `others` are further matching rules, strongest first."""

    name: str
    confidence: float
    reasons: tuple[str, ...]
    recommendations: tuple[str, ...]
    others: tuple[str, ...]
    not_judged: tuple[str, ...]


class _Advice(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    reasons: tuple[str, ...]
    recommendations: tuple[str, ...]


class _Rule(_Advice):
    name: str
    when: str
    strength: str


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    achievable: dict[MemoryLevel, float]
    thresholds: dict[str, float]
    rules: tuple[_Rule, ...]
    balanced: _Advice
    unknown: _Advice


def classify(evidence: RuleEvidence) -> Bottleneck:
    """Classify the evidence: `balanced` if every rule was evaluated and none matched, `unknown` if some were not evaluated."""
    book = _rules()
    names = {**book.thresholds, **evidence.numbers}
    judged = [rule for rule in book.rules if _names_of(rule) <= set(names)]
    not_judged = tuple(
        f"{rule.name} (no {', '.join(sorted(_names_of(rule) - set(names)))})" for rule in book.rules if rule not in judged
    )
    matching = [rule for rule in judged if evaluate(rule.when, names, where=f"bottleneck rule {rule.name}")]
    matching.sort(key=lambda rule: -_strength(rule, names))
    if not matching and not_judged:
        return Bottleneck("unknown", 0.0, book.unknown.reasons, book.unknown.recommendations, (), not_judged)
    if not matching:
        balanced = book.balanced
        return Bottleneck("balanced", _LEAST_CONFIDENCE, balanced.reasons, balanced.recommendations, (), ())
    strongest = matching[0]
    words = {**evidence.numbers, **evidence.words}
    return Bottleneck(
        name=strongest.name,
        confidence=_LEAST_CONFIDENCE + _strength(strongest, names) * (1 - _LEAST_CONFIDENCE),
        reasons=tuple(text.format_map(words) for text in strongest.reasons),
        recommendations=tuple(text.format_map(words) for text in strongest.recommendations),
        others=tuple(rule.name for rule in matching[1:]),
        not_judged=not_judged,
    )


def gather_evidence(
    profile: Profile, roof: Roofline | Unavailable, metrics: Mapping[str, MetricValue], duration_ns: float
) -> RuleEvidence:
    """Return the values of profile, roofline and counter metrics under the names that the rules use."""
    occupancy = profile.occupancy
    x, y, z = profile.grid
    simds = profile.target.compute_units * profile.target.simds_per_cu
    groups_at_once = occupancy.waves_per_simd * simds / -(-profile.threads_per_block // profile.wave_size)
    numbers: dict[str, float | None] = {
        "occupancy": occupancy.fraction,
        "device_fill": x * y * z / groups_at_once,
        "duration_us": duration_ns / 1000,
        "wait_share": _value(metrics, "wait_share"),
        "lds_conflict_share": _value(metrics, "lds_conflict_share"),
        "achieved_occupancy": _possible(_value(metrics, "achieved_occupancy")),
        "atomic_share": _value(metrics, "atomic_share"),
        "valu_busy": _value(metrics, "valu_utilisation"),
    }
    if numbers["valu_busy"] is None:
        numbers["valu_busy"] = _value(metrics, "valu_issue_share")
    if _lds_is_unused(profile):
        numbers |= {"lds_conflict_share": 0.0, "lds_busy": 0.0}
    lanes = _value(metrics, "active_lanes")
    numbers["active_lanes"] = None if lanes is None else lanes / profile.wave_size
    words: dict[str, str] = {"limiter": occupancy.limiter}
    if isinstance(roof, Roofline):
        _add_memory(roof, metrics, numbers, words)
        _add_arithmetic(roof, metrics, numbers, words)
    return RuleEvidence({name: value for name, value in numbers.items() if value is not None}, words)


def _add_memory(
    roof: Roofline, metrics: Mapping[str, MetricValue], numbers: dict[str, float | None], words: dict[str, str]
) -> None:
    shares = {row.level: _possible(row.utilisation) for row in roof.memory} | {"mall": _from_mall(roof)}
    empirical = {row.level for row in roof.memory if row.peak_kind == "empirical"}
    achievable = {level: 1.0 if level in empirical else share for level, share in _rules().achievable.items()}
    looked_up = next((row.utilisation for row in roof.memory if row.level == "vector_l1"), None)
    shares["vector_l1"] = _least_lookups(looked_up)
    loads = _loads(shares, achievable)
    if max(loads.values(), default=0.0) < _rules().thresholds["loaded"]:
        # No level is certain to limit the kernel: the lookups may be exact.
        shares["vector_l1"] = _possible(looked_up) or shares["vector_l1"]
        loads = _loads(shares, achievable)
    numbers.update({str(level): share for level, share in shares.items()})
    if loads:
        level = max(loads, key=loads.__getitem__)
        words["memory_level"] = level
        numbers |= {"memory": shares[level], "memory_load": loads[level]}
    conflicts, useful = numbers["lds_conflict_share"], numbers.get("lds")
    if conflicts is not None and useful is not None and conflicts < 1:
        # Relative to the roof's clock. The clock of the counter pass, if known, was the same or slower.
        numbers["lds_busy"] = max(useful / (1 - conflicts), _possible(_value(metrics, "lds_utilisation")) or 0.0)


def _add_arithmetic(
    roof: Roofline, metrics: Mapping[str, MetricValue], numbers: dict[str, float | None], words: dict[str, str]
) -> None:
    lanes = numbers["active_lanes"]
    shares = {f"{row.unit} {row.data_type}": row.utilisation for row in roof.compute}
    issued = numbers["valu_busy"]
    # An issue slot with half of its lanes active counts half. Some instructions issue in pairs on MI300X: one per slot is full.
    shares["VALU issue slots"] = None if issued is None else min(issued, 1.0) * (1.0 if lanes is None else min(lanes, 1.0))
    shares["SALU issue slots"] = _value(metrics, "scalar_issue_share")
    shares["matrix cores"] = _value(metrics, "mfma_utilisation")
    units = {unit: share for unit, share in shares.items() if share is not None and _possible(share) is not None}
    if units:
        words["arithmetic_unit"] = max(units, key=units.__getitem__)
        numbers["arithmetic"] = units[words["arithmetic_unit"]]


def _possible(share: float | None) -> float | None:
    """Return the rate, or None above its roof: such a rate only indicates an error."""
    return share if share is not None and share <= 1 else None


def _from_mall(roof: Roofline) -> float | None:
    """Return the share of the MALL roof if traffic behind L2 exceeds DRAM bandwidth: MALL hits are part of that traffic."""
    rows = {row.level: row for row in roof.memory}
    fabric, mall = rows["dram"], rows.get("mall")
    if mall is None or fabric.gb_per_s is None or _possible(fabric.utilisation) is not None:
        return None
    return _possible(fabric.gb_per_s / mall.peak_gb_per_s)


def _loads(shares: Mapping[MemoryLevel, float | None], achievable: Mapping[MemoryLevel, float]) -> dict[MemoryLevel, float]:
    return {level: share / achievable[level] for level, share in shares.items() if share is not None}


def _least_lookups(share: float | None) -> float | None:
    """Return the proven share of L1 lookups: lanes of 8 bytes may count each lookup twice."""
    return None if share is None else _possible(share / 2)


def _value(metrics: Mapping[str, MetricValue], name: str) -> float | None:
    found = metrics.get(name)
    return None if found is None else found.value


def _lds_is_unused(profile: Profile) -> bool:
    """Return True if no LDS instruction was counted; other LDS counters may then be missing and their ratios undefined."""
    return any(counters.get(name) == 0 for counters in profile.counter_passes for name in _COUNTERS_OF_LDS)


def _strength(rule: _Rule, names: Mapping[str, float]) -> float:
    return min(1.0, max(0.0, float(evaluate(rule.strength, names, where=f"bottleneck rule {rule.name}"))))


def _names_of(rule: _Rule) -> set[str]:
    functions = {"max", "min"}
    trees = (ast.parse(text, mode="eval") for text in (rule.when, rule.strength))
    return {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)} - functions


@cache
def _rules() -> _Rules:
    return _Rules.model_validate(load_yaml(_FILE.read_text()))
