"""The targets that tests run against, as the lab ships them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from rocm_perf_lab.target.model import Target


def mi300x() -> Target:
    """AMD Instinct MI300X."""
    return load_target("mi300x")


def mi250x() -> Target:
    """One GCD of an AMD Instinct MI250X."""
    return load_target("mi250x")


def rx6800xt() -> Target:
    """AMD Radeon RX 6800 XT."""
    return load_target("rx6800xt")
