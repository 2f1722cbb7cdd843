"""Every command in README, docs and skill works as printed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.workplace import Workplace

REPOSITORY = Path(__file__).parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")), *sorted((REPOSITORY / "skill").rglob("*.md"))]
RUNNABLE = ("python -m rocm_perf_lab", "rocm-perf ", "rocm-perf-lab ")
SETUP = ("git clone", "cd ", "make ", "pip ", "python3 -m venv", ".venv/bin/pip", "mlflow ui", "python -m benchmarks")


def commands() -> list[str]:
    """Return the lines of `bash` blocks without comments, each once."""
    lines: dict[str, None] = {}
    for page in PAGES:
        for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                command = re.sub(r"\s+#.*$", "", line).strip()
                if command and not command.startswith("#"):
                    lines[command] = None
    return list(lines)


def sessions() -> list[tuple[str, ...]]:
    """Return plain blocks that contain only commands, each once. Commands of a block run in one directory."""
    fences = [f for page in PAGES for f in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)]
    plain = [tuple(block.splitlines()) for language, block in fences if not language]
    return list(dict.fromkeys(block for block in plain if all(line.startswith("rocm-perf ") for line in block)))


def test_every_command_is_run_here_or_belongs_to_setup() -> None:
    unknown = [c for c in commands() if not c.startswith((*RUNNABLE, *SETUP))]

    assert unknown == []


@pytest.fixture(autouse=True)
def tracking_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one store for all commands, because creating a store is slow."""
    store = tmp_path_factory.getbasetemp() / "documentation.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in commands() if c.startswith(RUNNABLE)])
def test_a_command_of_the_documentation_succeeds(command: str, tmp_path: Path) -> None:
    succeed(command, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("session", sessions(), ids=lambda session: session[-1])
def test_commands_that_belong_together_succeed_in_one_directory(session: tuple[str, ...], tmp_path: Path) -> None:
    if any("./app" in command or "results.db" in command for command in session):
        prepared(tmp_path)
    for command in session:
        succeed(command, tmp_path)


def prepared(directory: Path) -> Workplace:
    """Return a stand-in for a machine with ROCm: rocprofv3, an application, and its profiler output."""
    place = Workplace(directory)
    place.profiler()
    place.application('launch("gemm_hip", m=64, n=64, k=64)\nlaunch("vector_add", n=4096)')
    succeed("rocm-perf profile ./app --deep-analysis --output before", directory)
    runs = directory / "before" / ".rocpd_profile"
    shutil.copy(next((runs / "trace").rglob("*_results.db")), directory / "results.db")
    shutil.copytree(runs / "counters_1", directory / "counter_runs")
    shutil.copytree(directory / "before" / "att", directory / "att_directory")
    return place


def succeed(command: str, directory: Path) -> None:
    arguments = shlex.split(command)
    if "new.hip" in arguments and not (directory / "new.hip").exists():  # the reader's own rewrite
        (kernel,) = [argument.removeprefix("kernel=") for argument in arguments if argument.startswith("kernel=")]
        shutil.copy(REPOSITORY / "experiments" / kernel / f"{kernel}.hip", directory / "new.hip")
    program = [sys.executable] if arguments[0] == "python" else [str(Path(sys.executable).with_name(arguments[0]))]

    environment = os.environ | {"NO_COLOR": "1", "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run([*program, *arguments[1:]], cwd=directory, capture_output=True, text=True, env=environment, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
