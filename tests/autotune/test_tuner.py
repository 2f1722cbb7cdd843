"""When a search without a budget ends, and when one on which nothing runs gives up."""

from typing import Any

from rocm_perf_lab.autotune.trials import TrialRecord
from rocm_perf_lab.autotune.tuner import End


def trial(phase: str, runtime_ms: float | None) -> TrialRecord:
    decision: dict[str, Any] = {"expected_improvement": 1e-5 if phase == "confirmation" else 0.1}
    return TrialRecord(0, {}, phase, runtime_ms, None, decision, None, None, {})


def length(trials: list[TrialRecord], *, unlimited: bool = True) -> int | None:
    end = End(unlimited, [])
    return next((number for number, each in enumerate(trials, start=1) if end.reached(each)), None)


def test_eight_trials_that_promise_nothing_end_a_search_also_where_others_lie_between_them() -> None:
    best, hope, none = trial("seed", 1.0), trial("prediction", 2.0), trial("confirmation", 1.5)

    assert length([best, *([none] * 20)]) == 9
    assert length([best, *([none, hope] * 20)]) == 16


def test_a_better_time_begins_the_count_anew() -> None:
    none, better = trial("confirmation", 1.5), trial("prediction", 0.5)

    assert length([trial("seed", 1.0), *([none] * 7), better, *([none] * 20)]) == 17


def test_with_a_budget_the_budget_decides() -> None:
    assert length([trial("seed", 1.0), *([trial("confirmation", 1.5)] * 100)], unlimited=False) is None


def test_a_search_in_which_nothing_runs_gives_up_after_fifty() -> None:
    failed = trial("seed", None)

    assert length([failed] * 100) == 50
    assert length([trial("seed", 1.0), *([failed] * 100)]) is None
