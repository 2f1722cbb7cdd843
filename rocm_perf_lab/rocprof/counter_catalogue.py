"""Catalogue of hardware counters in `counters.yaml`: unit, meaning, and the certificate of emulated values."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from rocm_perf_lab.arch.registry import find_architecture
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.core.resources import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from rocm_perf_lab.rocprof.metrics import Metric

CATALOGUE_FILE = Path(__file__).with_name("counters.yaml")
Certificate = Literal["exact", "bounded", "estimated", "unavailable"]
_ORDER: tuple[Certificate, ...] = ("exact", "bounded", "estimated", "unavailable")
"""By decreasing certainty."""
_CHANNEL = re.compile(r"\[\d+\]$")


class CounterDescription(StrictModel):
    """Meaning of a hardware counter, and how certain its emulated value is."""

    certificate: Certificate
    unit: str = ""
    description: str
    bound: float | None = Field(default=None, ge=0)
    """Largest relative deviation from the recordings, for bounded counters."""
    scope: str = ""
    """What the recordings cover."""
    reason: str = ""
    """Why the counter is unavailable."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.certificate == "bounded") != (self.bound is not None):
            raise ValueError("a bounded counter has a bound, others have none")
        if (self.certificate == "unavailable") != bool(self.reason):
            raise ValueError("an unavailable counter has a reason, others have none")
        return self

    def __str__(self) -> str:
        if self.bound is None:
            return self.certificate
        seen = "equal to the recordings" if self.bound == 0 else f"within {100 * self.bound:g} % of the recordings"
        return f"bounded ({seen})"


class _Row(StrictModel):
    """A counter of the file: its description, the only counter sets that have it (all by default), and other values on some."""

    counter: CounterDescription
    only: tuple[str, ...]
    elsewhere: dict[str, CounterDescription]


def counter_catalogue(architecture: str | None = None) -> Mapping[str, CounterDescription]:
    """Return the description of every counter of an architecture by name, or of every counter of the catalogue."""
    described = None if architecture is None else find_architecture(architecture)
    return _catalogue_of(described.counter_set if described is not None and described.counters_catalogued else None)


@cache
def _catalogue_of(counter_set: str | None) -> Mapping[str, CounterDescription]:
    if counter_set is None:
        return MappingProxyType({name: row.counter for name, row in _rows().items()})
    rows = {name: row for name, row in _rows().items() if not row.only or counter_set in row.only}
    return MappingProxyType({name: row.elsewhere.get(counter_set, row.counter) for name, row in rows.items()})


@cache
def _rows() -> Mapping[str, _Row]:
    return MappingProxyType({name: _row(content) for name, content in load_yaml(CATALOGUE_FILE.read_text()).items()})


def _row(content: Mapping[str, Any]) -> _Row:
    shared = {key: value for key, value in content.items() if key not in ("only", "elsewhere")}
    meaning = {key: shared[key] for key in ("unit", "description") if key in shared}
    others = {one: {**meaning, **values} for sets, values in content.get("elsewhere", {}).items() for one in sets.split()}
    return _Row.model_validate({"counter": shared, "only": tuple(content.get("only", "").split()), "elsewhere": others})


def describe_counter(name: str, architecture: str | None = None) -> CounterDescription | None:
    """Return the description of a counter, or None if the catalogue does not have it.

    An L2 channel (`TCC_HIT[17]`) has the description of the total, but is estimated: its lines depend on physical addresses.

    Args:
        name: Name of the counter.
        architecture: Architecture whose certificate is returned; if omitted, that of most architectures.
    """
    catalogue = counter_catalogue(architecture)
    plain = _CHANNEL.sub("", name)
    found = catalogue.get(plain) or catalogue.get(f"{plain}_sum")
    if found is None or plain == name or found.certificate == "unavailable":
        return found
    return CounterDescription(certificate="estimated", unit=found.unit, description=found.description)


def has_catalogue(architecture: str) -> bool:
    """Return whether the catalogue describes the counters of an architecture."""
    described = find_architecture(architecture)
    return described is not None and described.counters_catalogued


def counter_certificates(architecture: str, names: Iterable[str]) -> dict[str, Certificate]:
    """Return the certificates of the described counters among `names`; empty for architectures without catalogue."""
    if not has_catalogue(architecture):
        return {}
    return {name: found.certificate for name in names if (found := describe_counter(name, architecture)) is not None}


def metric_certificate(architecture: str, metric: Metric) -> Certificate | None:
    """Return the certificate of an emulated metric; None for architectures without catalogue.

    Counters that may be missing do not matter, and a duration is an estimate.
    """
    weakest = weakest_certificate(architecture, (name for name in metric.counters if name not in metric.assume_zero))
    if weakest is None or not re.search(r"\bduration_ns\b", metric.expression):
        return weakest
    return max(weakest, "estimated", key=_ORDER.index)


def weakest_certificate(architecture: str, counters: Iterable[str]) -> Certificate | None:
    """Return the certificate of an emulated value that is computed from counters, or None for architectures without catalogue.

    A counter that the catalogue does not describe is unavailable.
    """
    if not has_catalogue(architecture):
        return None
    described = [describe_counter(name, architecture) for name in counters]
    certificates: list[Certificate] = [found.certificate if found else "unavailable" for found in described]
    return max(certificates, key=_ORDER.index, default="exact")
