"""`rocm-perf compare`: exit codes, refusals and what is printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.command import Answer, rocm_perf
from tests.builders.profiles import vec_copy_counters
from tests.builders.rocpd import REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.rocprof.recording import DispatchRecord

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
PROFILE_WITH = json.dumps(
    {
        "schema_version": "1.0",
        "kernel": {"name": "k", "mangled_name": "k", "grid": [1, 1, 1], "block": [1, 1, 1]},
        "gpu": {"architecture": "gfx942", "name": "x"},
        "runtime_ms": "TIME",
        "stability": {"runs": 1, "stddev_ms": 0},
        "kernels": [],
        "provenance": {"time_kind": "measured"},
    }
).replace('"TIME"', "TIME")
TIMES = (10_000, 10_100, 9_900, 10_050, 9_950, 10_000, 10_020, 9_980)


def compare(*words: str | Path) -> Answer:
    return rocm_perf("compare", *words)


def profile(
    directory: Path, factor: float = 1.0, *, emulated: bool = False, target: str = "mi300x", reduce_factor: float | None = 1.0
) -> Path:
    """A run of eight copies and eight reductions on a stand-in GPU."""
    rows, clock = [], 0
    for time in TIMES:
        for kernel, scale in ((VEC_COPY, factor), (REDUCE, reduce_factor and 0.5 * reduce_factor)):
            if scale is not None:
                rows.append(dispatch(clock, clock + int(scale * time), kernel=kernel))
                clock += 100_000
    directory.mkdir()
    write_database(directory / "x.db", recorded_run(load_target(target), rows, emulated=emulated))
    trace = read_database(directory / "x.db")
    made = build_profile(trace, target=load_target(target), symbol=VEC_COPY.mangled_name)
    write_documents(directory, describe(made, diagnose(made, trace, deterministic=emulated), trace))
    return directory


def edited(directory: Path, name: str, change: Any) -> Path:
    document = json.loads((directory / "profile.json").read_text())
    change(document)
    (directory / name).write_text(json.dumps(document))
    return directory / name


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


def shaped(directory: Path, rows: list[tuple[int, int]], counters: dict[str, float] | None = None) -> Path:
    """A run of copies: eight per (workgroups, mean time in ns)."""
    run: list[DispatchRecord] = []
    for groups, ns in rows:
        for time in TIMES:
            begin = 100_000 * len(run)
            one = dispatch(begin, begin + ns * time // 10_000, counters=counters)
            run.append(replace(one, grid=(groups * 256, 1, 1)))
    directory.mkdir()
    write_database(directory / "x.db", recorded_run(load_target("mi300x"), run, emulated=False))
    trace = read_database(directory / "x.db")
    made = build_profile(trace, target=load_target("mi300x"))
    write_documents(directory, describe(made, diagnose(made, trace, deterministic=False), trace))
    return directory


def test_another_launch_shape_is_never_a_regression(tmp_path: Path) -> None:
    base, new = shaped(tmp_path / "a", [(100, 10_000)]), shaped(tmp_path / "b", [(400, 80_000)])

    plain, normalised = compare(base, new), compare(base, new, "--normalise", "workgroup")
    unknown = compare(base, new, "--normalise", "byte")

    assert (plain.code, normalised.code, unknown.code) == (0, 0, 0)
    assert "1 not comparable" in plain.out
    assert "launched as 100x1x1 of 256x1x1, now as 400x1x1 of 256x1x1: other work" in " ".join(plain.out.split())
    assert "1 slower" in normalised.out
    # 10 us / 100 workgroups and 80 us / 400: twice the time per workgroup.
    assert "100 and 200 ns per workgroup" in " ".join(normalised.out.split())
    assert "no kernel is significantly slower by more than 5%" in normalised.out
    assert "collect its counters" in " ".join(unknown.out.split())
    assert max(map(len, (plain.out + normalised.out).splitlines())) <= 80


def test_another_launch_shape_is_compared_per_byte_of_traffic(tmp_path: Path) -> None:
    counters = vec_copy_counters()
    more = {name: 4 * value if name.startswith("TCC_") else value for name, value in counters.items()}
    base = shaped(tmp_path / "a", [(100, 10_000)], counters)
    new = shaped(tmp_path / "b", [(400, 30_000)], more)

    answer = compare(base, new, "--normalise", "byte", "--json")

    # Four times the traffic in three times the time.
    (row,) = json.loads(answer.out)["kernels"]
    assert (answer.code, row["verdict"], row["normalised"]) == (0, "faster", "byte")
    assert row["change"] == pytest.approx(-0.25, abs=1e-3)


def test_each_launch_shape_is_compared_with_the_same_shape(tmp_path: Path) -> None:
    base = shaped(tmp_path / "a", [(100, 10_000), (400, 40_000)])
    new = shaped(tmp_path / "b", [(400, 40_000), (100, 12_000)])

    answer = compare(base, new, "--json")

    document = json.loads(answer.out)
    assert answer.code == 1
    assert {(row["launch"], row["verdict"], row["regression"]) for row in document["kernels"]} == {
        ("400x1x1 of 256x1x1", "same", False),
        ("100x1x1 of 256x1x1", "slower", True),
    }


def test_a_kernel_that_is_not_the_profiled_one_regresses_too(tmp_path: Path) -> None:
    answer = compare(profile(tmp_path / "a"), profile(tmp_path / "b", reduce_factor=1.3), "--json")

    assert (answer.code, json.loads(answer.out)["regressions"]) == (1, ["reduce"])


def test_the_document_follows_its_schema_and_counts_the_verdicts(tmp_path: Path) -> None:
    answer = compare(profile(tmp_path / "a"), profile(tmp_path / "b", 1.2, reduce_factor=None), "--json")

    document = json.loads(answer.out)
    jsonschema.Draft202012Validator(json.loads((SCHEMAS / "compare.schema.json").read_text())).validate(document)
    counts = {"slower": 1, "faster": 0, "same": 0, "indistinguishable": 0, "unclear": 0, "not comparable": 0, "new": 0, "gone": 1}
    assert document["verdicts"] == counts
    assert [row["regression"] for row in document["kernels"]] == [True, False]


@pytest.mark.parametrize(("factor", "code", "verdict"), [(1.25, 1, "slower"), (1.15, 0, "indistinguishable")])
def test_an_emulated_regression_is_beyond_the_error_band(tmp_path: Path, factor: float, code: int, verdict: str) -> None:
    def narrow(document: dict[str, Any]) -> None:
        document["error_bands"]["ratio"] = [{"coverage": 0.9, "factor": 1.2}]

    runs = [profile(tmp_path / name, by, emulated=True) for name, by in (("a", 1.0), ("b", factor))]
    base, new = (edited(directory, "narrow.json", narrow) for directory in runs)

    answer, shown = compare(base, new, "--json"), compare(base, new)

    document = json.loads(answer.out)
    jsonschema.Draft202012Validator(json.loads((SCHEMAS / "compare.schema.json").read_text())).validate(document)
    assert (answer.code, shown.code) == (code, code)
    assert document["error_band"] == {"coverage": 0.9, "factor": 1.2}
    assert [row["verdict"] for row in document["kernels"]] == [verdict, "same"]
    assert document["verdicts"][verdict] == 1
    assert verdict in shown.out


def test_the_reason_for_an_unclear_verdict_is_below_the_table(tmp_path: Path) -> None:
    def one_run(document: dict[str, Any]) -> None:
        document["stability"] |= {"runs": 1, "durations_ms": document["stability"]["durations_ms"][:1]}
        for row in document["kernels"]:
            row |= {"calls": 1, "durations_ms": row["durations_ms"][:1]}

    base, new = profile(tmp_path / "a"), edited(profile(tmp_path / "b", 3.0), "one.json", one_run)

    answer = compare(base, new)

    assert answer.code == 0
    assert (
        " ".join(answer.out.split()).count("2 kernels: 1 run cannot show a difference: use 6 or more, for example --runs 10") == 1
    )
    assert "no result is conclusive" in answer.out


def test_the_table_of_hundreds_of_kernels_shows_the_changed_ones(tmp_path: Path) -> None:
    def many(factor: float) -> Callable[[dict[str, Any]], None]:
        def change(document: dict[str, Any]) -> None:
            last = document["kernels"][-1]
            for i in range(300):
                scale = factor if i == 250 else 1.0
                times = [scale * time for time in last["durations_ms"] * 2]
                document["kernels"].append(last | {"name": f"k{i}", "mangled_name": f"k{i}", "durations_ms": times})

        return change

    base = edited(profile(tmp_path / "a"), "many.json", many(1.0))
    new = edited(profile(tmp_path / "b"), "many.json", many(1.5))

    answer = compare(base, new)

    assert answer.code == 1
    assert "k250" in answer.out
    assert "and 262 more kernels" in answer.out
    assert "1 slower, 301 same" in answer.out
    assert len(answer.out.splitlines()) < 60


def test_wall_clock_times_are_compared_with_each_other_only(tmp_path: Path) -> None:
    stability = json.loads((profile(tmp_path / "p") / "profile.json").read_text())["stability"]

    def wall(directory: str, factor: float) -> Path:
        times = [factor * time for time in stability["durations_ms"]]
        found = {
            "schema_version": "1.0",
            "command": ["./app"],
            "runtime_ms": factor,
            "stability": stability | {"durations_ms": times},
        }
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "wall_time.json").write_text(json.dumps(found))
        return tmp_path / directory

    base, new = wall("a", 1.0), wall("b", 1.2)

    assert compare(base, base).code == 0
    assert compare(base, new).code == 1
    assert "slower by more than 5%: whole_command" in compare(base, new).out
    assert compare(base, tmp_path / "p").code == 2
    assert "timed: whole command and kernels" in compare(base, tmp_path / "p").err


def test_the_hint_for_a_database_is_the_analyze_command(tmp_path: Path) -> None:
    run = profile(tmp_path / "a")
    (tmp_path / "runs").mkdir()
    (run / "x.db").rename(tmp_path / "runs" / "x.db")

    file, directory = compare(run, tmp_path / "runs" / "x.db"), compare(run, tmp_path / "runs")

    assert (file.code, directory.code) == (2, 2)
    assert "rocm-perf analyze" in file.err
    assert "rocm-perf analyze" in directory.err


def test_another_partition_of_the_same_gpu_is_another_device(tmp_path: Path) -> None:
    base = profile(tmp_path / "a")
    other = edited(profile(tmp_path / "b"), "cpx.json", lambda document: document["gpu"].update(compute_units=38))

    answer = compare(base, other)

    assert answer.code == 2
    assert "compute_units: 304 and 38" in answer.err


def test_comparing_a_run_with_itself_is_noted(tmp_path: Path) -> None:
    base = profile(tmp_path / "a")

    assert "of the same run" in compare(base, base).out


def test_json_prints_only_the_document(tmp_path: Path) -> None:
    answer = compare(profile(tmp_path / "a"), profile(tmp_path / "b", 0.8, reduce_factor=None), "--json")

    document = json.loads(answer.out)
    rows = {row["mangled_name"]: row for row in document["kernels"]}
    assert (answer.code, answer.err) == (0, "")
    assert (rows["_Z7vecCopyPdS_S_ii"]["verdict"], rows["reduce"]["verdict"]) == ("faster", "gone")
    assert rows["_Z7vecCopyPdS_S_ii"]["change"] == pytest.approx(-0.2, abs=0.001)
    assert document["fail_over"] == 0.05
    assert document["base"]["time_kind"] == "measured"


@pytest.mark.parametrize("other", [{"emulated": True}, {"target": "mi325x"}, {"target": "mi250x"}])
def test_runs_of_different_kinds_need_force(tmp_path: Path, other: dict[str, Any]) -> None:
    base, new = profile(tmp_path / "a"), profile(tmp_path / "b", **other)

    refused, forced = compare(base, new), compare(base, new, "--force")

    assert refused.code == 2
    assert "these runs are not comparable" in refused.err
    assert str(other.get("target", "emulated")).removeprefix("mi") in refused.err.lower().replace("instinct mi", "")
    assert forced.code == 0
    assert "compared because of --force" in forced.out


def test_a_profile_of_an_older_version_is_compared_by_its_summary(tmp_path: Path) -> None:
    def forget(document: dict[str, Any]) -> None:
        for part in (document["stability"], *document["kernels"]):
            part.pop("durations_ms")

    base = edited(profile(tmp_path / "a"), "old.json", forget)

    answer = compare(base, profile(tmp_path / "b", 1.2))

    assert answer.code == 1
    assert "neither times nor their spread" in " ".join(answer.out.split())
    assert "unclear" in answer.out  # the other kernel, of which only the total is known


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "there is no"),
        ("{", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("[]", "invalid profile"),
        ('{"schema_version": "1.0", "kernel": "x"}', "key kernel"),
        ('{"schema_version": "2.0"}', "schema version 2.0"),
        ("\udcff", "invalid JSON"),
        (PROFILE_WITH.replace("TIME", "NaN"), "key runtime_ms"),
        (PROFILE_WITH.replace("TIME", "-1"), "key runtime_ms"),
    ],
)
def test_an_invalid_profile_is_rejected(tmp_path: Path, text: str | None, what: str) -> None:
    good, bad = profile(tmp_path / "a"), tmp_path / "bad.json"
    if text is not None:
        bad.write_bytes(text.encode(errors="surrogateescape"))

    answer = compare(good, bad)

    assert answer.code == 2
    assert what in answer.err
    assert "bad.json" in answer.err


def test_another_document_of_a_run_is_rejected(tmp_path: Path) -> None:
    run = profile(tmp_path / "a")

    answer = compare(run, run / "roofline.json")

    assert answer.code == 2
    assert "invalid profile: an object is expected" in answer.err
    assert "roofline.json, key kernel" in answer.err


def test_a_directory_without_a_profile_names_those_below_it(tmp_path: Path) -> None:
    profile(tmp_path / "a")

    answer = compare(tmp_path, tmp_path / "a")

    assert answer.code == 2
    assert f"did you mean {tmp_path / 'a'}?" in answer.err


@pytest.mark.parametrize("share", ["five", "-1%", "5", "nan", ""])
def test_an_invalid_threshold_is_rejected(tmp_path: Path, share: str) -> None:
    answer = compare(tmp_path, tmp_path, "--fail-over", share)

    assert answer.code == 2
    assert "5% or 0.05" in answer.err


def test_a_workload_directory_is_named_as_a_recording() -> None:
    workload = Path(__file__).parents[1] / "data" / "recorded" / "workloads_vcopy" / "MI200"

    answer = compare(workload, workload)

    assert answer.code == 2
    assert f"there is a recording: rocm-perf analyze {workload} --output DIR" in " ".join(answer.err.split())


@pytest.mark.parametrize("name", ["a.db", "42_kernel_trace.csv"])
def test_a_recording_without_a_profile_names_the_command_that_writes_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).touch()

    answer = compare(tmp_path / "run", tmp_path / "run")

    assert answer.code == 2
    assert f"rocm-perf analyze {tmp_path / 'run'} --output DIR" in " ".join(answer.err.split())
