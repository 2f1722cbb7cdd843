"""An invalid setting is one error in terms of YAML, with its key and an example of a valid value."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rocm_perf_lab.autotune.config import AutotuneConfig
from rocm_perf_lab.config.composition import compose_overrides
from rocm_perf_lab.config.errors import ConfigError, Origins, explain_validation_error
from rocm_perf_lab.core.models import StrictModel


class _Config(StrictModel):
    autotune: AutotuneConfig = AutotuneConfig()


def refused(**settings: Any) -> ConfigError:
    with pytest.raises(ValidationError) as invalid:
        _Config.model_validate({"autotune": settings})
    return explain_validation_error(invalid.value, _Config, Origins({}))


@pytest.mark.parametrize(
    ("settings", "says", "hint"),
    [
        (
            {"stop_when": 0.1},
            "autotune.stop_when: Input should be a mapping of keys to values (it is '0.1')",
            "for example 'autotune.stop_when={better_than: 0.02, probability: 0.1}'",
        ),
        (
            {"emulated": {"params": 5}},
            "autotune.emulated.params: Input should be a mapping of keys to values (it is '5')",
            "for example 'autotune.emulated.params={m: 256, n: 256}'",
        ),
        (
            {"emulated": {"params": {"m": [1, 2]}}},
            "autotune.emulated.params.m: Input should be a number, text, true or false",
            "for example 'autotune.emulated.params={m: 256, n: 256}'",
        ),
        ({"budget": 0}, "autotune.budget: Input should be greater than 0 (it is '0')", "for example autotune.budget=60"),
        (
            {"features": "compiled"},
            "autotune.features: Input should be a list (it is 'compiled')",
            "for example 'autotune.features=[parameters, compiled]'",
        ),
        (
            {"limits": 5},
            "autotune.limits: Input should be a list (it is '5')",
            "for example \"autotune.limits=['vgpr <= 128']\"",
        ),
    ],
)
def test_a_value_of_another_type_has_an_example(settings: dict[str, Any], says: str, hint: str) -> None:
    error = refused(**settings)

    assert (error.what, error.hint) == (says, hint)


def test_the_alternative_of_a_union_that_was_meant_is_explained() -> None:
    misspelt = refused(objectives=["vgpr", {"metrics": "vgpr"}])
    invalid = refused(objectives=[{"metric": "vgpr", "direction": "up"}])

    assert misspelt.what == "unknown key 'autotune.objectives[1].metrics'"
    assert misspelt.hint == "did you mean autotune.objectives[1].metric?"
    assert invalid.what == "autotune.objectives[0].direction: Input should be 'minimise' or 'maximise' (it is 'up')"


def test_an_unknown_key_of_a_mapping_that_is_null_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError) as error:
        compose_overrides(["kernel=vector_add", "autotune.stop_when.better=0.1"])

    assert error.value.hint == "did you mean autotune.stop_when.better_than?"
