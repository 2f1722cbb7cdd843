"""The page shows the content of the documents, escaped."""

import json
from pathlib import Path
from typing import Any

import pytest

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.report.page import render, write_report
from tests.builders.profiles import vec_copy_profile, vec_copy_trace

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """The documents of a vector copy on a real MI300X."""
    profile, trace = vec_copy_profile(tmp_path), vec_copy_trace(tmp_path)
    write_documents(tmp_path, describe(profile, diagnose(profile, trace, deterministic=False), trace))
    return tmp_path


def read(directory: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((directory / name).read_text())
    return document


def test_an_emulated_time_is_labelled(documents: Path) -> None:
    page = write_report(documents, documents=documents, title="vecCopy").read_text()

    assert "10.000 us emulated" in page
    assert "Every time on this page is emulated" in page


def test_an_emulated_time_has_its_error_band(documents: Path) -> None:
    profile = read(documents, "profile.json")
    profile["error_bands"] = {
        "status": "estimated",
        "source": "50 held-out cases",
        "time": [{"coverage": 0.8, "low_ms": 0.008, "high_ms": 0.0125}, {"coverage": 0.95, "low_ms": 0.005, "high_ms": 0.02}],
        "ratio": [{"coverage": 0.8, "factor": 1.1}, {"coverage": 0.95, "factor": 1.25}],
    }

    page = " ".join(render(profile, read(documents, "analysis.json"), None, "vecCopy").split())

    assert "10.000 us emulated, 8 to 12.5 us expected (80 %)" in page
    assert "estimated: 50 held-out cases" in page
    assert "less than 1.25x are indistinguishable on the emulator" in page


def test_emulated_counters_are_listed_by_certificate(documents: Path) -> None:
    profile = read(documents, "profile.json")
    profile["counter_certificates"] = {
        "SQ_WAVES": {"certificate": "exact", "bound": None, "scope": ""},
        "SQ_INSTS": {"certificate": "exact", "bound": None, "scope": ""},
        "TCC_HIT_sum": {"certificate": "bounded", "bound": 0.03, "scope": "a stream"},
    }

    page = " ".join(render(profile, read(documents, "analysis.json"), None, "vecCopy").split())

    assert "<summary>2 exact</summary>SQ_INSTS, SQ_WAVES" in page
    assert "<summary>1 bounded</summary>TCC_HIT_sum" in page
    assert "estimated</summary>" not in page


def test_a_measured_time_is_not_called_emulated(documents: Path) -> None:
    profile = read(documents, "profile.json")
    profile["provenance"] |= {"emulated": False, "time_kind": "measured"}
    profile["error_bands"] = None

    page = render(profile, read(documents, "analysis.json"), None, "vecCopy")

    assert "10.000 us measured" in page
    assert "emulated" not in page


def test_names_are_escaped(documents: Path) -> None:
    profile = read(documents, "profile.json")
    profile["kernel"]["name"] = HOSTILE

    page = render(profile, read(documents, "analysis.json"), None, HOSTILE)

    assert HOSTILE not in page
    assert "&lt;script&gt;" in page


def test_a_missing_roofline_is_shown_with_its_reason(documents: Path) -> None:
    profile, analysis = read(documents, "profile.json"), read(documents, "analysis.json")
    profile |= {"roofline": None, "roofline_reason": "no counters were collected"}
    analysis |= {"roofline_position": None}

    assert "no counters were collected" in render(profile, analysis, None, "run")


def test_the_ledger_and_the_overview_are_tables(tmp_path: Path) -> None:
    from tests.application.test_analyze_recordings import WORKLOADS, analyzed

    analyzed(WORKLOADS / "MI200", "--output", tmp_path)

    page = " ".join((tmp_path / "report.html").read_text().split())

    report = read(tmp_path, "report.json")
    assert "<h2>Where the time goes</h2>" in page
    for loss in report["ledger"]["losses"]:
        amount, share = f"{loss['amount_us']:.3f}", f"{loss['share'] * 100:.1f} %"
        cause = loss["cause"].replace("_", " ")
        assert f'<tr><td>{cause}</td> <td class="number">{amount}</td> <td class="number">{share}</td>' in page
    assert "3 dispatches in 0.166 ms measured; idle 69 %" in page


def test_pc_samples_alone_have_a_page(tmp_path: Path) -> None:
    from tests.application.test_analyze_recordings import RECORDED, analyzed

    analyzed(RECORDED / "pc_sampling", "--output", tmp_path)

    page = (tmp_path / "report.html").read_text()
    assert "<h2>Where the time goes</h2>" in page
    assert "<h2>Provenance</h2>" not in page
