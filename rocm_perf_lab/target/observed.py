"""Target of the GPU in a trace: facts from the catalog, corrected by the properties that the trace records.

Traces of other machines contain partitions (CPX), products that the catalog does not have (MI210, MI300A, MI308X) and
architectures without a target. Ratios per compute unit and XCD must be those of the GPU that ran, so recorded counts take
precedence over the catalog, unless they cannot be true: no XCD has 304 compute units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.arch.registry import find_architecture, generation_architecture
from rocm_perf_lab.target.catalog import TargetError, is_same_product, target_of
from rocm_perf_lab.target.model import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.arch.model import LdsPool

ASSUMED = "the GPU is assumed: peaks and shares of its units may be those of another GPU"
_RECORDED_FACTS = {
    "cu_count": "compute_units",
    "num_xcc": "xcds",
    "num_shader_banks": "shader_engines",
    "max_engine_clk_fcompute": "max_clock_mhz",
}
"""Property of an agent (rocprofiler_agent_v0_t) -> fact of a target."""
_LARGEST_XCD, _SMALLEST_XCD = 1.25, 0.6
"""Range of the compute units per XCD, relative to the catalog's product of the architecture."""
_ABOVE_MAXIMUM = 1.1
_SLOWEST, _FASTEST = 0.5, 1.4
"""Range of the maximum clock, likewise."""
_BANDWIDTHS = ("dram_gb_per_s", "l2_gb_per_s", "vector_l1_gb_per_s", "lds_gb_per_s", "mall_gb_per_s")


@dataclass(frozen=True)
class ObservedTarget:
    """A target, and notes about facts that differ from the catalog or were assumed."""

    target: Target
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Reasons why figures that depend on the target may be wrong."""


def observed_target(architecture: str, product_name: str, properties: Mapping[str, Any], preferred: Target) -> ObservedTarget:
    """Return the target of an agent.

    Args:
        architecture: Architecture of the agent, for example `gfx942:sramecc+:xnack-`; empty if the trace does not name it.
        product_name: Name reported by the driver.
        properties: Properties of the agent under the names of rocprofiler_agent_v0_t.
        preferred: Target to use if the trace does not identify its GPU, and among GPUs of one architecture.

    Raises:
        TargetError: Neither the architecture nor its GFX generation is known.
    """
    processor = architecture.partition(":")[0]
    if not processor:
        note = f"the trace does not identify its GPU: {preferred.product_name} is assumed, --target chooses another"
        return ObservedTarget(preferred, (note,), (ASSUMED,))
    try:
        known = target_of(architecture, product_name, preferred)
    except TargetError:
        nearest = generation_architecture(processor)
        if nearest is None:
            raise
        return _without_target(target_of(nearest.name, ""), processor, product_name, properties)
    return _corrected(known, product_name, properties)


def with_implied_clock(found: ObservedTarget, clock_mhz: float | None) -> ObservedTarget:
    """Return a target whose maximum clock and XCDs agree with the clock that counters imply.

    If neither the catalog's clock nor its number of XCDs explains the counters, a note marks the figures that depend on them.

    Args:
        found: The target of the recording.
        clock_mhz: Clock implied by cycle counters and times; None if unknown.
    """
    target = found.target
    if clock_mhz is None or clock_mhz <= _ABOVE_MAXIMUM * target.max_clock_mhz:
        return found
    try:
        known = target_of(target.architecture, target.product_name)
    except TargetError:
        known = target
    stated = f"counters imply a clock of {clock_mhz:,.0f} MHz, above the maximum of {target.max_clock_mhz:,} MHz"
    if clock_mhz <= _ABOVE_MAXIMUM * known.max_clock_mhz:
        fixed, used = _with_facts(target, {"max_clock_mhz": known.max_clock_mhz}), f"{known.max_clock_mhz:,} MHz"
    elif target.xcds < known.xcds and clock_mhz * target.xcds <= _ABOVE_MAXIMUM * known.max_clock_mhz * known.xcds:
        fixed, used = _with_facts(target, {"xcds": known.xcds}), f"{known.xcds} XCDs"
    else:
        doubt = f"{stated}: rates per clock and shares of cycles are unreliable"
        return replace(found, notes=(*found.notes, doubt), doubts=(*found.doubts, doubt))
    return replace(found, target=fixed, notes=(*found.notes, f"{stated}: {used} are used"))


def _corrected(known: Target, product_name: str, properties: Mapping[str, Any]) -> ObservedTarget:
    changed, doubts = _possible(known, _differing(known, properties))
    same = not product_name or is_same_product(known.product_name, product_name)
    if same and not changed:
        return ObservedTarget(known, doubts)
    names = {} if same else {"name": product_name.split()[-1].lower(), "product_name": product_name}
    facts = ", ".join(f"{fact.replace('_', ' ')} {value}" for fact, value in changed.items())
    note = f"the GPU is {product_name or known.product_name}" + (f" and reports {facts}" if facts else "")
    note += f"; bandwidths of MALL and DRAM are those of {known.product_name}" if not same else ""
    return ObservedTarget(_with_facts(known, {**names, **changed}), (note, *doubts))


def _possible(known: Target, recorded: dict[str, int]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the recorded facts that can be true, and a note on those that cannot, which are replaced by the catalog's."""
    facts = dict(recorded)
    units, xcds = facts.get("compute_units", known.compute_units), facts.get("xcds", known.xcds)
    per_xcd = known.compute_units / known.xcds
    if units > _LARGEST_XCD * per_xcd * xcds:
        facts.pop("xcds", None)
        if units % per_xcd == 0 and units != known.compute_units:
            facts["xcds"] = int(units / per_xcd)
        elif units > _LARGEST_XCD * known.compute_units:
            facts.pop("compute_units", None)
    elif xcds == known.xcds and units < _SMALLEST_XCD * known.compute_units:
        facts.pop("compute_units", None)
    engines = facts.get("xcds", known.xcds) * known.shader_engines // known.xcds
    if "shader_engines" in facts and facts["shader_engines"] != engines:
        del facts["shader_engines"]
    if engines != known.shader_engines:
        facts["shader_engines"] = engines
    clock = facts.get("max_clock_mhz", known.max_clock_mhz)
    if not _SLOWEST * known.max_clock_mhz <= clock <= _FASTEST * known.max_clock_mhz:
        del facts["max_clock_mhz"]
    wrong = {fact: value for fact, value in recorded.items() if facts.get(fact, getattr(known, fact)) != value}
    if not wrong:
        return facts, ()
    listed = ", ".join(
        f"{fact.replace('_', ' ')} {value} (used: {facts.get(fact, getattr(known, fact))})" for fact, value in wrong.items()
    )
    return facts, (f"the recording describes its GPU wrongly: {listed}",)


def _without_target(nearest: Target, processor: str, product_name: str, properties: Mapping[str, Any]) -> ObservedTarget:
    """Return a target without peaks: recorded facts, and the limits of its architecture or else of the nearest target."""
    names = {"name": processor, "product_name": product_name or processor, "architecture": processor}
    unknown = nearest.peaks.model_copy(
        update={"vector_flops_per_cu_clock": {}, "matrix_flops_per_cu_clock": {}, **dict.fromkeys(_BANDWIDTHS)}
    )
    facts: dict[str, Any] = {**_differing(nearest, properties), **names, "timing": None, "driver": None}
    described = find_architecture(processor)
    if described is None:
        facts["lds"] = _lds_of(nearest, properties.get("lds_size_in_kb"))
    target = _with_facts(nearest, facts).model_copy(update={"peaks": unknown})
    if described is not None:
        limits = {**described.target_defaults(), "timing": None, "driver": None}
        limits["caches"] = {**nearest.caches.model_dump(), **limits["caches"]}
        target = Target.model_validate({**target.model_dump(), **limits})
    assumed = "peaks are" if described else f"occupancy uses the limits of {nearest.architecture}; peaks and metrics are"
    return ObservedTarget(target, (f"no target describes {processor}: {assumed} not available",))


def _lds_of(nearest: Target, kilobytes: object) -> Mapping[str, LdsPool]:
    if not isinstance(kilobytes, int) or kilobytes * 1024 <= nearest.lds_pool.max_per_workgroup_bytes:
        return nearest.lds
    size = {"bytes": max(kilobytes * 1024, nearest.lds_pool.bytes), "max_per_workgroup_bytes": kilobytes * 1024}
    return {mode: pool.model_copy(update=size) for mode, pool in nearest.lds.items()}


def _differing(known: Target, properties: Mapping[str, Any]) -> dict[str, int]:
    recorded = {fact: properties.get(name) for name, fact in _RECORDED_FACTS.items()}
    return {fact: value for fact, value in recorded.items() if isinstance(value, int) and 0 < value != getattr(known, fact)}


def _with_facts(known: Target, facts: Mapping[str, Any]) -> Target:
    """Return the target with other facts, and with cache and LDS bandwidths scaled to them."""
    target = known.model_copy(update=facts)
    clock = target.max_clock_mhz / known.max_clock_mhz
    by_units = clock * target.compute_units / known.compute_units
    by_dies = clock * target.xcds / known.xcds
    peaks = known.peaks
    scaled = {
        "l2_gb_per_s": _times(peaks.l2_gb_per_s, by_dies),
        "vector_l1_gb_per_s": _times(peaks.vector_l1_gb_per_s, by_units),
        "lds_gb_per_s": _times(peaks.lds_gb_per_s, by_units),
    }
    return target.model_copy(update={"peaks": peaks.model_copy(update=scaled)})


def _times(bandwidth: float | None, factor: float) -> float | None:
    return None if bandwidth is None else bandwidth * factor
