"""The data of the HTML report; what the browser shows of it is tested in test_browser.py."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.source_control import commit_of
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.report.alignment import aligned_code
from rocm_perf_lab.report.chunks import Chunks
from rocm_perf_lab.report.page import ASSETS, write_page, write_report
from rocm_perf_lab.report.wavefronts import wavefronts
from rocm_perf_lab.rocprof.att.model import AttProvenance, AttTrace, State, Wave, WaveKey
from tests.application.test_analyze_recordings import RECORDED, WORKLOADS, analyzed
from tests.builders.profiles import vec_copy_profile, vec_copy_trace
from tests.builders.report_pages import page_data, run_data

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """The documents of a vector copy on a real MI300X."""
    profile, trace = vec_copy_profile(tmp_path), vec_copy_trace(tmp_path)
    write_documents(tmp_path, describe(profile, diagnose(profile, trace, deterministic=False), trace))
    return tmp_path


def change(directory: Path, name: str, **values: Any) -> None:
    document = json.loads((directory / name).read_text())
    (directory / name).write_text(json.dumps(document | values))


def test_the_page_holds_the_documents_and_labels_emulated_times(documents: Path) -> None:
    path = write_report(documents, documents=documents, title="vecCopy")

    run = run_data(path)
    assert run["profile"]["runtime_ms"] == 0.01
    assert run["time_kind"] == "emulated"
    assert run["ledger"] == json.loads((documents / "analysis.json").read_text())["ledger"]
    assert "10.000 us emulated" in path.read_text()  # for readers without scripts


def test_a_measured_time_is_not_called_emulated(documents: Path) -> None:
    provenance = json.loads((documents / "profile.json").read_text())["provenance"]
    change(documents, "profile.json", provenance=provenance | {"emulated": False, "time_kind": "measured"})

    path = write_report(documents, documents=documents, title="vecCopy")

    assert run_data(path)["time_kind"] == "measured"
    assert "10.000 us measured" in path.read_text()


def test_names_cannot_end_the_element_that_holds_the_data(documents: Path) -> None:
    kernel = json.loads((documents / "profile.json").read_text())["kernel"]
    change(documents, "profile.json", kernel=kernel | {"name": HOSTILE})

    page = write_report(documents, documents=documents, title=HOSTILE).read_text()

    assert HOSTILE not in page
    assert page_data(page)["title"] == HOSTILE
    assert run_data(page)["profile"]["kernel"]["name"] == HOSTILE


def test_the_page_needs_no_network_and_is_small(documents: Path) -> None:
    path = write_report(documents, documents=documents, title="vecCopy")
    page = path.read_text()

    assert path.stat().st_size < 5_000_000
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page.replace((ASSETS / "report.js").read_text(), ""))
    assert "@import" not in (ASSETS / "report.css").read_text() and "url(http" not in (ASSETS / "report.css").read_text()


def test_the_libraries_in_the_page_have_their_licences() -> None:
    licences = (ASSETS / "LICENSES.txt").read_text()

    for library in ("echarts 5", "zrender 5", "tabulator-tables 6", "@codemirror/view 6", "@codemirror/merge 6"):
        assert f"\n{library}" in f"\n{licences}"
    assert "Apache License" in licences and "Permission is hereby granted" in licences


def test_numbers_that_json_does_not_have_are_null(documents: Path) -> None:
    metrics = json.loads((documents / "analysis.json").read_text())["metrics"]
    change(documents, "analysis.json", metrics=metrics | {"flops": float("inf"), "lds_bytes": float("nan")})

    run = run_data(write_report(documents, documents=documents, title="vecCopy"))

    assert (run["analysis"]["metrics"]["flops"], run["analysis"]["metrics"]["lds_bytes"]) == (None, None)


def test_metrics_have_unit_and_formula(documents: Path) -> None:
    metric = run_data(write_report(documents, documents=documents, title="vecCopy"))["metrics"]["vector_flops_f32"]

    assert metric["unit"] == "FLOP"
    assert "SQ_INSTS_VALU_FMA_F32" in metric["formula"]


def test_an_application_has_its_overview_and_ledger(tmp_path: Path) -> None:
    analyzed(WORKLOADS / "MI200", "--output", tmp_path)

    run = run_data(tmp_path / "report.html")

    report = json.loads((tmp_path / "report.json").read_text())
    assert run["application"] == report["application"]
    assert run["application"]["dispatches"] == 3
    assert run["ledger"] == report["ledger"]
    assert run["time_kind"] == "measured"


def test_pc_samples_alone_have_a_page(tmp_path: Path) -> None:
    analyzed(RECORDED / "pc_sampling", "--output", tmp_path)

    run = run_data(tmp_path / "report.html")

    assert run["profile"] is None
    assert run["ledger"]["losses"]


def test_several_runs_are_in_one_page_with_their_alignment(documents: Path, tmp_path: Path) -> None:
    data = page_data(write_page([documents, documents], tmp_path / "both.html"))

    assert len(data["runs"]) == 2
    assert data["title"].startswith("Comparison of ")
    assert data["alignments"] == [None]  # a recording of counters has no code


def test_a_directory_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="there is no run"):
        write_page([tmp_path], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_file_that_cannot_be_written_is_an_error(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot write the report"):
        write_page([documents], tmp_path / "file" / "page.html")


def code(*texts: str) -> dict[str, Any]:
    return {"rows": [[4 * place, text] for place, text in enumerate(texts)]}


def test_instructions_are_aligned_whatever_their_registers() -> None:
    base = code("s_load_dword s3, s[0:1], 0x0", "v_add_f32 v1, v2, v3", "s_endpgm")
    new = code("s_load_dword s5, s[2:3], 0x0", "v_mul_f32 v0, v0, v0", "v_add_f32 v7, v2, v1", "s_endpgm")

    assert aligned_code(base, new) == [[0, 0], [None, 1], [1, 2], [2, 3]]
    assert aligned_code(base, None) is None


def trace_of(*waves: Wave) -> AttTrace:
    return AttTrace(AttProvenance("traced", None, None, "3", None, "device", emulated=True), (), (), waves)


def wave(slot: int, begin: int, *timeline: tuple[State, int]) -> Wave:
    lasting = sum(cycles for _, cycles in timeline)
    instructions = np.zeros((0, 5), dtype=np.int64)
    states = np.array(timeline, dtype=np.int64).reshape(-1, 2)
    return Wave(WaveKey(0, 0, slot, 0), 1, slot, begin, begin + lasting, instructions, states)


def decoded(chunks: Chunks, name: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(chunks.parts[name])))


def test_wavefronts_are_counted_by_state_over_time() -> None:
    """600 cycles in 600 bins: one wavefront executes for 200 cycles and waits for 400, another executes in the last 300."""
    chunks = Chunks()
    first = wave(0, 0, (State.EXEC, 200), (State.WAIT, 400))
    second = wave(1, 300, (State.EXEC, 300))

    found = wavefronts(trace_of(first, second), chunks)

    executing, waiting = (found["overview"][found["states"].index(name)] for name in ("exec", "wait"))
    assert executing == [1.0] * 200 + [0.0] * 100 + [1.0] * 300
    assert waiting == [0.0] * 200 + [1.0] * 400
    assert found["simds"] == [{"engine": 0, "compute_unit": 1, "simd": 0, "waves": [1.0] * 300 + [2.0] * 300}]
    assert decoded(chunks, found["waves"][0][8]) == [[[2, 200], [3, 400]], [[2, 300]]]


@given(st.lists(st.lists(st.tuples(st.sampled_from(list(State)[1:]), st.integers(1, 50)), min_size=1), min_size=1, max_size=5))
@settings(max_examples=40)
def test_the_overview_contains_the_whole_time_of_all_wavefronts(timelines: list[list[tuple[State, int]]]) -> None:
    waves = [wave(slot, 7 * slot, *timeline) for slot, timeline in enumerate(timelines)]

    found = wavefronts(trace_of(*waves), Chunks())

    width = (found["end"] - found["start"]) / len(found["overview"][0])
    whole = sum(sum(row) for row in found["overview"]) * width
    assert whole == pytest.approx(sum(one.cycles for one in waves), rel=0.01, abs=1)


def test_the_commit_is_read_without_git(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{'1' * 40} refs/heads/main\n")
    (tmp_path / "below").mkdir()

    assert commit_of(tmp_path / "below") == "1" * 40
    (git / "refs" / "heads" / "main").write_text(f"{'2' * 40}\n")
    assert commit_of(tmp_path) == "2" * 40
    (git / "HEAD").write_text(f"{'3' * 40}\n")
    assert commit_of(tmp_path) == "3" * 40
