"""The default sampler: no repetition, determinism, failures, and priors."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.objective import Infeasible, Measurement, SpaceExhausted
from rocm_perf_lab.autotune.prior import Prior, PriorError, Trust
from rocm_perf_lab.autotune.sampler import MODELS, RegressionSampler, SamplerError, as_times
from rocm_perf_lab.autotune.search import GaussianSearch, log_expected_improvement
from rocm_perf_lab.autotune.spaces.encoding import encode
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.strategy import Observations
from rocm_perf_lab.autotune.trials import CLAIM

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space

optuna.logging.set_verbosity(optuna.logging.ERROR)


def tiles(**more: Any) -> Space:
    content = {
        "parameters": {
            "x": {"start": 1, "stop": 256, "factor": 2},
            "y": [1, 2, 3, 4, 6, 8],
            "unroll": [0, 1],
            "order": ["a", "b", "c"],
        },
        "constraints": ["x * y <= 1024"],
        **more,
    }
    return build_space(describe(content, where="test"))


def bowl(configuration: Configuration) -> float:
    """Fastest at x = 32, y = 4, unroll = 1, order = b: 1 ms."""
    x, y = float(configuration["x"]), float(configuration["y"])
    return math.exp(
        0.1 * (math.log2(x) - 5) ** 2
        + 0.2 * (math.log2(y) - 2) ** 2
        + 0.3 * (1 - float(configuration["unroll"]))
        + 0.2 * (configuration["order"] != "b")
    )


def measure(configuration: Configuration) -> Measurement:
    return Measurement(bowl(configuration))


def study_of(sampler: RegressionSampler) -> optuna.Study:
    return optuna.create_study(sampler=sampler)


def configurations(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("model", MODELS)
def test_a_whole_space_is_measured_once_and_then_exhausted(model: str) -> None:
    space = build_space(describe({"parameters": {"x": [1, 2, 4, 8], "y": [1, 2, 3]}, "constraints": ["x + y != 5"]}, where="t"))
    sampler = RegressionSampler(space, model=model, seeds=4)
    study = study_of(sampler)
    rough = np.random.default_rng(1)

    search(study, space, lambda _: Measurement(float(rough.uniform(1, 2))), 100)

    assert sorted(str(t.params) for t in study.trials if t.params) == sorted(
        str(space.configuration(i)) for i in range(len(space))
    )
    with pytest.raises(SpaceExhausted):
        study.ask(dict(space.distributions()))


def test_optimize_stops_when_the_space_is_exhausted() -> None:
    space = build_space(describe({"parameters": {"x": [1, 2, 4, 8], "y": [1, 2]}}, where="t"))
    study = study_of(RegressionSampler(space))

    study.optimize(lambda t: t.suggest_categorical("x", [1, 2, 4, 8]) + t.suggest_categorical("y", [1, 2]), n_trials=50)

    assert len(study.trials) == 8
    assert len({str(c) for c in configurations(study)}) == 8


@pytest.mark.parametrize("model", MODELS)
def test_equal_seeds_give_equal_trials_and_others_differ(model: str) -> None:
    def trials(seed: int) -> list[dict[str, Any]]:
        study = study_of(RegressionSampler(tiles(), seed=seed, model=model, seeds=8))
        search(study, tiles(), measure, 20)
        return configurations(study)

    assert trials(3) == trials(3)
    assert trials(3) != trials(4)


def test_the_optimum_of_a_smooth_space_is_found_without_repetition() -> None:
    found = []
    for seed in range(3):
        study = study_of(RegressionSampler(tiles(), seed=seed))
        search(study, tiles(), measure, 40)
        assert len({str(c) for c in configurations(study)}) == 40
        found.append(study.best_value)

    assert max(found) < 1.1
    assert min(found) == pytest.approx(1.0)


def test_phases_and_decisions_are_in_the_study() -> None:
    space = tiles(defaults={"x": 64, "y": 1, "unroll": 0, "order": "a"})
    sampler = RegressionSampler(space, seeds=6)
    study = study_of(sampler)
    search(study, space, measure, 40)
    phases = [trial.user_attrs["phase"] for trial in study.trials]
    report = sampler.report(study)

    assert configurations(study)[0] == space.defaults
    assert phases[:6] == ["seed"] * 6 and "seed" not in phases[6:]
    told = {"predicted_ms", "log_std", "expected_improvement", "candidates", "runs_probability"}
    assert study.trials[7].user_attrs["decision"].keys() == told
    assert study.user_attrs["autotune"]["model"] == "gaussian_process"
    assert report.phases["seed"] == 6 and sum(report.phases.values()) == 40
    assert report.evaluated_configs == 40 and report.search_space_size == len(space)
    assert report.best_config == {"parameters": study.best_params, "runtime_ms": study.best_value}
    assert report.model["r2"] > 0.75 and report.warning is None
    assert report.as_json()["model"]["name"] == "gaussian_process"


def test_noise_is_reported_as_low_confidence() -> None:
    sampler = RegressionSampler(tiles())
    study = study_of(sampler)
    noise = np.random.default_rng(0)
    search(study, tiles(), lambda _: Measurement(float(noise.lognormal())), 40)
    report = sampler.report(study)

    assert report.warning == "low_model_confidence"


def test_configurations_that_cannot_run_fail_and_are_avoided() -> None:
    def objective(configuration: Configuration) -> Measurement | Infeasible:
        return Infeasible("too many registers") if float(configuration["x"]) > 64 else measure(configuration)

    sampler = RegressionSampler(tiles(), seed=1)
    study = study_of(sampler)
    search(study, tiles(), objective, 60)
    failed = [trial for trial in study.trials if trial.state == TrialState.FAIL]

    assert failed and failed[0].user_attrs["reason"] == "too many registers"
    assert sum(trial.number < 40 for trial in failed) < 5  # two of nine values of x: 9 of 40 by chance alone
    assert sampler.report(study).infeasible_configs == len(failed)


def test_a_search_continues_if_the_first_configurations_fail() -> None:
    tried = 0

    def objective(configuration: Configuration) -> Measurement | Infeasible:
        nonlocal tried
        tried += 1
        return Infeasible("no") if tried <= 15 else measure(configuration)

    study = study_of(RegressionSampler(tiles(), seeds=5))
    search(study, tiles(), objective, 25)

    assert [t.user_attrs["phase"] for t in study.trials[:17]] == ["seed"] * 17
    assert sum(t.state == TrialState.COMPLETE for t in study.trials) == 10


def test_pending_trials_are_not_proposed_again() -> None:
    space = tiles()
    study = study_of(RegressionSampler(space, seeds=5))
    search(study, space, measure, 8)

    asked = [study.ask(dict(space.distributions())) for _ in range(6)]

    assert len({str(c) for c in configurations(study)}) == 14
    for trial in asked:
        study.tell(trial, bowl(trial.params))


def test_threads_that_share_a_study_take_different_configurations() -> None:
    space = tiles()
    study = study_of(RegressionSampler(space, seeds=5))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: search(study, space, measure, 10), range(4)))

    assert len(study.trials) == 40
    assert len({str(c) for c in configurations(study)}) == 40


def test_a_claim_of_another_worker_is_respected() -> None:
    space = tiles()
    study = study_of(RegressionSampler(space, seed=1))
    alone = study_of(RegressionSampler(space, seed=1))
    first = alone.ask(dict(space.distributions())).params
    study.ask().set_user_attr(CLAIM, [values.index(first[name]) for name, values in space.values.items()])

    assert study.ask(dict(space.distributions())).params != first


def test_an_interrupted_measurement_is_repeated() -> None:
    space = tiles()
    study = study_of(RegressionSampler(space, seed=1))

    def interrupt(configuration: Configuration) -> Measurement:
        raise KeyboardInterrupt(str(configuration))

    with pytest.raises(KeyboardInterrupt):
        search(study, space, interrupt, 1)
    search(study, space, measure, 1)

    assert study.trials[0].params == study.trials[1].params
    assert study.trials[0].state == TrialState.FAIL


def test_a_resumed_study_measures_no_configuration_twice() -> None:
    space = tiles()
    study = study_of(RegressionSampler(space, seed=5))
    search(study, space, measure, 14)
    study.sampler = pickle.loads(pickle.dumps(RegressionSampler(space, seed=5)))
    search(study, space, measure, 14)

    assert len({str(c) for c in configurations(study)}) == 28


def test_a_study_of_another_space_is_refused() -> None:
    study = study_of(RegressionSampler(tiles()))
    search(study, tiles(), measure, 1)
    other = tiles(constraints=["x <= 128"])
    study.sampler = RegressionSampler(other)

    with pytest.raises(SamplerError, match="started with another space"):
        study.ask(dict(other.distributions()))


def test_unsupported_settings_and_studies_are_refused() -> None:
    with pytest.raises(SamplerError, match="unknown model 'forest'"):
        RegressionSampler(tiles(), model="forest")
    study = study_of(RegressionSampler(tiles()))
    with pytest.raises(SamplerError, match="no parameter 'z'"):
        study.ask().suggest_int("z", 0, 3)


def test_informative_features_shorten_the_search() -> None:
    space = tiles()
    noise = np.random.default_rng(4).lognormal(size=len(space))

    def told(configuration: Configuration) -> Measurement | Infeasible:
        row = space.index(configuration)
        return Measurement(float(noise[row])) if row is not None else Infeasible("unknown")

    def best_of(features: Column | None) -> float:
        study = study_of(RegressionSampler(space, seed=2, features=features))
        search(study, space, told, 14)
        return float(study.best_value)

    assert best_of(np.log(noise)[:, None] / 10) == noise.min() < best_of(None)


def test_features_of_another_length_are_refused() -> None:
    with pytest.raises(SamplerError, match="features of 3 configurations"):
        RegressionSampler(tiles(), features=np.zeros((3, 1)))


def test_a_good_prior_shortens_the_search_and_a_bad_one_hardly_lengthens_it() -> None:
    space = tiles()
    everything = [space.configuration(i) for i in range(len(space))]

    def evaluations(prior: Prior | None) -> float:
        counts = []
        for seed in range(3):
            study = study_of(RegressionSampler(space, seed=seed, prior=prior))
            search(study, space, measure, 40)
            counts.append(next((n for n, t in enumerate(study.trials, 1) if t.values and t.values[0] < 1.05), 41))
        return float(np.mean(counts))

    alone = evaluations(None)
    good = Prior.from_results(space, [(c, 3 * bowl(c) ** 1.2) for c in everything], "good")
    bad = Prior.from_results(space, [(c, 1 / bowl(c)) for c in everything], "bad")

    assert evaluations(good) < alone
    assert evaluations(bad) <= alone + 6


def test_a_prior_proposes_the_fastest_of_a_region_if_the_seeds_agree() -> None:
    space = tiles()
    everything = [space.configuration(i) for i in range(len(space))]

    def seeds_with(prior: Prior) -> list[str]:
        study = study_of(RegressionSampler(space, prior=prior))
        search(study, space, measure, 20)
        return [t.user_attrs["decision"]["why"] for t in study.trials if t.user_attrs["phase"] == "seed"]

    good = seeds_with(Prior.from_results(space, [(c, bowl(c)) for c in everything], "old GPU"))
    bad = seeds_with(Prior.from_results(space, [(c, 1 / bowl(c)) for c in everything], "old GPU"))

    fast, other = "fastest of its region according to old GPU", "represents the space"
    assert good[:9] == [*[other] * 8, fast]
    assert bad == [other] * 8


def _inverted(rows: Column) -> Column:
    return 1 / rows


def _shuffled(rows: Column) -> Column:
    return np.random.default_rng(5).permutation(rows)


def _smallest_tiles_first(rows: Column) -> Column:
    return np.arange(1.0, len(rows) + 1)


@pytest.mark.parametrize("spoil", [_inverted, _shuffled, _smallest_tiles_first])
def test_a_misleading_prior_costs_only_its_proposals(spoil: Callable[[Column], Column]) -> None:
    space = tiles()
    times = spoil(np.array([bowl(space.configuration(i)) for i in range(len(space))]))
    bad = Prior.from_results(space, [(space.configuration(i), float(t)) for i, t in enumerate(times)], "bad")

    def trials(prior: Prior | None) -> list[optuna.trial.FrozenTrial]:
        study = study_of(RegressionSampler(space, seed=3, prior=prior))
        search(study, space, measure, 30)
        return study.trials

    others = [t.params for t in trials(bad) if "from_prior" not in t.user_attrs["decision"]]

    assert len(others) >= 28  # one try after the design, one after sixteen more
    assert others == [t.params for t in trials(None)][: len(others)]


def test_a_prior_is_used_once_measurements_confirm_it() -> None:
    space = tiles()
    prior = Prior.from_results(
        space, [(space.configuration(i), bowl(space.configuration(i)) ** 2) for i in range(len(space))], "old"
    )
    study = study_of(RegressionSampler(space, prior=prior))
    search(study, space, measure, 24)
    believed = [t.user_attrs["decision"]["prior_believed"] for t in study.trials if t.user_attrs["phase"] != "seed"]

    assert believed == sorted(believed) and believed[8:] and all(believed[8:])


def _trust() -> Trust:
    """Rows are faster the smaller they are; the design is 10, 20, … 80."""
    space = tiles()
    prior = Prior.from_results(space, [(space.configuration(i), 1.0 + i) for i in range(len(space))], "old")
    return Trust(space, prior, range(10, 90, 10))


def test_winners_are_the_fastest_rows_nearest_to_each_seed() -> None:
    space = tiles()
    points, logs, design = encode(space, factors=False), np.arange(len(space), dtype=float), range(10, 90, 10)
    distances = np.linalg.norm(points[:, None] - points[None, list(design)], axis=2)

    for winner, row in _trust().winners.items():
        near = np.flatnonzero(distances.argmin(axis=1) == list(design).index(row))
        assert winner == near[np.argmin(logs[near])] < row


@pytest.mark.parametrize(("led", "others", "tries"), [(0, 0, 1), (1, 0, 2), (0, 15, 1), (0, 16, 2), (3, 33, 6)])
def test_the_number_of_proposals_of_a_prior_is_limited(led: int, others: int, tries: int) -> None:
    assert _trust().entitled(led, others) == tries


def test_observations_mark_proposed_and_leading_rows() -> None:
    seen = Observations(np.array([4, 7, 9, 2]), np.array([3.0, math.inf, 2.0, 2.5]), np.array([5]), np.array([2, 5, 9]))

    assert seen.tried.tolist() == [False, False, True, True]
    assert seen.led.tolist() == [True, False, True, False]


def test_the_next_winner_is_the_fastest_by_earlier_ratios() -> None:
    trust = _trust()
    design = np.arange(10, 90, 10)
    free = np.ones(len(tiles()), bool)
    agreeing = 1.0 + design
    expected = {row: agreeing[design.tolist().index(seed)] * (1.0 + row) / (1.0 + seed) for row, seed in trust.winners.items()}

    assert trust.next(design, agreeing, free) == min(expected, key=lambda row: expected[row])
    assert trust.next(design, 1 / agreeing, free) is None
    assert trust.next(design, agreeing, ~free) is None


@pytest.mark.parametrize(
    ("proposed", "design", "proven"), [(1, 8, False), (2, 4, False), (2, 8, True), (3, 4, True), (0, 8, False)]
)
def test_significantly_faster_proposals_confirm_a_prior(proposed: int, design: int, proven: bool) -> None:
    # 1/9, 1/15, 1/45 and 1/35 by chance; one in twenty is the limit
    fast, slow = np.linspace(1.0, 1.5, proposed), np.linspace(2.0, 2.5, design)
    assert _trust().proven(fast, slow) is proven
    assert not _trust().proven(np.append(fast, 3.0), slow)


def test_a_prior_needs_a_clear_bayes_factor_and_an_agreeing_order() -> None:
    trust, rows = _trust(), np.arange(100, 120)
    fast_stays_fast, reversed_order = rows.astype(float), -rows.astype(float)

    def believes(log_factor: float, times: Column) -> bool:
        trust.judge(0, log_factor, rows, times, proven=False)
        return trust.believed

    assert not believes(1.5, fast_stays_fast)
    assert not believes(30.0, reversed_order)
    assert not believes(30.0, np.full(20, np.inf))
    assert believes(3.0, fast_stays_fast)
    assert believes(0.5, fast_stays_fast)
    assert not believes(-0.5, fast_stays_fast)


def test_a_prior_is_evaluated_again_after_a_fifth_more_measurements() -> None:
    trust, rows = _trust(), np.arange(100, 120)
    assert not trust.due(0, 4) and trust.due(0, 5)

    trust.judge(0, 0.0, rows, rows.astype(float), proven=False)

    assert not trust.due(0, 23) and trust.due(0, 24)
    assert trust.due(1, 20)


def test_the_prior_of_a_study_predicts_unmeasured_configurations() -> None:
    space = tiles()
    study = study_of(RegressionSampler(space))
    search(study, space, measure, 40)

    prior = Prior.from_study(space, study)
    truth = np.log([bowl(space.configuration(i)) for i in range(len(space))])

    assert prior.known == 40
    assert np.corrcoef(prior.logs, truth)[0, 1] > 0.95


def test_a_prior_of_another_space_is_refused() -> None:
    with pytest.raises(PriorError, match="share 0 configurations"):
        Prior.from_results(tiles(), [({"z": i}, 1.0) for i in range(9)], "elsewhere")
    prior = Prior.from_results(tiles(), [(tiles().configuration(i), 1.0 + i) for i in range(9)], "here")
    with pytest.raises(SamplerError, match="does not use a prior"):
        RegressionSampler(tiles(), model="classic", prior=prior)


def test_the_expected_improvement_is_finite_and_monotonic() -> None:
    means = np.array([-1.0, 0.0, 1.0, 10.0, 1e3, np.inf])
    gain = log_expected_improvement(means, np.full(6, 0.1), 0.0)

    assert np.isfinite(gain).all()
    assert all(a > b for a, b in pairwise(gain))
    assert math.exp(gain[1]) == pytest.approx(0.1 / math.sqrt(2 * math.pi))


def test_large_spaces_are_searched_in_samples() -> None:
    space = build_space(describe({"parameters": {name: list(range(1, 9)) for name in "abcde"}}, where="t"))
    strategy = GaussianSearch(space, seeds=0)
    rows = np.arange(0, 32_000, 500)
    times = 1.0 + space.codes[rows].sum(axis=1)

    choice = strategy.choose(Observations(rows, times))

    assert choice is not None and 12_500 <= choice.decision["candidates"] < 13_000  # 800,000 covariances, and neighbours
    assert choice.row not in rows


@pytest.mark.parametrize("shift", [0.0, -2.0, -50.0])
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_values_of_any_sign_are_optimised_in_both_directions(direction: Literal["minimize", "maximize"], shift: float) -> None:
    sign = 1 if direction == "minimize" else -1
    space = tiles()
    study = optuna.create_study(sampler=RegressionSampler(space, seed=1), direction=direction)

    for _ in range(40):
        trial = study.ask(dict(space.distributions()))
        study.tell(trial, sign * (bowl(trial.params) + shift))

    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)
    assert sign * study.best_value - shift < 1.15


def test_values_become_positive_times_in_the_same_order() -> None:
    assert as_times(np.array([3.0, 1.0, math.inf])).tolist() == [3.0, 1.0, math.inf]
    assert as_times(np.array([-4.0, -2.0]), maximised=True).tolist() == [0.25, 0.5]
    # The spread of -1, 0 and 1 is the square root of 2/3.
    assert np.log(as_times(np.array([-1.0, 0.0, 1.0]))) == pytest.approx([0, 1.5**0.5, 2 * 1.5**0.5])
    assert as_times(np.array([0.0, math.inf])).tolist() == [1.0, math.inf]


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(sampler=RegressionSampler(tiles()), directions=["minimize", "maximize"])

    with pytest.raises(SamplerError, match="optimises one value, not 2"):
        study.ask(dict(tiles().distributions()))
