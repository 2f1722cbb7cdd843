"""Every document of a command has a page, also if it is a single file; a run shows the source that it had."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.report.documents import run_documents
from rocm_perf_lab.report.page import write_page
from rocm_perf_lab.report.run_view import SNAPSHOT
from tests.builders.report_documents import HOSTILE, compare_document, replay_document, write_command_documents
from tests.builders.report_pages import run_data

if TYPE_CHECKING:
    from pathlib import Path


def test_the_output_of_a_command_is_recognised_by_its_content(tmp_path: Path) -> None:
    files = write_command_documents(tmp_path)

    for name, path in files.items():
        assert set(run_documents(path, path)) == {name}


def test_the_page_of_a_file_is_next_to_it(tmp_path: Path) -> None:
    files = write_command_documents(tmp_path)

    page = write_page([files["run"]])

    assert page == tmp_path / "run-output.html"
    run = run_data(page)
    assert run["run"]["findings"][0]["count"] == 3
    assert run["time_kind"] == "emulated"
    assert HOSTILE not in page.read_text()


def test_two_verdicts_on_two_lines_are_two_candidates(tmp_path: Path) -> None:
    run = run_data(write_page([write_command_documents(tmp_path)["verify"]]))

    assert [one["verdict"] for one in run["verify"]] == ["wrong", "wrong"]


def test_the_comparison_keeps_intervals_and_regressions(tmp_path: Path) -> None:
    run = run_data(write_page([write_command_documents(tmp_path)["compare"]]))

    assert run["compare"] == json.loads(compare_document().model_dump_json())
    assert run["time_kind"] == "measured"


def test_one_replay_and_a_replay_with_an_override_have_the_same_form(tmp_path: Path) -> None:
    both = {"captured": replay_document(12.0), "override": replay_document(8.0)}
    document = {name: one.model_dump(mode="json") for name, one in both.items()} | {"speedup": 1.5, "indistinguishable": False}
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "replay.json").write_text(json.dumps(document))
    single = run_data(write_page([write_command_documents(tmp_path)["replay"]]))["replay"]
    pair = run_data(write_page([tmp_path / "job"]))["replay"]

    assert [(one["title"], one["timing"]["median"]) for one in single["replays"]] == [("replay", 10.0)]
    assert [(one["title"], one["timing"]["median"]) for one in pair["replays"]] == [
        ("captured code object", 12.0), ("override", 8.0),
    ]  # fmt: skip
    assert (single["speedup"], pair["speedup"]) == (None, 1.5)


@pytest.mark.parametrize("text", ["[1, 2]", '{"answer": 42}', "[]"])
def test_a_file_that_is_no_document_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)

    with pytest.raises(LabError, match="not a document of a run"):
        write_page([path])
    assert not (tmp_path / "other.html").exists()


def test_a_file_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}}\n{")

    with pytest.raises(LabError, match="invalid JSON"):
        write_page([path])


def test_a_run_shows_the_source_that_it_had(tmp_path: Path) -> None:
    """The kernel changed after the run; the header next to it was not stored."""
    kernel, run = tmp_path / "kernel", tmp_path / "run"
    (run / SNAPSHOT).mkdir(parents=True)
    kernel.mkdir()
    (run / SNAPSHOT / "k.hip").write_text("before")
    (kernel / "k.hip").write_text("after")
    (kernel / "k.h").write_text("header")
    (run / "config.json").write_text(json.dumps({"kernel": {"directory": str(kernel), "source": "k.hip"}}))
    (run / "replay.json").write_text(replay_document().model_dump_json())

    assert run_data(write_page([run]))["sources"] == {"k.hip": "before", "k.h": "header"}


def test_a_run_is_repeated_with_the_command_and_commit_that_it_started_with(tmp_path: Path) -> None:
    """Whatever is checked out when the page is made; the baseline of a run has the origin of the run."""
    origin = {"schema_version": "1.0", "command": "python -m rocm_perf_lab kernel=k", "git_commit": "c0ffee" * 6 + "c0ff"}
    (tmp_path / "origin.json").write_text(json.dumps(origin))
    baseline = tmp_path / "baseline"
    baseline.mkdir()
    for run in (tmp_path, baseline):
        (run / "replay.json").write_text(replay_document().model_dump_json())
        shown = run_data(write_page([run]))["reproduce"]
        assert (shown["command"], shown["commit"]) == (origin["command"], origin["git_commit"])

    (tmp_path / "origin.json").unlink()
    assert run_data(write_page([tmp_path]))["reproduce"]["commit"] is None


def test_a_kernel_is_named_without_its_parameters(tmp_path: Path) -> None:
    names = {"add(float*, int)": "add", "void (anonymous namespace)::f<int>(int*)": "void (anonymous namespace)::f<int>(int*)"}
    for name, short in names.items():
        (tmp_path / "profile.json").write_text(json.dumps(_profile_of(name)))
        assert run_data(write_page([tmp_path]))["name"] == f"{short} ({tmp_path.name})"


def _profile_of(kernel: str) -> dict[str, Any]:
    document: dict[str, Any] = {"kernel": {"name": kernel, "mangled_name": "k"}, "stability": {}, "kernels": [], "counters": []}
    return document | {"gpu": {"architecture": "gfx942"}, "provenance": {"time_kind": "emulated"}, "runtime_ms": 1.0}


def test_an_optimization_has_the_path_of_its_rewrites_and_the_ledger_of_the_best(tmp_path: Path) -> None:
    """One measured rewrite, which is the best, and one that a guard refused."""
    verdicts = [{"proposal": "b", "parent": "a", "runtime_ms": 1.0}, {"proposal": "c", "parent": "a", "runtime_ms": None}]
    best = {"proposal": "b", "runtime_ms": 1.0, "source": "best/k.hip"}
    document = {"baseline": {"proposal": "a", "runtime_ms": 2.0}, "best": best, "verdicts": verdicts, "speedup": 2.0}
    (tmp_path / "optimize.json").write_text(json.dumps(document))
    rewrite = tmp_path / "proposals" / "b"
    rewrite.mkdir(parents=True)
    (rewrite / "roofline.json").write_text(json.dumps({"roofline": {"intensity": 4.0, "gflop_per_s": 100.0, "flops": 1.0}}))
    (rewrite / "analysis.json").write_text(json.dumps({"ledger": {"losses": []}}))

    run = run_data(write_page([tmp_path]))

    assert run["path"] == [{"proposal": "b", "intensity": 4.0, "gflop_per_s": 100.0}]
    assert run["best_ledger"] == {"losses": []}
