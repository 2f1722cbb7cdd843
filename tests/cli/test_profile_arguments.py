"""Arguments of `rocm-perf profile`: a described kernel, or overrides and the command line of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.cli.profile_arguments import ProfileArguments
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "words",
    [
        ("device=emulator", "./app", "--size", "8"),
        ("./app", "--size", "8", "device=emulator"),
        ("./app", "device=emulator", "--size", "8"),
    ],
)
def test_the_device_may_precede_or_follow_the_application(words: tuple[str, ...]) -> None:
    found = ProfileArguments.parse(words)
    assert not found.is_described
    assert found.command == ("./app", "--size", "8")
    assert "job.device=emulator" in found.overrides()


def test_overrides_before_an_application_are_settings_of_its_job() -> None:
    found = ProfileArguments.parse(("target=mi250x", "job.gpus=2", "./app", "n=4"))
    assert found.command == ("./app", "n=4")
    assert found.overrides()[-2:] == ["target=mi250x", "job.gpus=2"]


def test_other_assignments_after_an_application_are_its_arguments() -> None:
    found = ProfileArguments.parse(("./app", "device=cpu", "target=x"))
    assert found.command == ("./app", "device=cpu", "target=x")
    assert not [word for word in found.overrides() if word.startswith(("job.device", "target"))]


def test_overrides_alone_describe_a_kernel() -> None:
    found = ProfileArguments.parse(("kernel=softmax", "device=emulator"))
    assert found.is_described
    assert found.overrides()[-2:] == ["kernel=softmax", "device=emulator"]


def test_root_is_the_absolute_directory_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    overrides = ProfileArguments.parse(("./app",), root="rocm").overrides()

    assert f"job.root='{tmp_path}/rocm'" in overrides
    with pytest.raises(LabError, match="--root applies to applications only"):
        ProfileArguments.parse(("kernel=softmax",), root="rocm")
