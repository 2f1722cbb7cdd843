"""The target of a GPU that a trace is of: what the catalog knows of it, corrected by what the GPU says of itself.

A partition (CPX), a product beside the catalogued one (MI210, MI300A, MI308X) and an architecture that no target describes all
occur in traces of other machines. Ratios per compute unit and XCD must be those of the GPU that ran, so its own count of
them wins over the catalog's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.target.catalog import TargetError, is_same_product, load_target, target_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.target.model import Target

_STATED = {
    "cu_count": "compute_units",
    "num_xcc": "xcds",
    "num_shader_banks": "shader_engines",
    "max_engine_clk_fcompute": "max_clock_mhz",
}
"""Property of an agent (rocprofiler_agent_v0_t) -> fact of a target."""
_KIN = {"gfx9": "mi300x", "gfx1": "rx6800xt"}
"""Whose rules of registers and LDS come nearest, by the beginning of the architecture's name."""


@dataclass(frozen=True)
class ObservedTarget:
    """A target, and in `notes` what of it is not the catalog's or had to be assumed."""

    target: Target
    notes: tuple[str, ...] = ()


def observed_target(architecture: str, product_name: str, properties: Mapping[str, Any], preferred: Target) -> ObservedTarget:
    """The target of an agent.

    Args:
        architecture: Of the agent, for example `gfx942:sramecc+:xnack-`; empty where the trace does not name it.
        product_name: As the driver states it.
        properties: What the runtime reports of the agent, under the names of rocprofiler_agent_v0_t.
        preferred: Taken where the trace does not name its GPU, and among GPUs of one architecture.

    Raises:
        TargetError: Neither the architecture nor one that resembles it is known.
    """
    processor = architecture.partition(":")[0]
    if not processor:
        return ObservedTarget(
            preferred, (f"the trace does not name its GPU: {preferred.product_name} is assumed, --target chooses another",)
        )
    try:
        known = target_of(architecture, product_name, preferred)
    except TargetError:
        kin = next((name for begin, name in _KIN.items() if processor.startswith(begin)), None)
        if kin is None:
            raise
        return _relative(load_target(kin), processor, product_name, properties)
    return _corrected(known, product_name, properties)


def _corrected(known: Target, product_name: str, properties: Mapping[str, Any]) -> ObservedTarget:
    changed = _differing(known, properties)
    same = not product_name or is_same_product(known.product_name, product_name)
    if same and not changed:
        return ObservedTarget(known)
    names = {} if same else {"name": product_name.split()[-1].lower(), "product_name": product_name}
    facts = ", ".join(f"{fact.replace('_', ' ')} {value}" for fact, value in changed.items())
    note = f"the GPU is {product_name or known.product_name}" + (f" and states {facts}" if facts else "")
    note += f"; bandwidths of MALL and DRAM are those of {known.product_name}" if not same else ""
    return ObservedTarget(_with(known, {**names, **changed}), (note,))


def _relative(kin: Target, processor: str, product_name: str, properties: Mapping[str, Any]) -> ObservedTarget:
    """An architecture that no target describes: the rules of its kin, its own facts, and no peaks."""
    names = {"name": processor, "product_name": product_name or processor, "architecture": processor}
    unknown = kin.peaks.model_copy(
        update={"vector_flops_per_cu_clock": {}, "matrix_flops_per_cu_clock": {}, **dict.fromkeys(_BANDWIDTHS)}
    )
    kilobytes = properties.get("lds_size_in_kb")
    lds = kin.lds
    if isinstance(kilobytes, int) and kilobytes * 1024 > kin.lds_pool.max_per_workgroup_bytes:
        size = {"bytes": max(kilobytes * 1024, kin.lds_pool.bytes), "max_per_workgroup_bytes": kilobytes * 1024}
        lds = {mode: pool.model_copy(update=size) for mode, pool in kin.lds.items()}
    target = _with(kin, {**_differing(kin, properties), **names, "lds": lds, "timing": None})
    note = f"no target describes {processor}: occupancy is by the rules of {kin.architecture}; there are no peaks and no metrics"
    return ObservedTarget(target.model_copy(update={"peaks": unknown}), (note,))


_BANDWIDTHS = ("dram_gb_per_s", "l2_gb_per_s", "vector_l1_gb_per_s", "lds_gb_per_s", "mall_gb_per_s")


def _differing(known: Target, properties: Mapping[str, Any]) -> dict[str, int]:
    stated = {fact: properties.get(name) for name, fact in _STATED.items()}
    return {fact: value for fact, value in stated.items() if isinstance(value, int) and 0 < value != getattr(known, fact)}


def _with(known: Target, facts: Mapping[str, Any]) -> Target:
    """Other facts, with the bandwidths that follow from them."""
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
