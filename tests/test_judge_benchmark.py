"""The benchmark of the judge: its corpus, its statistics, and the check of a few candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.figures import RESULTS, Result
from benchmarks.judge.corpus import (
    CorpusError,
    TextEdit,
    apply_edits,
    kernel_names,
    load_candidates,
    load_kernel,
    select_candidates,
)
from benchmarks.judge.judging import JudgedCandidate, JudgedKernel, judge_kernel
from benchmarks.judge.mutation import minimal_edit
from benchmarks.judge.oracle import Oracle
from benchmarks.judge.report import ErrorRate, false_accepts, false_rejects, misjudged_lines, summary
from rocm_perf_lab.verify.reference import BASELINE

if TYPE_CHECKING:
    from pathlib import Path


def test_the_corpus_is_large_enough_and_its_edits_apply() -> None:
    candidates = [c for found in select_candidates(kernel_names()).values() for c in found]
    development = [c for c in candidates if c.part == "development"]

    assert len(kernel_names()) >= 20
    assert sum(c.entry.verdict == "wrong" and c.origin == "hand" for c in development) >= 80
    assert sum(c.entry.verdict == "legitimate" for c in development) >= 80
    assert sum(c.origin == "mutation" for c in development) >= 40
    assert all(c.entry.verdict == "wrong" for c in candidates if c.origin == "mutation")


@pytest.mark.parametrize("name", kernel_names())
def test_every_kernel_has_a_reference_and_different_candidates_of_both_kinds(name: str) -> None:
    candidates = load_candidates(name)
    texts = [c.text for c in candidates]

    assert load_kernel(name).reference != BASELINE
    assert len(set(texts)) == len(texts)
    assert {c.entry.verdict for c in candidates} == {"wrong", "legitimate"}
    assert load_kernel(name).source_path.read_text() not in texts


def test_an_edit_must_apply_exactly_once() -> None:
    text = "a b a"

    assert apply_edits(text, [TextEdit(find="b", replace="c"), TextEdit(find="c a", replace="d")], where="here") == "a d"
    with pytest.raises(CorpusError, match="applies 2 times"):
        apply_edits(text, [TextEdit(find="a", replace="c")], where="here")
    with pytest.raises(CorpusError, match="applies 0 times"):
        apply_edits(text, [TextEdit(find="x", replace="c")], where="here")


def test_an_unknown_kernel_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(CorpusError, match="nonexistent") as error:
        load_kernel("nonexistent")

    assert error.value.hint is not None and "axpby" in error.value.hint


def test_the_edit_of_a_mutant_is_unique_in_the_source() -> None:
    before = "x = 1;\ny = 2;\nx = 1;\nz = 3;\n"
    after = "x = 1;\ny = 2;\nx = 4;\nz = 3;\n"

    edit = minimal_edit(before, after)

    assert before.count(edit.find) == 1
    assert apply_edits(before, [edit], where="here") == after


def test_interval_of_no_error_in_150() -> None:
    rate = ErrorRate(0, 150)

    assert rate.interval == pytest.approx((0.0, 1 - 0.025 ** (1 / 150)))  # Clopper-Pearson without errors
    assert str(rate) == "0 of 150 (0.0%), 95 % interval 0.0% to 2.4%"


def test_a_wrong_candidate_that_passes_and_a_legitimate_one_that_fails_are_errors() -> None:
    outcomes = [
        _judged("a", "wrong", "right"),
        _judged("b", "wrong", "guard"),
        _judged("c", "legitimate", "right"),
        _judged("d", "legitimate", "gate"),
        _judged("e", "legitimate", "right"),
    ]

    figures = {figure.key: figure.value for figure in summary([JudgedKernel("k", 1.0, tuple(outcomes))])}

    assert (false_accepts(outcomes).errors, false_accepts(outcomes).total) == (1, 2)
    assert (false_rejects(outcomes).errors, false_rejects(outcomes).total) == (1, 3)
    assert figures["false_accepts"].startswith("1 of 2 (50.0%)")
    assert figures["seconds"] == "median 2.0, maximum 2.0"
    assert [line.partition("\n")[0] for line in misjudged_lines(outcomes)] == [
        "false accept: k/a [development, hand]",
        "false reject (gate): k/d [development, hand]",
    ]


@pytest.mark.slow
def test_the_judge_agrees_with_the_labels_of_a_few_candidates() -> None:
    names = ("tail_of_one", "scalar_of_the_description", "constant_shortcut", "float4_with_tail", "namespace_and_macro")
    candidates = [c for c in load_candidates("axpby") if c.entry.name in names]

    judged = judge_kernel("axpby", candidates, seed=1)

    assert len(judged.candidates) == len(names)
    assert [c.name for c in judged.candidates if c.misjudged] == []


def test_the_oracle_finds_a_wrong_candidate_and_agrees_with_a_legitimate_one(tmp_path: Path) -> None:
    description = load_kernel("batched_gemm")
    candidates = {c.entry.name: c for c in load_candidates("batched_gemm")}
    oracle = Oracle(description)

    wrong = oracle.disagreement(candidates["missing_last_products"].write(tmp_path, "wrong.hip"))
    legitimate = oracle.disagreement(candidates["backwards"].write(tmp_path, "legitimate.hip"))

    assert wrong is not None and wrong.case.params["batch"] == 1  # the first shape with an incomplete group of four
    assert legitimate is None


@pytest.mark.skipif(not (RESULTS / "judge.json").is_file(), reason="no stored result")
def test_the_stored_result_is_that_of_the_corpus() -> None:
    stored = {
        (judged["kernel"], c["name"], c["label"], c["part"])
        for judged in Result.load("judge").data["kernels"]
        for c in judged["candidates"]
    }

    candidates = [c for found in select_candidates(kernel_names()).values() for c in found]
    corpus = {(c.kernel, c.entry.name, c.entry.verdict, c.part) for c in candidates}
    assert stored == corpus


def _judged(name: str, label: str, stage: str) -> JudgedCandidate:
    return JudgedCandidate("k", name, label, "development", "hand", "reason of the label", stage, "", 2.0)
