"""Damaged recordings of every format end in a result or an error message; `python -m benchmarks.fuzzing` tries many more."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from benchmarks.fuzz_inputs import formats
from benchmarks.fuzz_mutations import mutate_bytes, mutate_csv, mutate_json
from benchmarks.fuzzing import GROWTH_MIB, fuzz, read
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.fuzz_inputs import Format

INPUTS = 50
NAMES = (
    "rocpd database, bytes", "rocpd database, cells", "rocprofv3 JSON", "rocprofv3 5_kernel_trace.csv",
    "rocprofv3 5_counter_collection.csv", "rocprofv3 5_memory_copy_trace.csv", "rocprofv3 5_hip_api_trace.csv",
    "rocprofv3 5_agent_info.csv", "rocprof v1 CSV", "rocprof-compute pmc_perf.csv", "rocprof-compute sysinfo.csv",
    "rocprof-compute timestamps.csv", "rocprof-compute SQ_INST_LEVEL_VMEM.csv", "rocprof-compute roofline.csv",
    "rocprof-compute pmc_perf_1.csv", "thread trace code.json", "thread trace filenames.json", "thread trace occupancy.json",
    "thread trace wave files", "thread trace others", "PC samples of the viewer", "PC samples JSON", "PC samples CSV",
    "PC samples rocpd", "code object",
)  # fmt: skip


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Format]:
    return {one.name: one for one in formats(tmp_path_factory.mktemp("formats"))}


def test_every_format_is_tried(every: dict[str, Format]) -> None:
    assert tuple(every) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_damaged_inputs_give_a_result_or_an_error(every: dict[str, Format], name: str, tmp_path: Path) -> None:
    outcome = fuzz(every[name], INPUTS, tmp_path, seed=2026, whole_every=INPUTS)

    assert outcome.failures == []
    assert outcome.results + outcome.refused == INPUTS
    assert outcome.growth_mib < GROWTH_MIB


@pytest.mark.parametrize("name", NAMES)
def test_the_undamaged_input_is_read(every: dict[str, Format], name: str, tmp_path: Path) -> None:
    every[name].write(tmp_path / "input", None)

    read(every[name], tmp_path / "input", None)  # raises LabError if it is refused


def test_equal_seeds_damage_equally(every: dict[str, Format]) -> None:
    document, table = b'{"a": [1, 2, {"b": "c"}]}', b"x,y\n1,2\n3,4\n"

    def damaged(seed: int) -> tuple[bytes, bytes, bytes]:
        chance = random.Random(seed)
        return mutate_bytes(document, chance), mutate_json(document, chance), mutate_csv(table, chance)

    assert damaged(3) == damaged(3)
    assert len({damaged(seed) for seed in range(20)}) > 15


def test_a_reader_that_fails_is_reported(every: dict[str, Format], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("benchmarks.fuzzing.read", fail)

    outcome = fuzz(every["rocprof v1 CSV"], 2, tmp_path)

    assert len(outcome.failures) == 2
    assert "ZeroDivisionError: boom" in outcome.failures[0]


def test_errors_of_the_package_are_no_failures(every: dict[str, Format], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise LabError("damaged")

    monkeypatch.setattr("benchmarks.fuzzing.read", refuse)

    outcome = fuzz(every["rocprof v1 CSV"], 2, tmp_path)

    assert (outcome.refused, outcome.failures) == (2, [])
