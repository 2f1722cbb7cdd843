"""The shipped targets, and what a user's wrong one is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.target.catalog import TargetError, load_target, target_names

if TYPE_CHECKING:
    from pathlib import Path


def test_every_shipped_target_is_valid_and_named_after_its_file() -> None:
    assert target_names() == ("mi250x", "mi300x", "mi325x", "mi355x", "rx6800xt")
    assert [load_target(name).name for name in target_names()] == list(target_names())


@pytest.mark.parametrize("name", ["mi250x", "mi300x", "mi325x", "mi355x", "rx6800xt"])
def test_every_mode_has_its_lds_pool(name: str) -> None:
    target = load_target(name)

    assert target.modes.keys() == target.lds.keys()
    assert target.default_mode in target.modes


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(TargetError, match="Did you mean mi300x"):
        load_target("MI300")


def test_a_users_file_is_a_target_too(tmp_path: Path) -> None:
    text = (resource_dir("conf") / "target" / "mi300x.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("name: mi300x", "name: mine"))

    assert load_target(path).name == "mine"


def test_an_invalid_value_is_named_by_file_and_key(tmp_path: Path) -> None:
    text = (resource_dir("conf") / "target" / "mi300x.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("max_waves_per_simd: 8", "max_waves_per_simd: many"))

    with pytest.raises(TargetError, match=r"mine.yaml, key modes.wave64.max_waves_per_simd"):
        load_target(path)


@pytest.mark.parametrize("text", ["a: [", "- just\n- a list\n", ""])
def test_what_is_not_a_description_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)

    with pytest.raises(TargetError):
        load_target(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot read"):
        load_target(tmp_path / "none.yaml")
