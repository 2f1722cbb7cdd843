"""The wheel is complete: installed in a new environment, it runs in an empty directory."""

import asyncio
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.builders.report_pages import run_data

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
        "rocm_perf_lab/report/assets/report.js",
        "rocm_perf_lab/report/assets/LICENSES.txt",
        "rocm_perf_lab/skill/SKILL.md",
        "rocm_perf_lab/templates/llm_prompt.j2",
        "hydra_plugins/rocm_perf_lab_plugins/search_path.py",
    } <= names
    assert {Path(name).name for name in names if ".dist-info/licenses/" in name} == {"LICENSE", "LICENSES.txt"}
    assert any(name.startswith("rocm_perf_lab/templates/") for name in names)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment with the wheel."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True)
    _add_dependencies(environment)
    return python


def succeeding(installed: Path, directory: Path, *arguments: str) -> str:
    command = [str(installed), *arguments]
    run = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=_environment(), check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow
def test_an_installed_wheel_profiles_a_kernel_in_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    succeeding(installed, tmp_path, "-m", "rocm_perf_lab", "job=profile", "kernel=vector_add", "kernel.params.n=10000")

    (profile,) = (tmp_path / "outputs").rglob("profile.json")
    assert (tmp_path / "mlflow.db").is_file()
    succeeding(installed, tmp_path, "-m", "rocm_perf_lab.cli", "report", str(profile.parent), "-o", "page.html")
    assert run_data(tmp_path / "page.html")["profile"]["result"] == "correct"


@pytest.mark.slow
def test_an_installed_wheel_serves_agents(installed: Path, tmp_path: Path) -> None:
    """The instructions can be copied, and the MCP server lists its tools."""
    succeeding(installed, tmp_path, "-m", "rocm_perf_lab.cli", "skill", "--install", "skills")
    assert len(list((tmp_path / "skills").rglob("SKILL.md"))) == 1
    assert len(list((tmp_path / "skills").rglob("references/*.md"))) == 3

    async def tools() -> set[str]:
        server = StdioServerParameters(
            command=str(installed), args=["-m", "rocm_perf_lab.cli", "mcp"], cwd=str(tmp_path), env=_environment()
        )
        async with Client(server) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert {"profile", "optimize", "autotune", "analyze", "compare", "replay", "doctor"} <= asyncio.run(tools())


def _add_dependencies(environment: Path) -> None:
    """Make the dependencies of the test environment importable, but not rocm-perf-lab itself.

    A directory named in a .pth file is searched, but .pth files inside it (an editable install's) are not read.
    """
    (site_packages,) = environment.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
