"""`rocm-perf compare`: exit codes, refusals and what is printed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.cli import main
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

TIMES = (10_000, 10_100, 9_900, 10_050, 9_950, 10_000, 10_020, 9_980)


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def compare(*words: str | Path) -> Answer:
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(main, ["compare", *map(str, words)])
    return Answer(result.exit_code, result.stdout, result.stderr)


def profile(
    folder: Path, factor: float = 1.0, *, emulated: bool = False, target: str = "mi300x", reduce_factor: float | None = 1.0
) -> Path:
    """A run of eight copies and eight reductions on a stand-in GPU."""
    rows, clock = [], 0
    for time in TIMES:
        for kernel, scale in ((VEC_COPY, factor), (REDUCE, reduce_factor and 0.5 * reduce_factor)):
            if scale is not None:
                rows.append(dispatch(clock, clock + int(scale * time), kernel=kernel))
                clock += 100_000
    folder.mkdir()
    write_database(folder / "x.db", recorded_run(load_target(target), rows, emulated=emulated))
    trace = read_database(folder / "x.db")
    made = build_profile(trace, target=load_target(target), symbol=VEC_COPY.mangled_name)
    write_documents(folder, describe(made, diagnose(made, trace, deterministic=emulated), trace))
    return folder


def edited(folder: Path, name: str, change: Any) -> Path:
    document = json.loads((folder / "profile.json").read_text())
    change(document)
    (folder / name).write_text(json.dumps(document))
    return folder / name


def test_equal_runs_are_the_same_and_exit_with_0(tmp_path: Path) -> None:
    base, new = profile(tmp_path / "a"), profile(tmp_path / "b")

    answer = compare(base, new / "profile.json")

    assert answer.code == 0, answer
    assert "no kernel is significantly slower by more than 5%" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80


def test_a_regression_beyond_the_threshold_exits_with_1_and_is_named(tmp_path: Path) -> None:
    base, new = profile(tmp_path / "a"), profile(tmp_path / "b", 1.10)

    assert compare(base, new).code == 1
    assert "slower by more than 5%: vecCopy" in compare(base, new).out
    assert compare(base, new, "--fail-over", "20%").code == 0
    assert compare(base, new, "--fail-over", "0.2").code == 0
    assert compare(new, base).code == 0


def test_a_kernel_that_is_not_the_profiled_one_regresses_too(tmp_path: Path) -> None:
    answer = compare(profile(tmp_path / "a"), profile(tmp_path / "b", reduce_factor=1.3), "--json")

    assert (answer.code, json.loads(answer.out)["regressions"]) == (1, ["reduce"])


def test_json_holds_everything_and_nothing_else_is_printed(tmp_path: Path) -> None:
    answer = compare(profile(tmp_path / "a"), profile(tmp_path / "b", 0.8, reduce_factor=None), "--json")

    document = json.loads(answer.out)
    rows = {row["mangled_name"]: row for row in document["kernels"]}
    assert (answer.code, answer.err) == (0, "")
    assert (rows["_Z7vecCopyPdS_S_ii"]["verdict"], rows["reduce"]["verdict"]) == ("faster", "gone")
    assert rows["_Z7vecCopyPdS_S_ii"]["change"] == pytest.approx(-0.2, abs=0.001)
    assert document["fail_over"] == 0.05
    assert document["base"]["time_kind"] == "measured"


@pytest.mark.parametrize("other", [{"emulated": True}, {"target": "mi325x"}, {"target": "mi250x"}])
def test_runs_of_different_kinds_are_compared_by_force_only(tmp_path: Path, other: dict[str, Any]) -> None:
    base, new = profile(tmp_path / "a"), profile(tmp_path / "b", **other)

    refused, forced = compare(base, new), compare(base, new, "--force")

    assert refused.code == 2
    assert "these times say nothing of each other" in refused.err
    assert str(other.get("target", "emulated")).removeprefix("mi") in refused.err.lower().replace("instinct mi", "")
    assert forced.code == 0
    assert "compared by force" in forced.out


def test_a_profile_of_an_older_version_has_a_summary_only_and_that_is_said(tmp_path: Path) -> None:
    def forget(document: dict[str, Any]) -> None:
        for part in (document["stability"], *document["kernels"]):
            part.pop("durations_ms")

    base = edited(profile(tmp_path / "a"), "old.json", forget)

    answer = compare(base, profile(tmp_path / "b", 1.2))

    assert answer.code == 1
    assert "kept no times" in answer.out
    assert "unclear" in answer.out  # the other kernel, of which only the total is known


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "there is no"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "this is no profile"),
        ('{"schema_version": "1.0", "kernel": "x"}', "key kernel"),
        ('{"schema_version": "2.0"}', "schema version 2.0"),
        ("\udcff", "no JSON"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text: str | None, what: str) -> None:
    good, bad = profile(tmp_path / "a"), tmp_path / "bad.json"
    if text is not None:
        bad.write_bytes(text.encode(errors="surrogateescape"))

    answer = compare(good, bad)

    assert answer.code == 2
    assert what in answer.err
    assert "bad.json" in answer.err


def test_a_folder_without_a_profile_names_those_below_it(tmp_path: Path) -> None:
    profile(tmp_path / "a")

    answer = compare(tmp_path, tmp_path / "a")

    assert answer.code == 2
    assert f"did you mean {tmp_path / 'a'}?" in answer.err


@pytest.mark.parametrize("share", ["five", "-1%", "5", "nan", ""])
def test_a_threshold_that_is_no_share_is_refused(tmp_path: Path, share: str) -> None:
    answer = compare(tmp_path, tmp_path, "--fail-over", share)

    assert answer.code == 2
    assert "5% or 0.05" in answer.err
