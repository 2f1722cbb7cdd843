"""Comparison of two sources on a device with varying times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.core.resources import load_yaml, resource_dir
from rocm_perf_lab.jobs.optimize.bench import KernelBench, deciding_counts
from rocm_perf_lab.optimize.bench import MeasuredSource
from rocm_perf_lab.optimize.counter_rule import DECIDING_COUNTERS
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.profiling.counter_passes import counters_for
from rocm_perf_lab.statistics.error_bands import RatioBand
from rocm_perf_lab.statistics.interleaving import runs_old_first
from rocm_perf_lab.statistics.paired_test import AcceptanceRule

if TYPE_CHECKING:
    from pathlib import Path

OLD = Proposal.of("old", transform="none", description="", parent=None)
NEW = Proposal.of("new", transform="none", description="", parent=OLD)


@dataclass
class Drifting:
    """A GPU that gets slower with every run; the new source needs 80 % of the old time."""

    order: list[str] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def time_ns(self, compiled: Any, directory: Path, *, dispatches: int) -> float:
        """Return the time of the proposal that the directory is named after."""
        self.order.append(directory.name)
        drift = 1 + 0.05 * len(self.order)
        return float((800 if directory.name == NEW.id else 1000) * drift * self.random.normal(1, 0.005))


def test_the_order_within_pairs_is_random_so_that_drift_cancels(tmp_path: Path) -> None:
    device: Any = Drifting()
    unused: Any = None
    bench = KernelBench(device, tmp_path, "k.hip", band=None, dispatches=3, sandbox=unused, checker=unused)
    bench._compiled = {OLD.id: unused, NEW.id: unused}

    comparison = bench.compare(MeasuredSource(OLD, 1.0), MeasuredSource(NEW, 1.0), AcceptanceRule(0.02))

    first = [OLD.id if runs_old_first(f"{OLD.id} {NEW.id}", number) else NEW.id for number in range(16)]
    assert device.order[::2] == first
    assert set(first) == {OLD.id, NEW.id}
    assert device.order.count(OLD.id) == device.order.count(NEW.id) == comparison.pairs == 16
    assert abs(comparison.improvement - 0.2) < 0.02
    assert AcceptanceRule(0.02).accepts(comparison)


def test_emulated_times_are_compared_with_their_error_band(tmp_path: Path) -> None:
    unused: Any = None
    band = RatioBand(coverage=0.95, factor=1.25)
    bench = KernelBench(unused, tmp_path, "k.hip", band=band, dispatches=3, sandbox=unused, checker=unused)

    inside = bench.compare(MeasuredSource(OLD, 1000.0), MeasuredSource(NEW, 900.0), AcceptanceRule(0.02))
    beyond = bench.compare(MeasuredSource(OLD, 1000.0), MeasuredSource(NEW, 600.0), AcceptanceRule(0.02))

    assert (inside.improvement, inside.least, inside.most) == pytest.approx((0.1, -0.125, 0.28))
    assert inside.is_indistinguishable
    assert not AcceptanceRule(0.02).accepts(inside)
    assert (beyond.improvement, beyond.least) == pytest.approx((0.4, 0.25))
    assert AcceptanceRule(0.02).accepts(beyond)


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950"])
def test_the_shipped_counters_decide_on_every_architecture(architecture: str) -> None:
    absent = {
        "gfx90a": {"SQ_INSTS_VALU_MFMA_MOPS_F8", "SQ_INSTS_VALU_MFMA_MOPS_F6F4"},
        "gfx942": {"SQ_INSTS_VALU_MFMA_MOPS_F6F4"},
        "gfx950": set(),
    }[architecture]
    shipped = load_yaml((resource_dir("conf") / "passes" / "default.yaml").read_text())["counters"]

    found = deciding_counts(dict.fromkeys(counters_for(architecture, shipped), 7.0), architecture)

    assert set(found) == set(DECIDING_COUNTERS)
    assert {name for name, value in found.items() if value == 0} == absent


def test_a_counter_that_was_not_collected_is_not_zero() -> None:
    assert "SQ_INSTS_VALU" not in deciding_counts({"SQ_INSTS_LDS": 1.0}, "gfx90a")
