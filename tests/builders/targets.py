"""Targets of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from rocm_perf_lab.target.model import Target


def mi300x() -> Target:
    """Return AMD Instinct MI300X."""
    return load_target("mi300x")


def mi250x() -> Target:
    """Return one GCD of an AMD Instinct MI250X."""
    return load_target("mi250x")


def target_of(architecture: str) -> Target:
    """Return one product of an emulated architecture."""
    products = {"gfx90a": "mi250x", "gfx942": "mi300x", "gfx950": "mi355x", "gfx1030": "rx6800xt"}
    return load_target(products[architecture])


def rx6800xt() -> Target:
    """Return AMD Radeon RX 6800 XT."""
    return load_target("rx6800xt")
