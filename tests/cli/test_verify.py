"""`rocm-perf verify`: verdicts, documents, exit codes, and input that cannot be verified."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rocm_perf_lab.cli.verify_arguments import VerifyArguments
from rocm_perf_lab.jobs.verify.candidates import MAX_CANDIDATE_BYTES
from rocm_perf_lab.jobs.verify.document import export_schema
from tests.builders.command import Answer, rocm_perf
from tests.builders.verify_place import SCALE, VerifyPlace

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerifyPlace:
    monkeypatch.chdir(tmp_path)
    return VerifyPlace.made(tmp_path)


def verify(*words: str | Path) -> Answer:
    return rocm_perf("verify", "kernel=scale", *words)


def lines(answer: Answer) -> list[Any]:
    return [json.loads(line) for line in answer.out.splitlines()]


@pytest.mark.slow
def test_a_right_candidate_is_correct_and_the_exit_code_is_0(place: VerifyPlace) -> None:
    answer = verify("--candidate", place.candidate("right"), "--json", "--seed", "7", "--output", "run")

    assert answer.code == 0, answer.err
    (document,) = lines(answer)
    assert (document["verdict"], document["stage"]) == ("correct", "verification")
    assert (document["candidate"], document["kernel"], document["seed"]) == ("right.hip", "scale", 7)
    assert document["trials"] > 10
    assert document["not_checked"]
    jsonschema.validate(document, json.loads((SCHEMAS / "verify.schema.json").read_text()))
    assert json.loads(Path("run/verify.json").read_text()) == [document]
    assert not Path("mlruns").exists() and not Path("mlflow.db").exists()


@pytest.mark.slow
def test_each_candidate_gets_one_line_in_the_order_of_the_options(place: VerifyPlace) -> None:
    names = ["wrong", "right", "syntax", "printf"]
    options = [word for name in names for word in ("--candidate", place.candidate(name))]

    answer = verify(*options, "--json", "--output", "run")

    assert answer.code == 1
    documents = lines(answer)
    found = [(d["candidate"], d["verdict"], d["stage"]) for d in documents]
    assert found == [
        ("wrong.hip", "wrong", "verification"),
        ("right.hip", "correct", "verification"),
        ("syntax.hip", "refused", "compile"),
        ("printf.hip", "refused", "guard"),
    ]
    schema = json.loads((SCHEMAS / "verify.schema.json").read_text())
    for document in documents:
        jsonschema.validate(document, schema)
    assert json.loads(Path("run/verify.json").read_text()) == documents
    assert "3 of 4 candidates did not pass: wrong.hip is wrong" in answer.err
    evidence = documents[0]["evidence"]
    assert evidence["output"] == "y"
    assert evidence["trial"]
    assert evidence["actual"] == pytest.approx(1.25 * evidence["expected"])
    assert evidence["params"]["n"] > evidence["element"][0]
    assert documents[2]["evidence"]["source_line"] == 5
    assert documents[2]["reason"].startswith("syntax.hip:5:")
    assert "printf" in documents[3]["evidence"]["guards"][0]["detail"]
    assert documents[3]["evidence"]["source_line"] == 5


@pytest.mark.slow
def test_a_wrong_candidate_is_explained_and_its_seed_replays_the_verdict(place: VerifyPlace) -> None:
    candidate = place.candidate("tail")

    first = verify("--candidate", candidate, "--json", "--output", "first")
    (found,) = lines(first)
    again = verify("--candidate", candidate, "--json", "--output", "again", "--seed", str(found["seed"]))
    table = verify("--candidate", candidate, "--output", "table", "--seed", str(found["seed"]))

    assert (first.code, again.code, table.code) == (1, 1, 1)
    assert lines(again) == [found]
    assert found["evidence"]["params"]["n"] % 64 != 0
    assert f"n={found['evidence']['params']['n']}" in table.out
    assert f"seed {found['seed']}" in table.out
    assert "not checked: time" in table.out


@pytest.mark.slow
def test_a_memory_defect_is_wrong_and_names_the_line_of_the_candidate(place: VerifyPlace) -> None:
    answer = verify("--candidate", place.candidate("outside"), "--json", "--seed", "1")

    (document,) = lines(answer)
    assert answer.code == 1
    assert (document["verdict"], document["stage"]) == ("wrong", "gate")
    assert document["evidence"]["source_line"] == 5
    assert "outside.hip:5" in document["reason"]


@pytest.mark.slow
def test_a_candidate_that_never_ends_is_wrong(place: VerifyPlace) -> None:
    answer = verify("--candidate", place.candidate("hangs"), "--json", "--seed", "1")

    (document,) = lines(answer)
    assert answer.code == 1
    assert document["verdict"] in ("wrong", "refused")
    assert document["verdict"] == "refused" or "instructions" in document["reason"]


def broken_files(directory: Path) -> dict[str, str]:
    """Return paths that are no candidates, with a part of the message."""
    (directory / "directory.hip").mkdir()
    (directory / "latin.hip").write_bytes("// größer\n".encode("latin-1"))
    (directory / "binary.hip").write_bytes(b"\x7fELF\0\0")
    (directory / "empty.hip").write_text("\n")
    with (directory / "huge.hip").open("wb") as file:
        file.truncate(MAX_CANDIDATE_BYTES + 1)
    (directory / "loop.hip").symlink_to("loop.hip")
    os.mkfifo(directory / "pipe.hip")
    return {
        "missing.hip": "cannot read the candidate: No such file",
        "directory.hip": "the candidate is a directory",
        "latin.hip": "the candidate is not UTF-8: byte 5 is 0xf6",
        "binary.hip": "the candidate is a binary file",
        "empty.hip": "the candidate is empty",
        "huge.hip": "the candidate has more than 4 MiB",
        "loop.hip": "cannot read the candidate: Too many levels of symbolic links",
        "pipe.hip": "the candidate is not a regular file",
        "x" * 300 + ".hip": "cannot read the candidate: File name too long",
    }


def test_files_that_are_no_candidates_are_bad_input_and_nothing_is_written(place: VerifyPlace) -> None:
    good = place.candidate("right")

    for name, message in broken_files(place.directory).items():
        answer = verify("--candidate", good, "--candidate", name)

        assert answer.code == 2, name
        assert message in " ".join(answer.err.split()), name
        assert answer.out == ""
    assert not Path("outputs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("kernel=scale",), "no candidate to verify"),
        ((), "no kernel to verify"),
        (("kernel=absent", "--candidate", "right.hip"), "there is no kernel named 'absent'"),
        (("kernel=scale", "--candidate", "right.hip", "--build", "x"), "--build applies to applications only"),
        (("kernel=scale", "--candidate", "right.hip", "--fast"), "there is no option --fast"),
        (("./app", "--candidate", "right.hip", "--seed", "3"), "--seed applies to described kernels only"),
        (("scale.hip", "--candidate", "right.hip"), "scale.hip is a source file, not a program"),
        (("scale", "--candidate", "right.hip"), "program scale is not on PATH"),
    ],
)
def test_arguments_without_a_meaning_are_bad_input(place: VerifyPlace, words: tuple[str, ...], message: str) -> None:
    place.candidate("right")

    answer = rocm_perf("verify", *words)

    assert answer.code == 2
    assert message in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
    assert not list(Path().rglob("verify.json"))


def test_a_kernel_that_fails_its_own_trials_is_bad_input(place: VerifyPlace) -> None:
    answer = verify("kernel.reference={y: 3.0 * x}", "--candidate", place.candidate("right"), "--output", "run")

    assert answer.code == 2
    assert "the unmodified kernel differs from its reference" in " ".join(answer.err.split())
    assert not Path("run/verify.json").exists()


def test_runs_are_tracked_only_on_request() -> None:
    options = {"candidates": ("new.hip",)}

    asked = VerifyArguments.parse(("kernel=scale", "tracking=mlflow"), **options).overrides()

    assert [word for word in asked if word.startswith("tracking")] == ["tracking=none", "tracking=mlflow"]  # the last one wins
    assert "tracking=none" in VerifyArguments.parse(("kernel=scale",), **options).overrides()


@pytest.mark.slow
def test_names_with_quotes_and_commas_reach_the_job_unchanged(place: VerifyPlace) -> None:
    name = "it's, {a} $b.hip"
    (place.directory / name).write_text(SCALE)

    answer = verify("--candidate", name, "--json", "--seed", "1")

    assert answer.code == 0, answer.err
    (document,) = lines(answer)
    assert document["candidate"] == name
    assert "the candidate is identical to the unmodified source" in document["warnings"]


def test_the_committed_schema_matches_the_model(tmp_path: Path) -> None:
    assert export_schema(tmp_path).read_text() == (SCHEMAS / "verify.schema.json").read_text()
