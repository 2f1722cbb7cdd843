"""The Python API: results as values and tables, no output, and the errors of the command line."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import rocm_perf_lab as lab
from rocm_perf_lab import api
from rocm_perf_lab.cli.entry import run_hydra
from rocm_perf_lab.cli.exit_codes import exit_code_of
from rocm_perf_lab.core.errors import EXIT_BAD_INPUT

if TYPE_CHECKING:
    from pathlib import Path

N, BLOCK = 4096, 256
LONGEST_IMPORT_S = 0.05


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def profiled(directory: Path) -> lab.LabRun:
    return lab.profile("vector_add", n=N, device="emulator", tracking="none", output=directory / "vector_add")


def test_import_is_fast_and_loads_no_library() -> None:
    program = (
        "import sys, time; before = set(sys.modules); start = time.perf_counter(); import rocm_perf_lab;"
        "print(time.perf_counter() - start); print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, libraries = answer.stdout.splitlines()

    assert float(seconds) < LONGEST_IMPORT_S
    assert set(libraries.split()) - sys.stdlib_module_names == {"rocm_perf_lab"}


@pytest.mark.parametrize("name", ["optimize", "autotune", "replay", "report"])
def test_a_function_with_the_name_of_a_package_is_both(name: str) -> None:
    """Importing a module of the package must not hide the function."""
    program = (
        f"import rocm_perf_lab as lab, inspect; from rocm_perf_lab import {name}; first = lab.{name};"
        f"import rocm_perf_lab.{name}; assert lab.{name} is first; assert callable(first) and first.__path__;"
        f"print(list(inspect.signature(first).parameters)[0])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() in {"kernel", "capture", "runs"}


def test_public_names_can_be_listed() -> None:
    assert {"profile", "optimize", "autotune", "analyze", "compare", "replay", "report", "run", "runs"} <= set(dir(lab))
    assert "cols" not in dir(lab)
    with pytest.raises(AttributeError, match="no attribute 'profil'"):
        _ = lab.profil  # type: ignore[attr-defined]


def test_every_function_names_its_errors() -> None:
    functions = [getattr(api, name) for name in api.__all__ if inspect.isfunction(getattr(api, name))]

    assert len(functions) == 9
    assert [function.__name__ for function in functions if "Raises:" not in (inspect.getdoc(function) or "")] == []


def test_a_profile_has_metrics_and_counters(profiled: lab.LabRun) -> None:
    """One wavefront of 64 lanes per 64 elements: three dwords each, in workgroups of 256."""
    assert profiled.time_kind == "emulated"
    assert profiled.runtime_us is not None and profiled.metrics["runtime_us"] == profiled.runtime_us
    assert profiled.counters["SQ_WAVES"].tolist() == [N / 64]
    assert profiled.metrics["vector_l1_bytes"] == 3 * 4 * N
    assert profiled.kernels["calls"].tolist() == [1]


def test_the_ledger_is_a_table_whose_shares_add_up_to_the_time(profiled: lab.LabRun) -> None:
    ledger = profiled.ledger

    assert ledger["cause"].iloc[0].endswith("_roof") and ledger["cause"].iloc[-1] == "unexplained"
    assert ledger["share"].sum() == pytest.approx(1)
    assert ledger["amount_us"].sum() == pytest.approx(profiled.runtime_us)


def test_a_run_is_one_row_and_a_table_in_a_notebook(profiled: lab.LabRun) -> None:
    row = profiled.to_pandas()

    assert row.shape[0] == 1
    assert row.loc[0, "gpu"] == "AMD Instinct MI300X" and row.loc[0, "time_kind"] == "emulated"
    html = profiled._repr_html_()
    assert "emulated</td>" in html and "vector_add(float const*" in html
    assert "LabRun kernel: vector_add" in repr(profiled)


def test_a_run_can_be_opened_again(profiled: lab.LabRun) -> None:
    assert lab.LabRun.open(profiled.directory).metrics == profiled.metrics
    with pytest.raises(lab.LabError, match="there is no run"):
        lab.LabRun.open(profiled.directory / "config")


def test_nothing_is_printed_and_progress_is_reported(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    lab.profile("vector_add", n=N, device="emulator", tracking="none", output=directory / "told", progress=lines.append)

    assert capfd.readouterr() == ("", "")
    assert "compiling" in lines and "running on emulator" in lines
    assert not any("[bold]" in line for line in lines)


def test_a_run_compared_with_itself_is_no_regression(profiled: lab.LabRun) -> None:
    compared = lab.compare(profiled, profiled.directory)

    assert compared.kernels["verdict"].tolist() == ["same"]
    assert compared.kernels["change"].tolist() == [0.0]
    assert not compared.is_regression
    assert "same" in compared._repr_html_()


def test_a_database_is_analysed(profiled: lab.LabRun, directory: Path) -> None:
    found = lab.analyze(profiled.directory / ".rocpd_profile", output=directory / "analysed")

    assert found.runtime_us == profiled.runtime_us
    assert found.time_kind == "emulated"


@pytest.mark.parametrize(
    ("settings", "overrides"),
    [({"kernel": "vectr_add"}, ["kernel=vectr_add"]), ({"nn": 3}, ["kernel.params.nn=3"]), ({"target": "mi3"}, ["target=mi3"])],
)
def test_errors_have_the_text_of_the_command_line(
    settings: dict[str, str],
    overrides: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments: dict[str, Any] = {"kernel": "vector_add"} | settings
    with pytest.raises(lab.LabError) as caught:
        lab.profile(arguments.pop("kernel"), **arguments)
    first = [] if "kernel" in settings else ["kernel=vector_add"]

    assert exit_code_of(lambda: run_hydra(["job=profile", *first, *overrides])) == EXIT_BAD_INPUT
    printed = capsys.readouterr().err
    assert printed == f"error: {caught.value}\n"
    assert not (tmp_path / "outputs").exists()


def test_no_recording_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(lab.LabError, match="no recording to analyse"):
        lab.analyze()
    with pytest.raises(lab.LabError, match="cannot read the profile data: No such file"):
        lab.analyze(tmp_path / "missing")
