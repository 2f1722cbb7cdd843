"""Architecture registry: shipped descriptions, inheritance, lookups by number, and errors in user files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.arch.registry import (
    ArchitectureError,
    architecture_name,
    architectures,
    emulated_architectures,
    find_processor,
    generic_target_of_machine,
    isa_number,
    load_architecture,
    nearest_architecture,
    nearest_processor,
    processor_alias,
    processor_of_machine,
    processors,
    processors_of_generic_target,
)

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = "inherits: gfx942\nelf_machine: 254\ngfx_target_version: 91500\n"


def test_four_architectures_are_described() -> None:
    assert list(architectures()) == ["gfx90a", "gfx942", "gfx950", "gfx1030"]
    assert [one.family for one in architectures().values()] == ["cdna2", "cdna3", "cdna4", "rdna2"]
    assert emulated_architectures() == ("gfx90a", "gfx942", "gfx950", "gfx1030")


def test_driver_numbers_are_those_of_the_names() -> None:
    assert {architecture_name(one.gfx_target_version) for one in architectures().values()} == set(architectures())
    assert isa_number("gfx90a") == ("90a", 9010)
    assert isa_number("gfx1030") == ("1030", 10300)


def test_every_processor_has_its_own_elf_machine_number() -> None:
    known = processors()

    assert len({one.elf_machine for one in known.values()}) == len(known)
    assert [processor_of_machine(one.elf_machine) for one in known.values()] == list(known.values())


def test_a_generic_target_lists_its_processors_with_described_architectures_first() -> None:
    assert generic_target_of_machine(0x5F) == "gfx9-4-generic"
    assert processors_of_generic_target("gfx9-4-generic") == ("gfx942", "gfx950", "gfx940", "gfx941")


def test_an_undescribed_processor_uses_the_architecture_of_its_generation() -> None:
    names = {"gfx90c": "gfx942", "gfx1151": "gfx1030", "gfx1251": "gfx1030", "gfx942:sramecc+": "gfx942"}

    assert {name: getattr(nearest_architecture(name), "name", None) for name in names} == names
    assert nearest_architecture("sm_90") is None
    assert find_processor("gfx1251") is None
    assert nearest_processor("gfx1251").name == "gfx1030"
    with pytest.raises(ArchitectureError, match="unknown processor 'sm_90'"):
        nearest_processor("sm_90")


def test_wait_counts_follow_the_encoding_of_the_architecture() -> None:
    decoder = load_architecture("gfx942").decoder

    assert decoder is not None
    assert decoder.waits(0x0F70) == {"vmcnt": 0}
    assert decoder.waits(0xC07F) == {"lgkmcnt": 0}
    assert decoder.waits(0xCF7F) == {}


def test_inherited_facts_can_be_overridden() -> None:
    cdna3, cdna4 = load_architecture("gfx942"), load_architecture("gfx950")

    assert cdna4.modes == cdna3.modes
    assert (cdna3.workgroup_lds_bytes, cdna4.workgroup_lds_bytes) == (65536, 163840)
    assert cdna4.emulator is not None
    assert cdna3.emulator is not None
    assert cdna4.emulator.absent != cdna3.emulator.absent
    assert processor_alias("gfx901") == "gfx900"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inherits: gfx942\nfamily: mine\n", "Field required"),
        ("inherits: gfx1\n", "cannot inherit from 'gfx1'"),
        ("inherits: gfx9f0\n", "cannot inherit from 'gfx9f0'"),
        ("- a list\n", "an architecture is a YAML mapping"),
        ("a: [", "cannot read the architecture"),
        (
            "inherits: gfx942\nelf_machine: 254\ngfx_target_version: 91500\ndefault_mode: wave32\n",
            "default_mode wave32 is not one of",
        ),
    ],
)
def test_an_invalid_description_is_reported_with_its_file(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, "gfx9f0", text)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ArchitectureError, match=message) as raised:
        architectures()
    assert raised.value.where is not None
    assert "gfx9f0.yaml" in raised.value.where


def test_a_shipped_architecture_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "gfx942", "inherits: gfx90a\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ArchitectureError, match="already describes gfx942"):
        architectures()


def test_other_files_in_a_directory_of_that_name_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`conf/arch` of another Hydra application may hold network architectures."""
    _write(tmp_path, "resnet", "layers: 50\n")
    monkeypatch.chdir(tmp_path)

    assert "resnet" not in architectures()


def _write(directory: Path, name: str, text: str) -> None:
    path = directory / "conf" / "arch" / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
