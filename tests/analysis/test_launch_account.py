"""Account of the launch geometry: shares by hand for an MI300X with 304 compute units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.launch_account import LaunchShape, launch_account, launch_rate_share
from rocm_perf_lab.analysis.ledger import Cause
from rocm_perf_lab.target.catalog import load_target
from tests.builders.profiles import vec_copy_profile

if TYPE_CHECKING:
    from pathlib import Path


def shape(workgroups: int, slots: int = 8, waves: int = 4) -> LaunchShape:
    return LaunchShape(workgroups, waves, 304, slots, 4)


@pytest.mark.parametrize(
    ("workgroups", "idle", "tail"),
    [(76, 0.75, 0.0), (304, 0.0, 0.0), (456, 0.0, 0.25), (608, 0.0, 0.0), (305, 0.0, 1 - 305 / 608)],
)
def test_workgroups_per_compute_unit_decide_idle_units_and_the_tail(workgroups: int, idle: float, tail: float) -> None:
    found = shape(workgroups)

    assert found.idle_units == pytest.approx(idle)
    assert found.tail == pytest.approx(tail)


def test_a_tail_is_longer_if_workgroups_do_not_share_the_throughput() -> None:
    # 2,736 workgroups are 1.125 rounds of 2,432: the second round keeps 12.5 % of the slots busy. 9 on each unit are even.
    found = shape(2736)

    assert found.tail == 0.0
    assert found.longest_tail == pytest.approx(1 - 1.125 / 2)


def test_resident_wavefronts_are_limited_by_the_grid_or_by_the_occupancy() -> None:
    assert shape(304).resident_waves(8.0) == 1.0  # one workgroup of 4 wavefronts on 4 SIMDs
    assert shape(304, waves=1).resident_waves(8.0) == 0.25
    assert shape(24320).resident_waves(2.0) == 2.0


def test_the_copy_has_launch_overhead_and_a_small_tail(tmp_path: Path) -> None:
    # 4,096 workgroups: 13.47 per unit, 14 at most; 10 us of which 800 + 1,600 ns are the launch.
    account = launch_account(vec_copy_profile(tmp_path), 10_000)

    found = {part.cause: part for part in account.losses}
    assert found.keys() == {Cause.LAUNCH_OVERHEAD, Cause.TAIL}
    assert found[Cause.LAUNCH_OVERHEAD].share == pytest.approx(0.24)
    assert found[Cause.TAIL].share == pytest.approx(0.76 * (1 - 4096 / 304 / 14))
    assert account.reassigned == ()


def test_without_a_duration_there_is_no_launch_overhead(tmp_path: Path) -> None:
    assert Cause.LAUNCH_OVERHEAD not in {part.cause for part in launch_account(vec_copy_profile(tmp_path), None).losses}


def test_many_tiny_workgroups_are_bound_by_their_launch() -> None:
    target = load_target("mi300x")
    assert target.timing is not None
    each = 4 * target.timing.wave_launch_cycles + target.timing.workgroup_launch_cycles

    # 32 shader engines start 100 workgroups each.
    found = launch_rate_share(shape(3200), target, 100 * each * 2.0, 1.0)

    assert found == pytest.approx(0.5)
