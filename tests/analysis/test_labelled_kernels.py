"""First lines of ledgers of kernels with a known dominant cause; `python -m benchmarks.ledger` runs all of them."""

import pytest

from benchmarks.ledger.development import DEVELOPMENT
from benchmarks.ledger.diagnosing import DiagnosedCase, EvidenceKind, diagnose_case

QUICK = (
    "dot", "codebook_products", "add_bias", "sum_squares", "spmv_row_per_wave", "joint_histogram", "transpose",
    "spmv_row_per_item", "luminance_histogram", "quantise_groups", "photon_paths", "cell_list_forces", "sgemm_nt_32",
    "box_filter_8", "decode_states",
)  # fmt: skip
"""Kernels of at most two seconds of processor time: two or more for each group of causes."""


@pytest.fixture(scope="module", params=QUICK)
def diagnosed(request: pytest.FixtureRequest) -> DiagnosedCase:
    return diagnose_case(next(case for case in DEVELOPMENT if case.kernel == request.param))


def test_first_line_names_the_cause(diagnosed: DiagnosedCase) -> None:
    answer = diagnosed.answer(EvidenceKind.ALL)

    assert answer.found in diagnosed.case.accepted, [(str(loss.cause), round(loss.share, 2)) for loss in answer.ledger.losses]


def test_roof_losses_and_rest_add_up_to_the_measured_time(diagnosed: DiagnosedCase) -> None:
    for answer in diagnosed.answers:
        ledger = answer.ledger
        roof = ledger.roof.time_ns or 0.0 if ledger.roof else 0.0
        parts = [roof, *(loss.amount_ns or 0.0 for loss in ledger.losses), ledger.unexplained_ns or 0.0]

        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(ledger.measured_ns, rel=1e-6)
        assert ledger.measured_ns == pytest.approx(diagnosed.duration_us * 1e3, rel=1e-3)


def test_every_loss_has_evidence_and_an_upper_bound_of_its_gain(diagnosed: DiagnosedCase) -> None:
    for answer in diagnosed.answers:
        for loss in answer.ledger.losses:
            assert loss.evidence
            assert loss.share <= loss.gain + 1e-9
            assert loss.gain <= 1


def test_equal_runs_have_equal_ledgers() -> None:
    case = next(case for case in DEVELOPMENT if case.kernel == "add_bias")

    assert diagnose_case(case).answers == diagnose_case(case).answers
