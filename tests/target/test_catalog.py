"""Shipped targets, their aliases, and errors for invalid target files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.config.composition import compose_overrides
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.target.catalog import TargetError, load_target, products_of, target_aliases, target_names
from rocm_perf_lab.target.model import Target

if TYPE_CHECKING:
    from pathlib import Path


def test_every_shipped_target_is_valid_and_named_after_its_file() -> None:
    assert target_names() == (
        "mi210",
        "mi250x",
        "mi300a",
        "mi300x",
        "mi308x",
        "mi325x",
        "mi350x",
        "mi355x",
        "rx6800",
        "rx6800xt",
        "rx6900xt",
    )
    assert [load_target(name).name for name in target_names()] == list(target_names())


@pytest.mark.parametrize("name", target_names())
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


def test_an_invalid_value_is_reported_with_file_and_key(tmp_path: Path) -> None:
    text = (resource_dir("conf") / "target" / "mi300x.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("xcds: 8", "xcds: many"))

    with pytest.raises(TargetError, match=r"mine.yaml, key xcds"):
        load_target(path)


ALIASES = {"gfx90a": "mi250x", "gfx942": "mi300x", "gfx950": "mi355x", "gfx1030": "rx6800xt", "rdna2": "rx6800xt"}


def test_an_architecture_is_another_name_for_a_target() -> None:
    assert target_aliases() == ALIASES
    assert {alias: load_target(alias).name for alias in ALIASES} == ALIASES


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases_are_options_of_the_configuration_group(alias: str, name: str) -> None:
    composed, _ = compose_overrides([f"target={alias}"])

    assert Target.model_validate(composed["target"]) == load_target(name)


def test_targets_of_the_working_directory_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "conf" / "target"
    directory.mkdir(parents=True)
    text = (resource_dir("conf") / "target" / "mi300x.yaml").read_text()
    (directory / "mine.yaml").write_text(text.replace("name: mi300x", "name: mine"))
    (directory / "other.yaml").write_text("defaults: [mine]\n")
    monkeypatch.chdir(tmp_path)

    assert "mine" in target_names()
    assert load_target("other").name == "mine"


def test_a_product_value_overrides_that_of_its_architecture(tmp_path: Path) -> None:
    text = (resource_dir("conf") / "target" / "mi300x.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text + "lds: {wave64: {bytes: 131072}}\n")

    pool = load_target(path).lds_pool

    assert (pool.bytes, pool.granule_bytes) == (131072, 512)


def test_a_complete_file_for_an_undescribed_architecture_is_accepted(tmp_path: Path) -> None:
    described = load_target("mi300x").model_dump(mode="json") | {"architecture": "gfx9f0"}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(described))

    assert load_target(path).architecture == "gfx9f0"


def test_an_incomplete_file_for_an_undescribed_architecture_reports_the_file_to_add(tmp_path: Path) -> None:
    text = (resource_dir("conf") / "target" / "mi300x.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("architecture: gfx942", "architecture: gfx9f0"))

    with pytest.raises(TargetError, match=r"unknown architecture gfx9f0: describe it in conf/arch/gfx9f0.yaml"):
        load_target(path)


@pytest.mark.parametrize("text", ["a: [", "- just\n- a list\n", ""])
def test_a_file_that_is_no_description_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)

    with pytest.raises(TargetError):
        load_target(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot read"):
        load_target(tmp_path / "none.yaml")


def test_products_of_an_architecture_are_listed_without_aliases() -> None:
    assert products_of("gfx90a") == ("mi210", "mi250x")
    assert products_of("gfx950") == ("mi350x", "mi355x")
    assert products_of("gfx000") == ()
