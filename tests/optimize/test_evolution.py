"""Evolutionary search: niches, novelty, islands, crossover, and weights that follow success."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.optimize.adaptive_weights import AdaptiveWeights
from rocm_perf_lab.optimize.archive import Archive, Niche
from rocm_perf_lab.optimize.evolution import EvolutionarySearch, EvolutionRules
from rocm_perf_lab.optimize.profile_summary import ProfileSummary
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.structure import distance, features_of

BASE = Proposal.of("void k() { base(); }\n", transform="none", description="", parent=None)


def measured(
    text: str, runtime_ns: float, *, bottleneck: str = "memory_latency", waves: float = 8.0, parent: Proposal = BASE
) -> Verdict:
    proposal = Proposal.of(text, transform="t", description=text, parent=parent)
    profile = ProfileSummary(bottleneck)
    return Verdict(proposal, False, "measurement", "", runtime_ns=runtime_ns, occupancy_waves=waves, profile=profile)


START = replace(measured(BASE.text, 1000.0), proposal=BASE)


# Structure


def test_features_are_those_of_the_code_not_of_comments() -> None:
    assert features_of("__shared__ float4 tile[64];  // __shfl_down\n#pragma unroll 4\n") == ("lds", "vector", "unrolled")
    assert features_of("x = __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, x, 0, 0, 0); y = __shfl_xor(y, 1);") == (
        "matrix",
        "cross-lane",
    )


def test_the_distance_ignores_comments_and_white_space() -> None:
    assert distance("int a = b + c;", "int  a=b+c; // sum\n") == 0.0
    assert distance("int a = b + c;", "while (true) { f(); }") == 1.0
    assert distance("a b c d e", "a b c d f") == pytest.approx(1 - 1 / 3)  # of abcd, bcde and bcdf one is common


@given(st.text(max_size=60), st.text(max_size=60))
def test_the_distance_is_symmetric_and_bounded(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert 0 <= distance(one, other) <= 1
    assert distance(one, one) == 0


# Archive


@pytest.mark.parametrize(
    "other",
    [
        measured("b", 900.0, bottleneck="bandwidth"),
        measured("b", 900.0, waves=2.0),
        measured("__shared__ int b;", 900.0),
    ],
    ids=["bottleneck", "occupancy", "structure"],
)
def test_sources_of_different_niches_do_not_compete(other: Verdict) -> None:
    archive = Archive(8)
    assert archive.add(measured("a", 500.0))

    assert archive.add(other)
    assert [v.runtime_ns for v in archive.elites] == [500.0, 900.0]


def test_a_niche_keeps_its_fastest_source_and_the_first_of_equals() -> None:
    archive = Archive(8)
    archive.add(measured("a", 500.0))

    assert not archive.add(measured("b", 500.0))
    assert archive.add(measured("c", 400.0))
    assert [v.proposal.text for v in archive.elites] == ["c"]


def test_a_full_archive_drops_the_slowest_niche() -> None:
    archive = Archive(2)
    rows = [measured("a", 700.0), measured("b", 900.0, waves=2.0), measured("c", 800.0, waves=4.0)]

    assert [archive.add(row) for row in rows] == [True, True, True]
    assert [v.proposal.text for v in archive.elites] == ["a", "c"]
    assert not archive.add(measured("d", 950.0, waves=1.0))


def test_the_niche_of_a_source_without_profile_is_unknown_but_valid() -> None:
    assert Niche.of(replace(START, profile=None, occupancy_waves=None)) == Niche("", 0, 0, ())


# Search


def search(**rules: object) -> EvolutionarySearch:
    defaults: dict[str, object] = {"islands": 2, "samples": 4, "crossover": 0.0, "migration_interval": 100}
    return EvolutionarySearch(EvolutionRules(**{**defaults, **rules}))  # type: ignore[arg-type]


def test_the_first_parents_are_the_unmodified_source() -> None:
    assert [selection.parent for selection in search().start(START)] == [BASE] * 4


def test_rewrites_of_a_common_parent_are_divided_among_the_islands() -> None:
    evolution = search()
    evolution.start(START)

    evolution.follow([measured("a", 900.0, waves=4.0), measured("b", 800.0, waves=2.0)], None, 800.0)

    first, second = ({v.proposal.text for v in archive.elites} for archive in evolution.archives)
    assert (first, second) == ({BASE.text, "a"}, {BASE.text, "b"})


def test_wrong_sources_are_never_parents() -> None:
    evolution = search()
    evolution.start(START)
    wrong = replace(measured("a", 1.0), stage="verification", runtime_ns=None)

    parents = evolution.follow([wrong], None, 1000.0)

    assert {selection.parent.id for selection in parents} == {BASE.id}


def test_migration_copies_the_best_source_to_the_next_island() -> None:
    evolution = search(islands=3, migration_interval=1)
    evolution.start(START)

    evolution.follow([measured("a", 500.0, waves=4.0)], None, 500.0)  # belongs to island 0

    assert [any(v.proposal.text == "a" for v in archive.elites) for archive in evolution.archives] == [True, True, False]


def test_fast_and_new_sources_are_preferred_as_parents() -> None:
    evolution = search(islands=1, samples=400, novelty=0.0)
    evolution.start(START)

    selections = evolution.follow([measured("fast()", 250.0, waves=4.0)], None, 250.0)

    fast = sum(selection.parent.text == "fast()" for selection in selections)
    # The base is four times as slow: its weight is (1/4)^2 / (1 + 1 child), that of the fast one 1.
    assert fast / len(selections) == pytest.approx(1 / (1 + 1 / 32), abs=0.04)


def test_a_crossover_shows_another_source() -> None:
    evolution = search(islands=1, crossover=1.0)
    assert all(selection.partners == () for selection in evolution.start(START))  # there is no other one

    for selection in evolution.follow([measured("a", 900.0, waves=4.0)], None, 900.0):
        (partner,) = selection.partners
        assert {selection.parent.text, partner.proposal.text} == {BASE.text, "a"}


@given(st.integers(0, 2**32), st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(1.0, 1e6)), max_size=12))
def test_equal_verdicts_give_equal_parents(seed: int, rows: list[tuple[str, float]]) -> None:
    def parents() -> list[list[str]]:
        evolution = search(seed=seed, crossover=0.5, migration_interval=2)
        rounds = [evolution.start(START)]
        for name, runtime in rows:
            rounds.append(evolution.follow([measured(name, runtime, parent=rounds[-1][0].parent)], None, 1.0))
        return [[selection.parent.text for selection in one] for one in rounds]

    assert parents() == parents()


def test_a_target_without_times_still_has_parents() -> None:
    evolution = search()
    evolution.start(replace(START, runtime_ns=0.0))

    assert len(evolution.follow([measured("a", 0.0, waves=4.0)], None, 0.0)) == 4


# Adaptive weights


def test_weights_begin_as_given_and_follow_success() -> None:
    weights = AdaptiveWeights({"a": 3.0, "b": 1.0}, floor=0.0)
    assert weights.weights() == pytest.approx({"a": 0.75, "b": 0.25})

    for _ in range(20):
        weights.reward("a", 0.0)
        weights.reward("b", 0.5)

    assert weights.weights()["b"] > 0.8


def test_the_floor_keeps_every_alternative() -> None:
    weights = AdaptiveWeights({"a": 1.0, "b": 1.0}, floor=0.2)
    for _ in range(50):
        weights.reward("a", 1.0)
        weights.reward("b", 0.0)

    assert 0.1 <= weights.weights()["b"] < 0.2


def test_excluded_alternatives_are_not_chosen() -> None:
    weights = AdaptiveWeights({"a": 1.0, "b": 1.0})

    assert weights.choose(Random(0), without={"a"}) == "b"
    assert weights.choose(Random(0), without={"a", "b"}) is None


# Profile summary


def test_the_changes_of_a_profile_are_named_largest_first() -> None:
    before = ProfileSummary("memory_latency", (("memory_latency", 0.6), ("small_grid", 0.1)), (("vmem", 512.0), ("valu", 100.0)))
    after = ProfileSummary("small_grid", (("small_grid", 0.3), ("memory_latency", 0.2)), (("vmem", 128.0), ("valu", 101.0)))

    assert after.changes_from(before) == (
        "memory latency 60% to 20% of the time",
        "small grid 10% to 30% of the time",
        "vmem 512 to 128 per wave",
    )
    assert before.changes_from(before) == ()
