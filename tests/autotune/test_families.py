"""Families of landscapes: their structure, and simulated noise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.families import FAMILIES, PARTS, drawn
from benchmarks.landscapes import main
from benchmarks.noise import NoisyLandscape, search_with_noise
from rocm_perf_lab.autotune.objective import Infeasible, Measurement

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"huge"}))
def test_a_landscape_is_determined_by_its_number(family: str) -> None:
    first, again, other = drawn(family, 0), drawn(family, 0), drawn(family, 1)

    assert np.array_equal(first.times_ms, again.times_ms) and first.space.fingerprint() == again.space.fingerprint()
    assert first.times_ms.shape != other.times_ms.shape or not np.array_equal(first.times_ms, other.times_ms)
    assert (first.times_ms > 0).all() and np.isfinite(first.times_ms).any()


def test_development_and_held_out_share_no_landscape() -> None:
    assert not set(PARTS["development"]) & set(PARTS["held-out"])


def test_families_have_the_properties_of_their_names() -> None:
    assert 0.85 < np.isinf(drawn("invalid", 1).times_ms).mean() < 0.95
    assert len(np.unique(drawn("plateau", 1).times_ms)) <= 8
    assert len(drawn("small", 1).space) == 60
    assert len(drawn("line", 1).space.names) == 1
    assert len(drawn("constrained", 1).space) < 0.15 * 10 * 8 * 8 * 6 * 4 * 2
    needle = drawn("needle", 1)
    assert (needle.times_ms < 1.1 * needle.optimum_ms).mean() < 0.02


def test_the_separable_optimum_combines_the_optima_of_the_parameters() -> None:
    landscape = drawn("separable", 1)
    codes, best = landscape.space.codes, int(np.argmin(landscape.times_ms))

    for position in range(codes.shape[1]):
        means = [landscape.times_ms[codes[:, position] == code].mean() for code in range(codes[:, position].max() + 1)]
        assert means[codes[best, position]] == pytest.approx(min(means))


def test_runs_vary_around_the_true_time_by_the_noise() -> None:
    landscape = drawn("small", 0)
    noisy = NoisyLandscape(landscape, 0.05, np.random.default_rng(0))
    configuration = landscape.space.configuration(7)

    logs = np.log(noisy.sample(configuration, 4000) / landscape.times_ms[7])

    assert abs(logs.mean()) < 0.005 and logs.std() == pytest.approx(0.05, rel=0.05)
    assert isinstance(noisy(configuration), Measurement) and noisy.measured == [7]
    failing = drawn("invalid", 0)
    row = int(np.flatnonzero(np.isinf(failing.times_ms))[0])
    assert isinstance(NoisyLandscape(failing, 0.05, np.random.default_rng(0))(failing.space.configuration(row)), Infeasible)


def test_without_noise_the_winner_is_the_best_measured() -> None:
    found = search_with_noise(drawn("small", 0), (1e-6, 0.0), 0, budget=12, max_races=4, races=2)

    assert set(found.against_measured) == {0.0}
    assert found.runs_per_evaluation >= 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--families", "held-out", "--only", "nothing"], "names: separable_1"),
        (["--families", "held-out", "--only", "small_1", "--prior", "anywhere"], "families have no priors"),
    ],
)
def test_an_unknown_family_is_an_error(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--seeds", "1", "--sampler", "random"])

    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_searches_chosen_families(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = ["--json", str(tmp_path / "figures.json")]

    main(["--families", "held-out", "--only", "small", "--seeds", "1", "--sampler", "random", *output])

    printed = capsys.readouterr().out
    assert "small" in printed and "line" not in printed
    assert json.loads((tmp_path / "figures.json").read_text())["data"]["landscapes"].keys() == {"small_1", "small_3"}
