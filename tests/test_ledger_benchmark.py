"""The benchmark of the ledger: its labels, its rates and its intervals."""

from dataclasses import replace

import pytest

from benchmarks.ledger.__main__ import SETS
from benchmarks.ledger.cases import KERNELS, NEAR, Case
from benchmarks.ledger.development import DEVELOPMENT
from benchmarks.ledger.diagnosing import Answer, DiagnosedCase, EvidenceKind
from benchmarks.ledger.report import calibration, case_rows, figures, misses, wilson_interval
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit, Ledger

CASES = [case for cases in SETS.values() for case in cases]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_label_is_in_the_vocabulary_and_has_a_reason_with_numbers(case: Case) -> None:
    known = {*(str(cause) for cause in Cause), *(f"{NEAR}{unit}" for unit in HardwareUnit)}

    assert set(case.accepted) <= known
    assert sum(word[0].isdigit() for word in case.why.split()) >= 2
    assert (KERNELS / case.source).read_text().count(f" {case.kernel}(") == 1
    assert not case.also or case.corrected or len(case.why) > 100, "a second label needs its arithmetic"


def test_sets_share_no_kernel_and_cases_differ() -> None:
    names = [case.name for case in CASES]
    kernels = [{case.kernel for case in cases} for cases in SETS.values()]

    assert len(names) == len(set(names))
    assert sum(map(len, kernels)) == len(set().union(*kernels))


def test_wilson_interval_of_nine_in_ten() -> None:
    # Newcombe (1998), method 3: 9 of 10 has the interval 0.5958 to 0.9821.
    low, high = wilson_interval(9, 10)

    assert low == pytest.approx(0.5958, abs=1e-4)
    assert high == pytest.approx(0.9821, abs=1e-4)


def diagnosed(found: str, confidence: float, *, label: str = "tail") -> DiagnosedCase:
    ledger = Ledger(1000.0, True, None, (), 1000.0, 1.0, (), found, confidence)
    case = replace(DEVELOPMENT[0], label=label, also=("small_grid",))
    return DiagnosedCase(case, 1.0, 0.1, tuple(Answer(kind, found, confidence, "", ledger) for kind in EvidenceKind))


def test_accepted_second_label_is_right_and_undecided_is_wrong_but_no_verdict() -> None:
    cases = [diagnosed("tail", 0.9), diagnosed("small_grid", 0.85), diagnosed("divergence", 0.3), diagnosed("undecided", 0.0)]

    rates = {figure.key: figure.value for figure in figures({"unseen": cases})}
    bins = calibration(cases, EvidenceKind.ALL)

    assert rates["unseen_all"].startswith("2 of 4 ")
    assert rates["unseen_all_sure_wrong"].startswith("0 of 2 ")
    assert [(one.verdicts, one.right) for one in bins] == [(1, 0), (0, 0), (0, 0), (2, 2)]


def test_confidence_of_one_is_in_the_last_bin_and_a_wrong_one_is_counted() -> None:
    cases = [diagnosed("divergence", 1.0), diagnosed("tail", 0.8)]

    assert [(one.verdicts, one.right) for one in calibration(cases, EvidenceKind.TRACE)][-1] == (2, 1)
    assert next(f.value for f in figures({"unseen": cases}) if f.key == "unseen_trace_sure_wrong").startswith("1 of 2 ")


def test_misses_and_rows_name_what_was_expected_and_found() -> None:
    case = diagnosed("divergence", 0.3)

    assert next(iter(misses([case]))) == f"{case.case.name} (all): expected tail or small_grid, found divergence (30%)"
    assert case_rows([case])[case.case.name][2:4] == ("tail or small_grid", "[bold]WRONG: divergence 30%")
