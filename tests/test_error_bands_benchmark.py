"""`python -m benchmarks.error_bands`: what it reads and writes, and the committed bands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from benchmarks.error_bands import ARCHITECTURE, TIMING, TimingResult, TooFewFamilies, estimated, main, replaced, stored
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.timing_errors import TimingErrors

if TYPE_CHECKING:
    from pathlib import Path


def case(family: str, number: int, emulated: float, *, held_out: bool = True, trust: str = "A") -> dict[str, Any]:
    """A case with a measured value of 10."""
    name = f"{family}/series/{number}"
    return {"case": name, "family": family, "measured": 10.0, "emulated": emulated, "held_out": held_out, "trust": trust, "x": 1}


def written(directory: Path, cases: list[dict[str, Any]]) -> Path:
    path = directory / "timing.json"
    path.write_text(json.dumps({"date": "2026-01-02", "commit": "abcdef0123", "data": {"cases": cases}, "rows": {}}))
    return path


FOUR_FAMILIES = [case(family, n, 10 * (1 + 0.1 * n)) for family in "abcd" for n in range(3)]


def test_bands_of_four_families_by_hand(tmp_path: Path) -> None:
    errors = estimated(TimingResult.read(written(tmp_path, FOUR_FAMILIES)))

    # Errors of each family: 1, 1.1 and 1.2. Four families: 80 % needs rank 4 of 4, the largest error; 95 % cannot be reached.
    assert [(band.coverage, band.high) for band in errors.time] == [(0.8, 1.2), (0.8, 1.2)]
    assert errors.time[0].low == 0.833
    # Twelve variants: ranks ceil(13 * 0.8) = 11 and ceil(13 * 0.9) = 12 of 12 are in the last third of the pairs, which have the
    # ratios 12/11, 1.1 and 1.2.
    assert [(band.coverage, band.factor) for band in errors.ratio] == [(0.8, 1.2), (0.9, 1.2)]
    assert (errors.status, errors.cases, errors.families, errors.pairs) == ("estimated", 12, 4, 12)
    assert errors.source == "12 held-out cases of 4 families in benchmarks/results/timing.json, 2026-01-02, commit abcdef0123"


def test_calibration_cases_and_thin_methods_are_not_used(tmp_path: Path) -> None:
    others = [case("a", 7, 100.0, held_out=False), case("b", 8, 0.1, trust="C")]

    with_others = estimated(TimingResult.read(written(tmp_path, FOUR_FAMILIES + others)))

    assert with_others == estimated(TimingResult.read(written(tmp_path, FOUR_FAMILIES)))


def test_too_few_cases_and_a_missing_result_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TooFewFamilies, match="held-out cases of 3 families with two variants or more: bands need 4"):
        TimingResult.read(written(tmp_path, FOUR_FAMILIES[:10]))  # three of a, b and c, and one of d
    with pytest.raises(LabError, match="the comparison with measurements is missing"):
        TimingResult.read(tmp_path / "nowhere.json")


def test_the_section_of_the_architecture_file_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    errors = estimated(TimingResult.read(written(tmp_path, FOUR_FAMILIES)))
    before = ARCHITECTURE.read_text(encoding="utf-8")

    after = replaced(before, errors)

    assert TimingErrors.model_validate(yaml.safe_load(after)["timing"]["error"]) == errors
    start, end = "  # error bands, written by", "  # end of error bands"
    assert (after.partition(start)[0], after.partition(end)[2]) == (before.partition(start)[0], before.partition(end)[2])
    old, new = yaml.safe_load(before), yaml.safe_load(after)
    del old["timing"]["error"], new["timing"]["error"]
    assert old == new


def test_a_dry_run_prints_the_section(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = ARCHITECTURE.read_bytes()

    main(["--timing", str(written(tmp_path, FOUR_FAMILIES)), "--dry-run", "--json", str(tmp_path / "bands.json")])

    assert "{coverage: 0.8, low: 0.833, high: 1.2}" in capsys.readouterr().out
    assert ARCHITECTURE.read_bytes() == before
    assert not (tmp_path / "bands.json").exists()


def test_the_committed_bands_are_those_of_the_committed_result() -> None:
    try:
        result = TimingResult.read(TIMING)
    except TooFewFamilies:
        assert stored().status == "provisional"
        return
    assert stored() == estimated(result), "run: python -m benchmarks.error_bands"


@pytest.mark.parametrize("target", ["mi300x", "mi325x"])
def test_targets_have_the_bands_of_their_architecture(target: str) -> None:
    assert load_target(target).timing_errors == stored()


def test_other_architectures_have_assumed_bands() -> None:
    errors = load_target("mi250x").timing_errors

    assert errors.status == "provisional"
    assert errors.decisive.factor == 4.0
