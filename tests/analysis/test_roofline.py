"""Rooflines of a real copy kernel, and of counters whose work is known by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.kernel_ledger import kernel_ledger
from rocm_perf_lab.analysis.roofline import Roofline, Unavailable, evaluate_metrics, headroom, roofline
from rocm_perf_lab.target.peaks import MeasuredPeaks
from tests.builders.profiles import VEC_COPY_NS, vec_copy_counters, vec_copy_profile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MIB = 1024 * 1024


def placed(directory: Path, counters: Mapping[str, float] | None = None) -> Roofline:
    profile = vec_copy_profile(directory, counters)
    found = roofline(profile, evaluate_metrics(profile))
    assert isinstance(found, Roofline), found
    return found


def test_a_copy_has_zero_intensity_and_is_memory_bound(tmp_path: Path) -> None:
    found = placed(tmp_path)

    assert found.dram_bytes == pytest.approx(16 * MIB, rel=0.005)
    assert (found.flops, found.intensity, found.position) == (0.0, 0.0, "memory_bound")
    assert found.gb_per_s == pytest.approx(16 * MIB / VEC_COPY_NS, rel=0.005)
    assert found.implausible == ()


def test_the_roofs_are_those_of_the_mi300x(tmp_path: Path) -> None:
    found = placed(tmp_path)

    # 304 CUs * 128 FLOP * 2.1 GHz; 128 channels * 32 B * 1.3 GHz.
    assert found.peak_gflop_per_s == pytest.approx(81715.2)
    assert found.peak_gb_per_s == 5324.8
    assert found.ridge == pytest.approx(81715.2 / 5324.8)
    assert {row.level: row.peak_gb_per_s for row in found.memory}["l2"] == 34406.4


def test_every_level_of_memory_has_its_own_traffic(tmp_path: Path) -> None:
    rows = {row.level: row for row in placed(tmp_path).memory}

    assert rows["l2"].bytes == 16 * MIB
    assert rows["vector_l1"].bytes == 64 * 524288
    assert rows["lds"].bytes == 0.0
    assert rows["lds"].intensity is None
    assert rows["dram"].utilisation == pytest.approx(16792512 / VEC_COPY_NS / 5324.8)


def test_many_fmas_on_few_bytes_are_compute_bound(tmp_path: Path) -> None:
    # 1e6 wavefront FMAs = 128e6 FLOP in 10 us = 12 800 GFLOP/s, on 16.8 MB: intensity 7.6, so still below the ridge;
    # five times as many lie above it.
    below = placed(tmp_path, {**vec_copy_counters(), "SQ_INSTS_VALU_FMA_F32": 1e6})
    above = placed(tmp_path, {**vec_copy_counters(), "SQ_INSTS_VALU_FMA_F32": 5e6})

    assert below.gflop_per_s == pytest.approx(12800)
    assert below.intensity == pytest.approx(128e6 / 16792512)
    assert (below.position, above.position) == ("memory_bound", "compute_bound")


def test_mixed_types_have_a_mixed_peak(tmp_path: Path) -> None:
    # Equal work in F32 (81.7 TFLOP/s) and F16 (163.4) on the vector units: 2 / (1 / 81.7 + 1 / 163.4) = 108.95.
    counters = {**vec_copy_counters(), "SQ_INSTS_VALU_FMA_F32": 1000.0, "SQ_INSTS_VALU_FMA_F16": 1000.0}

    assert placed(tmp_path, counters).peak_gflop_per_s == pytest.approx(108953.6)


def test_matrix_and_vector_units_overlap(tmp_path: Path) -> None:
    # F64 work of equal time on both units doubles the peak: 81.7 vector plus 163.4 matrix TFLOP/s.
    counters = {**vec_copy_counters(), "SQ_INSTS_VALU_FMA_F64": 512.0, "SQ_INSTS_VALU_MFMA_MOPS_F64": 256.0}

    assert placed(tmp_path, counters).peak_gflop_per_s == pytest.approx(81715.2 + 163430.4)


def test_a_rate_above_its_roof_is_flagged(tmp_path: Path) -> None:
    found = placed(tmp_path, {**vec_copy_counters(), "TCC_EA0_WRREQ_64B_sum": 1e6, "TCC_EA0_WRREQ_sum": 1e6})

    # 64e6 + 8.4e6 bytes in 10 us are 7 240 GB/s of 5 324.8.
    assert found.implausible == ("dram: 136% of its roof (includes Infinity Cache hits)",)


def test_without_counters_there_is_a_reason_instead(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path, {})

    assert roofline(profile, evaluate_metrics(profile)) == Unavailable("no counters were collected")


def test_missing_dram_counters_are_named(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path, {"SQ_WAVES": 1.0})

    found = roofline(profile, evaluate_metrics(profile))

    assert isinstance(found, Unavailable)
    assert "TCC_EA0_RDREQ_sum" in found.reason


def test_without_flop_counters_the_position_is_unknown(tmp_path: Path) -> None:
    counters = vec_copy_counters()
    del counters["SQ_INSTS_VALU_MFMA_MOPS_F8"]

    found = placed(tmp_path, counters)

    assert (found.flops, found.intensity, found.position) == (None, None, None)
    assert found.flops_reason == "not collected: SQ_INSTS_VALU_MFMA_MOPS_F8"


def test_headroom_is_the_time_at_the_roof_of_the_ledger(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path)
    ledger = kernel_ledger(profile, evaluate_metrics(profile), VEC_COPY_NS, thread_trace=Unavailable("not taken"))

    room = headroom(ledger, 0.5)

    assert room is not None
    roof_ns = 16792512 / (0.8 * 5324.8)  # benchmarks achieve 80 % of the peak
    assert room.roof_ns == pytest.approx(roof_ns)
    assert room.speedup == pytest.approx(VEC_COPY_NS / roof_ns)
    assert room.critical_path_speedup == pytest.approx(1 / (0.5 + 0.5 * roof_ns / VEC_COPY_NS))
    assert room.limited_by == "dram"


def test_a_kernel_without_counters_has_no_headroom(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path, {})
    ledger = kernel_ledger(profile, evaluate_metrics(profile), VEC_COPY_NS, thread_trace=Unavailable("not taken"))

    assert headroom(ledger, 1.0) is None


MEASURED = MeasuredPeaks("roofline.csv, device 0", {"dram": 4000.0}, {("vector", "f32"): 60000.0})


def test_measured_peaks_replace_theoretical_ones(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path, {**vec_copy_counters(), "SQ_INSTS_VALU_FMA_F32": 1e6})

    found = roofline(profile, evaluate_metrics(profile), measured=MEASURED)

    assert isinstance(found, Roofline)
    assert found.peak_gb_per_s == 4000
    assert found.peak_gflop_per_s == pytest.approx(60000)
    assert found.peaks == "empirical: roofline.csv, device 0"
    assert "roofs missing there are theoretical" in found.notes[0]
    assert {row.level: row.peak_kind for row in found.memory} == {
        "lds": "theoretical", "vector_l1": "theoretical", "l2": "theoretical", "mall": "theoretical", "dram": "empirical",
    }  # fmt: skip


def test_without_measured_peaks_a_note_says_so(tmp_path: Path) -> None:
    found = placed(tmp_path)

    assert found.peaks == "theoretical"
    assert found.notes[0].startswith("theoretical peaks")


def test_the_infinity_cache_has_a_roof_without_traffic(tmp_path: Path) -> None:
    (row,) = [row for row in placed(tmp_path).memory if row.level == "mall"]

    assert (row.bytes, row.peak_gb_per_s) == (None, 17200)
    assert "no counters" in str(row.reason)


def test_int8_work_has_its_own_row_and_no_intensity(tmp_path: Path) -> None:
    # 304 CUs * 4096 operations * 2.1 GHz = 2.6 POP/s; 512 operations per count.
    counters = {**vec_copy_counters(), "SQ_INSTS_VALU_MFMA_MOPS_I8": 1e8}

    found = placed(tmp_path, counters)

    row = next(row for row in found.compute if row.data_type == "i8")
    assert row.flops == 512e8
    assert row.peak_gflop_per_s == pytest.approx(2614886.4)
    assert (found.flops, found.intensity) == (0.0, 0.0)
    assert found.peak_gflop_per_s == pytest.approx(81715.2)
    # 512e8 operations need 19.6 us under their roof, 16.8 MB 3.2 us under that of DRAM.
    assert found.position == "compute_bound"
    assert found.bound_ns == pytest.approx(512e8 / 2614886.4)


def test_a_missing_counter_leaves_the_position_only_if_it_cannot_change(tmp_path: Path) -> None:
    """Without one FLOP counter a compute-bound kernel stays compute bound; a memory-bound one could be either."""
    counters = vec_copy_counters()
    del counters["SQ_INSTS_VALU_FMA_F64"]

    below = placed(tmp_path, {**counters, "SQ_INSTS_VALU_FMA_F32": 1e6})
    above = placed(tmp_path, {**counters, "SQ_INSTS_VALU_FMA_F32": 5e6})

    assert (below.position, above.position) == (None, "compute_bound")
    assert (below.flops, above.flops) == (128e6, 640e6)
    assert below.flops_reason == above.flops_reason == "flops is a lower bound: SQ_INSTS_VALU_FMA_F64 not collected"


def test_traffic_without_writes_is_a_lower_bound(tmp_path: Path) -> None:
    counters = {name: value for name, value in vec_copy_counters().items() if "WRREQ" not in name}

    idle = placed(tmp_path, counters)
    busy = placed(tmp_path, {**counters, "SQ_INSTS_VALU_FMA_F32": 5e6})

    assert idle.dram_bytes == pytest.approx(8 * MIB, rel=0.005)
    assert (idle.position, busy.position) == ("memory_bound", None)
    assert any(note.startswith("dram_bytes is a lower bound") for note in idle.notes)
