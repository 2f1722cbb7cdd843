"""Occupancy: LLVM's number on measured rows, that of the hardware on cases computed by hand."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.occupancy import LaunchImpossible, OccupancyRequest, launch_occupancy, mode_of, occupancy
from tests.builders.targets import mi250x, mi300x, rx6800xt

ROWS = Path(__file__).parent.parent / "data" / "llvm_occupancy.csv"
TARGETS = {"gfx942": mi300x(), "gfx90a": mi250x(), "gfx1030": rx6800xt()}

requests = st.builds(
    OccupancyRequest,
    vgprs=st.integers(1, 256),
    agprs=st.integers(0, 256),
    sgprs=st.integers(0, 108),
    lds_bytes=st.integers(0, 65536),
    workgroup_size=st.tuples(st.integers(1, 1024), st.integers(1, 1024)).map(lambda pair: (min(pair), max(pair))),
)


def measured_rows() -> list[dict[str, str]]:
    lines = ROWS.read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def request_of(row: dict[str, str]) -> OccupancyRequest:
    _, _, cap = row["waves_per_eu_attr"].partition("..")
    return OccupancyRequest(
        vgprs=int(row["arch_vgprs"]),
        agprs=int(row["agprs"]),
        sgprs=int(row["total_sgprs"]),
        lds_bytes=int(row["lds_bytes"]),
        workgroup_size=(int(row["wg_size_min"]), int(row["wg_size_max"])),
        mode=row["mode"],
        waves_per_eu_max=int(cap) if cap else None,
    )


def test_the_occupancy_equals_llvms_for_every_measured_kernel() -> None:
    rows = measured_rows()

    wrong = [row for row in rows if occupancy(TARGETS[row["arch"]], request_of(row)).waves_per_simd != int(row["occupancy"])]

    assert len(rows) == 1347
    assert wrong == []


def test_a_kernel_of_few_resources_fills_all_wave_slots() -> None:
    result = occupancy(mi300x(), OccupancyRequest(vgprs=32, sgprs=16))

    assert (result.waves_per_simd, result.fraction, result.limiter) == (8, 1.0, "wave slots")
    assert result.what_if == ()


def test_83_vgprs_allow_five_waves_and_three_fewer_would_allow_six() -> None:
    result = occupancy(mi300x(), OccupancyRequest(vgprs=83))

    assert (result.waves_per_simd, result.limiter) == (5, "vgpr")
    assert result.what_if == ("saving 3 VGPRs allows one more wave per SIMD",)


def test_agprs_are_allocated_from_the_same_file() -> None:
    # 61 rounds up to 64 architectural registers, plus 64 accumulation ones: 128 of 512.
    assert occupancy(mi300x(), OccupancyRequest(vgprs=61, agprs=64)).waves_per_simd == 4


def test_a_launch_counts_whole_workgroups_only() -> None:
    # 200 VGPRs: 2 waves on each of 4 SIMDs, 8 in all, which hold one group of 5 waves.
    request = OccupancyRequest(vgprs=200, workgroup_size=(320, 320))

    assert occupancy(mi300x(), request).waves_per_simd == 2
    launch = launch_occupancy(mi300x(), request)
    assert (launch.waves_per_simd, launch.workgroups_per_cu, launch.limiter) == (1.25, 1, "vgpr")
    assert launch.fraction == 1.25 / 8


def test_a_launch_allocates_lds_in_granules() -> None:
    # 65536 / 16384 = 4 groups of 4 waves; one more byte needs another granule of 512 bytes: 3 groups.
    full = launch_occupancy(mi300x(), OccupancyRequest(vgprs=32, lds_bytes=16384, workgroup_size=(256, 256)))
    over = launch_occupancy(mi300x(), OccupancyRequest(vgprs=32, lds_bytes=16385, workgroup_size=(256, 256)))

    assert (full.workgroups_per_cu, full.waves_per_simd, full.limiter) == (4, 4, "lds")
    assert (over.workgroups_per_cu, over.waves_per_simd) == (3, 3)
    assert over.what_if == ("saving 1 byte of LDS allows one more wave per SIMD",)


def test_barrier_slots_limit_small_workgroups() -> None:
    # Groups of 33 work-items are 2 waves of 32: the 32 wave slots of a CU would hold 16 groups, which is also the maximum.
    result = launch_occupancy(rx6800xt(), OccupancyRequest(vgprs=16, workgroup_size=(33, 33), mode="wave32-cu"))

    assert (result.workgroups_per_cu, result.waves_per_simd) == (16, 16)
    assert launch_occupancy(mi300x(), OccupancyRequest(vgprs=16, workgroup_size=(64, 64))).workgroups_per_cu == 32


def test_two_limits_at_once_need_both_savings() -> None:
    # 129 VGPRs: 3 waves. 21 KiB of LDS: 3 groups of 4 waves.
    request = OccupancyRequest(vgprs=129, lds_bytes=21 * 1024, workgroup_size=(256, 256))

    result = launch_occupancy(mi300x(), request)

    assert result.what_if == ("saving 1 VGPR and 5120 bytes of LDS allows one more wave per SIMD",)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (OccupancyRequest(vgprs=8, workgroup_size=(2048, 2048)), "2048 work-items"),
        (OccupancyRequest(vgprs=8, lds_bytes=65537, workgroup_size=(64, 64)), "65537 bytes of LDS"),
        (OccupancyRequest(vgprs=256, agprs=257, workgroup_size=(64, 64)), "513 VGPRs"),
        (OccupancyRequest(vgprs=200, workgroup_size=(1024, 1024)), "16 wavefronts of 200 VGPRs"),
        (OccupancyRequest(vgprs=8, workgroup_size=(64, 128)), "one workgroup size"),
        (OccupancyRequest(vgprs=8, workgroup_size=(64, 64), mode="wave32-cu"), "no mode 'wave32-cu'"),
    ],
)
def test_an_impossible_launch_reports_the_exceeded_limit(request_: OccupancyRequest, complaint: str) -> None:
    with pytest.raises(LaunchImpossible, match=complaint):
        launch_occupancy(mi300x(), request_)


@given(requests)
def test_the_suggested_saving_is_sufficient_and_minimal(request_: OccupancyRequest) -> None:
    before = occupancy(mi300x(), request_)
    step = before.improvement
    if step is None:
        return
    saved = replace(
        request_,
        vgprs=request_.vgprs - step.vgprs,
        sgprs=request_.sgprs - step.sgprs,
        lds_bytes=request_.lds_bytes - step.lds_bytes,
    )

    after = occupancy(mi300x(), saved)

    assert after.waves_per_simd == before.waves_per_simd + step.gain > before.waves_per_simd
    if step.vgprs:
        one_more_register = replace(saved, vgprs=saved.vgprs + 1)
        assert occupancy(mi300x(), one_more_register).waves_per_simd == before.waves_per_simd


@given(requests, st.integers(0, 64), st.integers(0, 4096))
def test_using_less_never_lowers_the_occupancy(request_: OccupancyRequest, vgprs: int, lds_bytes: int) -> None:
    less = replace(request_, vgprs=max(0, request_.vgprs - vgprs), lds_bytes=max(0, request_.lds_bytes - lds_bytes))

    assert occupancy(mi300x(), less).waves_per_simd >= occupancy(mi300x(), request_).waves_per_simd


@pytest.mark.parametrize(("lds_bytes", "waves"), [(20480, 8), (32768, 5), (65536, 2), (81920, 2), (81924, 1), (163840, 1)])
def test_gfx950_has_more_lds(lds_bytes: int, waves: int) -> None:
    # As clang 22 prints it for workgroups of 256 work-items.
    request = OccupancyRequest(16, lds_bytes=lds_bytes, workgroup_size=(256, 256))

    assert occupancy(load_target("mi355x"), request).waves_per_simd == waves


@pytest.mark.parametrize(
    ("wave_size", "spread", "mode", "groups", "waves"),
    [
        # 20 KiB: 6 groups of the 128 KiB of a WGP with 4 SIMDs, or 3 of the 64 KiB of a CU with 2.
        (32, True, "wave32-wgp", 6, 6 * 8 / 4),
        (32, False, "wave32-cu", 3, 3 * 8 / 2),
        (64, True, "wave64-wgp", 6, 6 * 4 / 4),
        (64, False, "wave64-cu", 3, 3 * 4 / 2),
        (32, None, "wave32-wgp", 6, 12),
        (None, None, "wave32-wgp", 6, 12),
    ],
)
def test_the_kernel_selects_the_mode_of_rdna(
    wave_size: int | None, spread: bool | None, mode: str, groups: int, waves: float
) -> None:
    request = OccupancyRequest(
        vgprs=16, lds_bytes=20480, workgroup_size=(256, 256), wave_size=wave_size, workgroup_processor=spread
    )

    result = launch_occupancy(rx6800xt(), request)

    assert mode_of(rx6800xt(), request) == mode
    assert (result.workgroups_per_cu, result.waves_per_simd, result.limiter) == (groups, waves, "lds")


def test_cdna_has_one_mode_for_all_kernels() -> None:
    assert mode_of(mi300x(), OccupancyRequest(vgprs=8, wave_size=64, workgroup_processor=False)) == "wave64"
