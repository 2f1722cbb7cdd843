"""The wheel is complete: installed in a new environment, it runs in an empty directory."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory), str(REPOSITORY)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_holds_configuration_templates_experiments_and_the_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {
        "rocm_perf_lab/py.typed",
        "rocm_perf_lab/conf/config.yaml",
        "rocm_perf_lab/arch/gfx942.yaml",
        "rocm_perf_lab/conf/target/mi300x.yaml",
        "rocm_perf_lab/experiments/softmax/softmax.hip",
        "rocm_perf_lab/emulator/runtime/wave.h",
        "hydra_plugins/rocm_perf_lab_plugins/search_path.py",
    } <= names
    assert any(name.startswith("rocm_perf_lab/templates/") for name in names)


@pytest.mark.slow
def test_an_installed_wheel_profiles_a_kernel_in_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True)
    _add_dependencies(environment)
    work = tmp_path / "empty"
    work.mkdir()
    command = [str(python), "-m", "rocm_perf_lab", "job=profile", "kernel=vector_add", "kernel.params.n=10000"]

    run = subprocess.run(command, cwd=work, capture_output=True, text=True, env=_environment(), check=False)

    assert run.returncode == 0, run.stderr
    assert len(list((work / "outputs").rglob("profile.json"))) == 1
    assert (work / "mlflow.db").is_file()


def _add_dependencies(environment: Path) -> None:
    """Make the dependencies of the test environment importable, but not rocm-perf-lab itself.

    A directory named in a .pth file is searched, but .pth files inside it (an editable install's) are not read.
    """
    (site_packages,) = environment.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
