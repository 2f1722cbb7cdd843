"""Landscapes: reading, searching, and invalid files."""

from __future__ import annotations

import gzip
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks import kernel_tuner_peer
from benchmarks.landscapes import BUDGETS, MISLEADING, Source, earlier, main, run
from benchmarks.synthetic import synthetic_landscapes
from rocm_perf_lab.autotune.landscape import LandscapeError, landscapes_in, load_landscape
from rocm_perf_lab.autotune.objective import Infeasible, Measurement

if TYPE_CHECKING:
    from pathlib import Path


def landscape() -> dict[str, Any]:
    rows: list[list[Any]] = [[x, y, [9.0, x + y, x + y]] for x in (1, 2, 4, 8, 16) for y in (1, 2, 3, 4, 5, 6)]
    rows[-1][-1] = None
    return {"kernel": "sum", "columns": ["x", "y", "times_ms"], "rows": rows}


def write(path: Path, content: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def test_a_time_is_the_median_and_null_is_a_failure(tmp_path: Path) -> None:
    a = load_landscape(write(tmp_path / "sum_GPU.json.gz", landscape()))

    assert a.name == "sum_GPU" and len(a.space) == 30
    assert a.optimum_ms == 2.0
    assert a({"x": 4, "y": 3}) == Measurement(7.0)
    assert isinstance(a({"x": 16, "y": 6}), Infeasible)
    assert isinstance(a({"x": 3, "y": 6}), Infeasible)
    assert math.isinf(a.times_ms[-1])


@pytest.mark.parametrize("sampler", ["regression", "classic", "tpe", "extra_trees", "random"])
def test_every_sampler_finds_the_optimum_of_a_small_landscape(tmp_path: Path, sampler: str) -> None:
    a = load_landscape(write(tmp_path / "sum_GPU.json.gz", landscape()))
    result = run(a, sampler, seed=1)

    assert len(result.fractions) == len(BUDGETS)
    assert result.fractions[-1] == 1.0
    assert 1 <= result.close <= 30


def test_the_command_writes_results_per_landscape_and_in_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, prior = tmp_path / "data", tmp_path / "prior"
    data.mkdir()
    prior.mkdir()
    write(data / "sum_GPU.json.gz", landscape())
    write(prior / "sum_OLD.json.gz", landscape())
    output = tmp_path / "figures.json"

    main(["--data", str(data), "--prior", str(prior), "--seeds", "2", "--sampler", "regression", "random", "--json", str(output)])
    document = json.loads(output.read_text())
    figures = document["data"]

    assert figures["landscapes"]["sum_GPU"]["regression"]["by_budget"].keys() == {"20", "50", "100", "200"}
    assert figures["aggregate"].keys() == {"regression", "random"}
    regression, peer = figures["aggregate"].values()
    assert peer["difference"] == pytest.approx(regression["fraction"] - peer["fraction"])
    assert document["rows"]["difference"] == [
        "regression minus",
        "-",
        f"{peer['difference']:.3f} ± {peer['difference_standard_error']:.3f}",
    ]
    assert "sum_GPU" in capsys.readouterr().out


def test_a_misleading_prior_has_the_same_space_with_other_times(tmp_path: Path) -> None:
    write(tmp_path / "sum_OLD.json.gz", landscape())
    spoilt = {how: earlier(Source(tmp_path, tmp_path, how), "sum_GPU") for how in (None, *MISLEADING)}

    times = {how: each.times_ms for how, each in spoilt.items() if each is not None}
    assert times[None][0] == 2 and times["inverted"][0] == 1 / 2
    assert sorted(times["shuffled"]) == sorted(times[None]) and list(times["shuffled"]) != list(times[None])
    assert abs(spearmanr(times["foreign"][:-1], times[None][:-1]).statistic) < 0.9
    assert earlier(Source(tmp_path, tmp_path, None), "other_GPU") is None


def test_synthetic_landscapes_are_deterministic_and_hard() -> None:
    first, second = synthetic_landscapes(1), synthetic_landscapes(1)

    assert [a.name for a in first] == [
        "gemm_drawn0",
        "stencil_drawn0",
        "matrix_cores_drawn0",
        "streaming_drawn0",
        "rugged_drawn0",
    ]
    for a, b in zip(first, second, strict=True):
        assert (a.times_ms == b.times_ms).all()
        ran = a.times_ms[np.isfinite(a.times_ms)]
        assert np.quantile(ran, 0.5) > 1.5 * ran.min()  # half of it is far from the optimum
    assert np.isinf(first[1].times_ms).mean() > 0.1  # the stencil's halo does not fit everywhere


def test_the_prior_of_a_synthetic_landscape_is_its_kernel_on_another_gpu(tmp_path: Path) -> None:
    a = next(each for each in synthetic_landscapes(1) if each.name == "matrix_cores_drawn0")
    prior = earlier(Source(None, tmp_path), a.name)

    assert prior is not None and prior.space.names == a.space.names
    both = np.isfinite(a.times_ms) & np.isfinite(prior.times_ms)
    assert 0.3 < spearmanr(a.times_ms[both], prior.times_ms[both]).statistic < 0.999


@pytest.mark.parametrize("strategy", kernel_tuner_peer.PEERS.values())
def test_kernel_tuner_searches_a_landscape(strategy: str, tmp_path: Path) -> None:
    a = load_landscape(write(tmp_path / "sum_GPU.json.gz", landscape()))

    times = kernel_tuner_peer.times_of(a, seed=0, budget=20, strategy=strategy)

    assert len(times) == 20 and set(times) <= set(a.times_ms)


def test_without_kernel_tuner_its_strategies_are_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_tuner_peer, "installed", lambda: False)

    with pytest.raises(SystemExit) as ended:
        main(["--data", str(tmp_path), "--seeds", "1", "--sampler", "kernel_tuner"])

    assert ended.value.code == 2
    assert "Kernel Tuner is not installed" in capsys.readouterr().err


def test_a_directory_without_landscapes_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LandscapeError, match="the directory has no landscapes"):
        landscapes_in(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["--data", str(tmp_path), "--seeds", "1"])

    assert ended.value.code == 2
    assert "the directory has no landscapes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "columns or rows are missing"),
        ({"columns": ["x", "times_ms"], "rows": []}, "without parameters or configurations"),
        ({"columns": ["x", "times_ms"], "rows": [[1]]}, "row 0 does not have 2 columns"),
        ({"columns": ["x", "times_ms"], "rows": [[1, [2.0]], [2, ["fast"]]]}, "times of row 1"),
        ({"columns": ["x", "times_ms"], "rows": [[1, [-2.0]]]}, "times of row 0"),
        ({"columns": ["x", "times_ms"], "rows": [[1, None]]}, "no configuration of the landscape ran"),
    ],
)
def test_an_invalid_landscape_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(LandscapeError, match=message):
        load_landscape(write(tmp_path / "a.json.gz", content))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b"{}")[:-6])

    with pytest.raises(LandscapeError, match="cannot read the landscape"):
        load_landscape(path)
