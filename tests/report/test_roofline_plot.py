"""The plot shows what roofline.json holds: every roof, the kernel's place, and no rate above a roof as a fact."""

from __future__ import annotations

import itertools
import json
import math
import re
import struct
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.report.roofline_plot import plot_of, render_html, render_png, write_roofline_plots
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.peaks import MeasuredPeaks
from tests.builders.profiles import vec_copy_counters, vec_copy_trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.target.peaks import Unit

FMAS = {"SQ_INSTS_VALU_FMA_F32": 1e6, "SQ_INSTS_VALU_MFMA_MOPS_F16": 1e6}
IMPOSSIBLE = {**FMAS, "TCC_EA0_WRREQ_64B_sum": 1e6, "TCC_EA0_WRREQ_sum": 1e6}


def run(directory: Path, extra: Mapping[str, float] | None, measured: MeasuredPeaks | None = None) -> Path:
    """A run's directory; `extra` None leaves out all counters."""
    trace = vec_copy_trace(directory, {} if extra is None else {**vec_copy_counters(), **extra})
    profile = build_profile(trace, target=load_target("mi300x"))
    write_documents(directory, describe(profile, diagnose(profile, trace, deterministic=True, measured=measured), trace))
    return directory


def document(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "roofline.json").read_text())
    return found


def test_every_roof_and_the_kernel_at_every_level_are_drawn(tmp_path: Path) -> None:
    plot = plot_of(document(run(tmp_path, FMAS)), gpu="MI300X")

    assert [line.level for line in plot.memory] == ["lds", "vector_l1", "l2", "mall", "dram"]
    names = {line.name: (round(line.gflop_per_s), line.used) for line in plot.compute}
    assert names["vector f64, f32"] == (81715, True)
    assert names["matrix f16, bf16"] == (1307443, True)
    assert names["matrix f8"] == (2614886, False)
    assert [point.level for point in plot.points] == ["vector_l1", "l2", "dram"]  # the copy has no LDS traffic
    assert {point.gflop_per_s for point in plot.points} == {(128e6 + 512e6) / 10_000}
    assert plot.remark is None
    assert "10 us emulated, theoretical peaks" in plot.subtitle


def test_everything_drawn_is_inside_the_axes(tmp_path: Path) -> None:
    plot = plot_of(document(run(tmp_path, {"SQ_INSTS_VALU_FMA_F32": 1.0})), gpu="MI300X")

    (left, right), (bottom, top) = plot.x_range, plot.y_range
    assert all(left < p.intensity < right and bottom < p.gflop_per_s < top for p in plot.points)
    assert all(left < line.gflop_per_s / roof.gb_per_s < right for line in plot.compute for roof in plot.memory)


def test_a_kernel_without_arithmetic_has_bandwidths_and_a_remark(tmp_path: Path) -> None:
    plot = plot_of(document(run(tmp_path, {})), gpu="MI300X")

    assert plot.points == ()
    assert "no floating-point work" in str(plot.remark)
    assert {share.name: share.share for share in plot.shares}["DRAM"] == pytest.approx(0.315, abs=0.001)


def test_a_rate_above_its_roof_is_flagged_and_its_number_is_not_shown(tmp_path: Path) -> None:
    plot = plot_of(document(run(tmp_path, IMPOSSIBLE)), gpu="MI300X")
    html = render_html(plot)

    assert [point.level for point in plot.points if point.doubtful] == ["dram"]
    assert "unreliable: dram" in str(plot.remark)
    table = html.partition("<table>")[2].partition("</table>")[0]
    assert "above its roof" in table
    assert "136" not in table


def test_measured_peaks_are_distinguished_from_theoretical_ones(tmp_path: Path) -> None:
    plot = plot_of(document(run(tmp_path, FMAS, MeasuredPeaks("roofline.csv, device 0", {"dram": 4000.0}, {}))), gpu="x")

    assert {line.level: line.peak_kind for line in plot.memory}["dram"] == "empirical"
    assert "empirical peaks of roofline.csv, device 0" in plot.subtitle


def test_close_roofs_share_a_label(tmp_path: Path) -> None:
    near: dict[tuple[Unit, str], float] = {("vector", "f64"): 81000.0, ("vector", "f32"): 82000.0, ("matrix", "f32"): 90000.0}
    plot = plot_of(document(run(tmp_path, FMAS, MeasuredPeaks("roofline.csv", {}, near))), gpu="x")

    texts = {label.text: label for label in plot.labels}
    shared = texts["vector f64; vector f32; matrix f32: 81 to 90 TFLOP/s"]
    assert (shared.gflop_per_s, shared.used) == (90000.0, True)
    assert "matrix f8 (theoretical): 2.61 PFLOP/s" in texts
    heights = [math.log10(label.gflop_per_s) for label in plot.labels]
    span = math.log10(plot.y_range[1] / plot.y_range[0])
    assert all(above - below >= 0.035 * span for below, above in itertools.pairwise(heights))


def test_a_point_above_the_roof_of_its_arithmetic_is_flagged_at_every_level(tmp_path: Path) -> None:
    # 1e7 wavefront FMAs are 1.28 GFLOP: in 10 us 128 TFLOP/s of 81.7.
    plot = plot_of(document(run(tmp_path, {"SQ_INSTS_VALU_FMA_F32": 1e7})), gpu="MI300X")

    assert "vector f32" in str(plot.remark)
    assert plot.points
    assert all(point.doubtful for point in plot.points)


def test_int8_has_a_share_and_no_roof_among_those_of_floating_point(tmp_path: Path) -> None:
    plot = plot_of(document(run(tmp_path, {"SQ_INSTS_VALU_MFMA_MOPS_I8": 1e7})), gpu="MI300X")

    share = next(share for share in plot.shares if share.name == "matrix i8")
    assert share.rate == "512,000 of 2,614,886 GOP/s"
    assert not any("i8" in line.name for line in plot.compute)


def test_both_files_are_written_and_equal_runs_give_equal_files(tmp_path: Path) -> None:
    directory = run(tmp_path, FMAS)

    png, html = write_roofline_plots(directory, gpu="MI300X")
    first = (png.read_bytes(), html.read_bytes())
    write_roofline_plots(directory, gpu="MI300X")

    assert (png.name, html.name) == ("roofline.png", "roofline.html")
    assert first == (png.read_bytes(), html.read_bytes())
    width, height = struct.unpack(">II", first[0][16:24])
    assert first[0].startswith(b"\x89PNG")
    assert (width, height) > (1000, 500)


def test_without_a_roofline_there_is_no_plot(tmp_path: Path) -> None:
    assert write_roofline_plots(run(tmp_path, None), gpu="MI300X") == ()
    assert not (tmp_path / "roofline.html").exists()


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    html = render_html(plot_of(document(run(tmp_path, FMAS)), gpu="MI300X"))

    assert set(re.findall(r"https?://[^\"' ]+", html)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"<(link|img|iframe)|src=|@import|fetch\(", html)
    found = re.search(r"^const data = (.*);$", html, flags=re.MULTILINE)
    assert found is not None
    data = json.loads(found[1])
    assert (len(data["memory"]), data["time_word"]) == (5, "emulated")


def test_a_hostile_kernel_name_is_escaped(tmp_path: Path) -> None:
    hostile = document(run(tmp_path, FMAS)) | {"kernel": "</script><script>alert(1)</script>$\\frac$" + "y" * 70_000}

    plot = plot_of(hostile, gpu="MI300X")

    assert "<script>alert" not in render_html(plot)
    assert len(render_html(plot)) < 40_000
    assert render_png(plot).startswith(b"\x89PNG")


def test_the_plot_labels_emulated_times(tmp_path: Path) -> None:
    measured = document(run(tmp_path, FMAS)) | {"time_kind": "measured"}

    assert "emulated" not in render_html(plot_of(measured, gpu="MI300X")).replace("(emulated)", "emulated")
